"""A placed Qwen3-30B-A3B layer beside the same one without a network; printed with ``-s``.

2,188 operators are on the grid of Wormhole, where a search and where the order of the program puts
them. The goal is 3 times the CPU time of the run that is not placed. Limits leave room for cores
that are not quiet.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

import pytest

import stepsim as st
from bench.measures import qwen_layer
from stepsim.machine import Machine
from stepsim.simulation import prepare

_TURNS: Final = 5
_PER_TILE: Final = 28
_TILE: Final = 65536  # flits: most tiles go through a router as a whole


def _machine(quantum: int) -> Machine:
    changes = {"noc": "wormhole-flits", "noc.flits.quantum": quantum}
    return st.load_machine("sda-1024", changes)


@cache
def _found() -> dict[str, Any]:
    """Places by the names of operators, as the search finds them."""
    workload, data = qwen_layer()
    built = workload.build(data)
    found = st.place(
        built.program, _machine(256), bindings=built.bindings(data), per_tile=_PER_TILE
    )
    return {"operators": found.placement.operators, "ports": found.placement.ports}


def _placement(where: str, program: st.Program, machine: Machine) -> st.noc.Placement:
    assert isinstance(machine.noc, st.machine.Network)
    if where == "found":
        return st.noc.Placement(program, machine.noc, **_found(), per_tile=_PER_TILE)
    return st.noc.Placement.row_major(program, machine.noc, per_tile=_PER_TILE)


def _least(work: Callable[[], Any]) -> float:
    fastest = float("inf")
    for _ in range(_TURNS):
        start = time.process_time()
        work()
        fastest = min(fastest, time.process_time() - start)
    return fastest


@pytest.mark.parametrize(
    ("where", "quantum", "limit"),
    [
        ("found", 256, 20),
        ("found", _TILE, 7),
        ("row-major", 256, 130),
        ("row-major", _TILE, 10),
    ],
)
def test_a_prepared_run(where: str, quantum: int, limit: float) -> None:
    workload, data = qwen_layer()
    built = workload.build(data)
    bindings = built.bindings(data)
    machine = _machine(quantum)
    alone = prepare(built.program, machine)
    placed = prepare(built.program, machine, place=_placement(where, built.program, machine))
    cycles = placed.run(bindings).cycles, alone.run(bindings).cycles
    base, found = (_least(partial(one.run, bindings)) for one in (alone, placed))
    print(
        f"prepared, {where}, segments of {quantum} flits: {1e3 * found:.0f} ms, "
        f"{found / base:.1f} times {1e3 * base:.1f} ms; cycles {cycles[0]:,} and {cycles[1]:,}"
    )
    assert found / base < limit


@pytest.mark.parametrize(("quantum", "limit"), [(256, 3.0), (_TILE, 2.5)])
def test_a_simulation_of_a_program(quantum: int, limit: float) -> None:
    """With its image, which has units at both ends of every route."""
    workload, data = qwen_layer()
    machine = _machine(quantum)

    def seconds(placed: bool) -> float:
        built = workload.build(data)
        bindings = built.bindings(data)
        place = _placement("found", built.program, machine) if placed else None
        start = time.process_time()
        st.simulate(built.program, machine, bindings=bindings, place=place)
        return time.process_time() - start

    seconds(placed=True)  # compiles the engine
    base, found = (min(seconds(placed) for _ in range(_TURNS)) for placed in (False, True))
    print(
        f"simulated, found, segments of {quantum} flits: {1e3 * found:.0f} ms, "
        f"{found / base:.1f} times {1e3 * base:.0f} ms"
    )
    assert found / base < limit
