"""Machines drawn from the schema of their files: any built-in one, with any of its keys changed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from stepsim.kernels.memory.dispatch import MEMORY_MODELS
from stepsim.machine import list_machines, load_machine, machine_json_schema
from tests.property_profile import THOROUGH

__all__ = ["drawn_changes", "drawn_machine", "machine_keys"]

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
