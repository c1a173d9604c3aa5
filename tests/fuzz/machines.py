"""Machines drawn from the schema of their files: any built-in one, with any of its keys changed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cache
from math import prod
from typing import Any

from stepsim.kernels.memory.dispatch import MEMORY_MODELS
from stepsim.machine import list_machines, load_machine, machine_json_schema
from tests.property_profile import THOROUGH

__all__ = ["drawn_changes", "drawn_chips", "drawn_machine", "drawn_network", "machine_keys"]

_LARGE = 1 << 12
"""Most of a number without an unusual draw: a machine with 2**20 of everything adds nothing."""


@cache
def _bases() -> list[str]:
    # Engines of their own take half a minute to compile, which a short draw has no time for.
    return [
        name
        for name in list_machines()
        if THOROUGH or not MEMORY_MODELS[load_machine(name).hbm.model].addressed
    ]


@cache
def machine_keys() -> dict[str, dict[str, Any]]:
    """The schema of every value of a machine, by its key, as in ``hbm.dram.nCL``."""
    schema = machine_json_schema()
    return dict(_leaves(schema, schema["$defs"], ""))


def _leaves(
    of: Mapping[str, Any], known: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, schema in of["properties"].items():
        options = schema.get("anyOf", [schema])
        parts = [option["$ref"] for option in options if "$ref" in option]
        if parts:
            part = known[parts[0].rpartition("/")[2]]
            yield from _leaves(part, known, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", schema


def drawn_changes(rng: random.Random) -> dict[str, Any]:
    """Values of some keys, each as the schema allows it."""
    keys = machine_keys()
    names = [name for name in sorted(keys) if name not in ("name", "description", "model")]
    changes = {name: _value(rng, keys[name]) for name in rng.sample(names, rng.randint(0, 4))}
    if any(name.startswith("energy.") for name in changes):
        changes.setdefault("energy.sources", "drawn")
    return changes


def drawn_machine(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """The name of a machine, and values of some of its keys, which may contradict each other."""
    name = rng.choice(_bases())
    changes = drawn_changes(rng)
    # Keys of a DRAM that the machine has not are refused, and nothing more is learned.
    if load_machine(name).hbm.dram is None and rng.random() < 0.95:
        foreign = ("hbm.dram.", "hbm.port.", "hbm.addresses.", "hbm.arbiter")
        changes = {key: given for key, given in changes.items() if not key.startswith(foreign)}
    return name, changes


def drawn_network(rng: random.Random) -> dict[str, Any]:
    """A network that placed programs can run on."""
    topology = rng.choice(["mesh", "mesh", "torus", "torus", "ring", "switch", "links"])
    rows, cols = rng.randint(1, 4), rng.randint(1, 4)
    made: dict[str, Any] = {"name": "drawn", "topology": topology, "rows": rows, "cols": cols}
    if topology in ("ring", "switch", "links"):
        made |= {"rows": 1, "cols": rng.randint(3, 8)}
    if topology == "torus" and rng.random() < 0.6:
        ways = ["by-access", "shorter", "first", "second"]
        made |= {"routing": "one-way", "streams": rng.choice(ways)}
    if topology == "links":
        last = made["cols"] - 1
        line = " ".join(f"{i}-{i + 1}" for i in range(last))
        around = " ".join(f"{i}>{i + 1}" for i in range(last)) + f" {last}>0"
        made["links"] = rng.choice([line, around])
    elif rng.random() < 0.5:
        made["broadcast"] = "tree"
    flits: dict[str, Any] = {"flit_bytes": rng.choice([1, 7, 32, 256])}
    choices = {
        "router": [0, 1, 4], "wire": [0, 1, 2], "inject": [0, 2], "quantum": [1, 2, 5, 256],
        "window": [1, 2, 30],
    }  # fmt: skip
    flits |= {key: rng.choice(values) for key, values in choices.items() if rng.random() < 0.6}
    if rng.random() < 0.2:
        made["rates"] = {"link": 3.5, "source": {"worker": 1.0}, "sink": {"worker": 2.0}}
    return made | {"flits": flits}


def drawn_chips(rng: random.Random) -> tuple[int, dict[str, Any]]:
    """Number of chips, and the keys of a machine that has them."""
    count = rng.choice([2, 3, 4, 8, [2, 2], [3, 2]])
    topologies = ["ring", "switch", "fully-connected"]
    several = isinstance(count, list) and rng.random() < 0.5
    keys = {
        "clock_ghz": rng.choice([1, 0.7, 2.5]),
        "chips.count": count,
        "chips.topology": rng.sample(topologies, 2) if several else rng.choice(topologies),
        "chips.gib_per_s": rng.choice([0.5, 7, 50, 1e6]),
        "chips.latency_ns": rng.choice([0, 0.5, 20, 500]),
    }
    return prod(count) if isinstance(count, list) else count, keys


def _value(rng: random.Random, schema: Mapping[str, Any]) -> Any:
    schema = rng.choice(schema.get("anyOf", [schema]))
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if schema["type"] == "null":
        return None
    if schema["type"] == "string":
        return rng.choice(["bf16", "f32", "published", "uncontended", "interleaved"])
    least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    if schema["type"] == "number":
        return rng.choice([1e-9, 0.5, 1.0, 3.5, 1e6, least + 1.0])
    most = schema.get("maximum", _LARGE)
    if rng.random() < 0.1:
        return rng.choice([least, most])
    return rng.randint(least, min(most, rng.choice([least + 8, least + 300, _LARGE])))
