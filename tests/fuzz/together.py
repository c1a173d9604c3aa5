"""Programs over all features together: operators on chips or places of a network, any memory,
recording, explanations, disturbances, sizes, energy, and layers of services.

A program without nasty arguments runs on a machine with any of its keys drawn. What is exported is
finite or null, a second run and a recorded one are the same, the plain interpreter gives the same
tokens, what crossed links is what was sent times the links on the way, and what looks at the run
agrees with it.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import stepsim as st
from stepsim.noc import Placement, placed_operators
from tests.fuzz.api import grown_program
from tests.fuzz.explanations import LOOKS, LOOKS_AT_ENDS, Seen, check_numbers
from tests.fuzz.laws import (
    check_chips,
    check_links,
    check_oracle,
    check_result,
    check_same,
    check_totals,
)
from tests.fuzz.machines import drawn_chips, drawn_machine, drawn_network
from tests.fuzz.programs import Grown
from tests.fuzz.script import Refused, Script
from tests.fuzz.workloads import TINY

__all__ = ["one"]

_STEPS = 5_000
_ORACLE_STEPS, _ORACLE_CYCLES = 1_500, 20_000
"""Longest runs that are repeated by the interpreter, whose memory ticks every cycle."""

_LOOKS = 3


def one(rng: random.Random) -> str:
    """A program or a layer of a service, and some looks at its run."""
    script = Script(rng, dirt=0.0)
    try:
        (_layer if rng.random() < 0.1 else _program)(script)
    except Refused:
        return "refused"
    return "accepted"


def _program(script: Script) -> None:
    rng = script.rng
    kind = rng.choice(["plain", "placed", "placed", "chips"])
    name, changes = drawn_machine(rng)
    if kind == "placed" or rng.random() < 0.1:
        changes |= {"noc": drawn_network(rng)}
    chips = 1
    if kind == "chips" or rng.random() < 0.1:
        chips, stated = drawn_chips(rng)
        changes |= stated
    machine = script.exactly("st.load_machine", st.load_machine, name, changes)
    grown = Grown(script, chips if kind == "chips" else 1)
    program = grown_program(grown)
    given = {
        "machine": machine,
        "bindings": dict(grown.routings),
        "fifo_depth": rng.choice([None, None, 1, 2, 64]),
    }
    if kind == "placed":
        given["place"] = _place(script, program, given)
    result = _obey(script, program, given)
    if result.status == "ok":
        check_totals(program, result, dict(grown.routings) | dict(grown.lengths))


def _layer(script: Script) -> None:
    """A step of a service, on one chip or several."""
    rng = script.rng
    name, changes = drawn_machine(rng)
    splits = [{}, {"tp": 2}, {"dp": 2, "ep": 2}, {"tp": 2, "pp": 2}, {"tp": 2, "ep": 2, "dp": 2}]
    split = rng.choice(splits)
    if split:
        more = {"count": 8, "topology": rng.choice(["ring", "switch", "fully-connected"])}
        changes |= drawn_chips(rng)[1] | {f"chips.{key}": value for key, value in more.items()}
        changes |= {"chips.gib_per_s": rng.choice([1, 50]), "chips.latency_ns": 20}
    machine = script.exactly("st.load_machine", st.load_machine, name, changes)
    options = {
        "model": TINY, "tile": rng.choice([1, 2, "dynamic"]), "tile_inter": rng.choice([16, 32]),
        "kv_tile": rng.choice([8, 32]), "query_tile": rng.choice([4, 16]),
        "part": rng.choice(["layer", "layer", "head", "layer+head"]),
    }  # fmt: skip
    workload = script.exactly("Step.of", st.workloads.Step.of, **options, **split)
    rows = rng.randint(2, 5)
    new = np.array([rng.choice([1, 1, 3]) for _ in range(rows)])
    data = st.workloads.Data.of(
        routing=np.array([rng.sample(range(4), 2) for _ in range(int(new.sum()))]),
        kv_lengths=[rng.randint(0, 90) for _ in range(rows)],
        new_tokens=new,
    )
    built = script.exactly("step.build_for", workload.build_for, data, machine)
    given = {
        "machine": machine, "bindings": script.exactly("bindings", built.bindings, data),
        "fifo_depth": rng.choice([None, None, 64]),
    }  # fmt: skip
    _obey(script, built.program, given)


def _place(script: Script, program: Any, given: dict[str, Any]) -> Any:
    """One of the ways to say where operators are."""
    rng, network = script.rng, given["machine"].noc
    way = rng.choice(["row-major", "drawn", "drawn", "several tiles", "found", "file"])
    if way == "row-major":
        return way
    names = placed_operators(program)
    if way == "found":
        found = script.exactly(
            "st.place", st.place, program, given["machine"], bindings=given["bindings"],
            per_tile=max(1, len(names)), effort=0.001,
        )  # fmt: skip
        assert found.link_bytes.max(initial=0) <= found.row_major_link_bytes.max(initial=0)
        return found.placement
    places = range(network.places)
    operators: dict[str, Any] = {name: rng.choice(places) for name in names}
    if way == "several tiles":
        several = {name: rng.sample(places, min(2, len(places))) for name in names}
        operators = {
            name: [divmod(tile, network.cols) for tile in several[name]]
            if rng.random() < 0.4
            else one
            for name, one in operators.items()
        }
    ports = {name: rng.choice(places) for name, has in names.items() if has and rng.random() < 0.7}
    made = script.exactly(
        "Placement", Placement, program, network, operators, ports, per_tile=2 * len(names) + 1
    )
    if way != "file":
        return made
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "placement.yaml"
        made.save(path)
        assert Placement.from_yaml(path, program, network) == made, "a file of another placement"
    return made


def _obey(script: Script, program: Any, given: dict[str, Any]) -> st.Result:
    """Run the program, check all laws, and look at the run."""
    limits = st.Limits(max_steps=_STEPS)
    result = script.exactly("st.simulate", st.simulate, program, **given, limits=limits)
    check_result(result)
    check_numbers(result)
    check_same(result, st.simulate(program, **given, limits=limits))
    several = hasattr(result.carried, "chips")
    if several:
        check_chips(result)
    else:
        recorded = script.exactly(
            "st.simulate", st.simulate, program, **given, limits=limits, record=True
        )
        check_same(result, recorded)
        if "place" in given:
            check_links(program, given, result, recorded)
        result = recorded
    short = result.engine_steps < _ORACLE_STEPS and result.cycles < _ORACLE_CYCLES
    if short and result.status != "limit":
        depth, place = given["fifo_depth"], given.get("place")
        check_oracle(program, given["machine"], given["bindings"], depth, place)
    prepared = st.prepare(
        program, given["machine"], fifo_depth=given["fifo_depth"], place=given.get("place")
    )
    seen = Seen(program, prepared, given["bindings"], limits, result)
    looks = LOOKS + (LOOKS_AT_ENDS if result.status == "ok" else ())
    for look in script.rng.sample(looks, _LOOKS):
        try:
            look(script, seen)
        except Refused:
            # Only what needs a recording, or has no meaning here, is refused.
            continue
    return result
