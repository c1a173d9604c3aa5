"""Pieces of a tile lie where the tile lies: addresses of downtiled programs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import stepsim as st
from stepsim.lowering.addresses import address_map
from stepsim.lowering.network_of_program import timing_of
from stepsim.simulation import prepare, simulate
from tests.oracle.dram_node import DramPort

REQUEST = 32
MACHINE = st.load_machine(
    "sda-1024",
    {"hbm.model": "dram", "hbm.request_bytes": REQUEST, "hbm.dram.preset": "hbm2-hdl"}
    | dict.fromkeys(("hbm.channels", "hbm.latency", "hbm.interval", "hbm.startup")),
)


def runs_of(program: st.Program, name: str, indices: list[int]) -> list[set[int]]:
    """The requests of each of these accesses of an operator."""
    prepared = prepare(program, MACHINE)
    timing = timing_of(MACHINE)
    places = address_map(prepared.wiring, MACHINE, timing.dram)
    (unit,) = (one for one in places.accesses if one.startswith(f"{name}#"))
    port = DramPort(places.accesses[unit], REQUEST)
    found = []
    for index in indices:
        port.ask(0, index)
        found.append(set(port.todo))
        port.todo.clear()
    return found


def joined(runs: list[set[int]], count: int) -> list[set[int]]:
    return [set().union(*runs[i : i + count]) for i in range(0, len(runs), count)]


def stored() -> None:
    x = st.linear_load(np.ones((128, 192), np.float32), (32, 48))
    st.linear_store(x.map(st.fn.silu), "out", label="access")


def loaded() -> None:
    index = st.metadata([5, 0, 3, 7])
    st.random_load(index, np.ones((128, 192), np.float32), (32, 48), label="access").consume()


def scattered() -> None:
    x = st.linear_load(np.ones((128, 48), np.float32), (32, 48)).flatten(0, 1)
    table = st.spec(128, 192, dtype="f32", name="table")
    st.random_store(st.metadata([5, 0, 3, 7]), x, table, label="access").consume()


def programs(build: Callable[[], None]) -> tuple[st.Program, st.Program]:
    """A program of whole tiles, and the same one of pieces."""
    with st.Program("pieces", compute_bw=64) as program:
        build()
    return program, program.downtile()


each_access = pytest.mark.parametrize("build", [stored, loaded, scattered])


@each_access
def test_pieces_lie_where_their_tile_lies(build):
    program, small = programs(build)
    whole = list(range(16)) if build is stored else [5, 0, 3, 7]
    pieces = [6 * i + piece for i in whole for piece in range(6)]
    before = runs_of(program, "access", whole)
    after = runs_of(small, "access", pieces)
    assert joined(after, 6) == before
    # A piece of 16 x 16 scalars has 16 runs, of two requests each.
    assert {len(one) for one in after} == {32}


@pytest.mark.slow  # compiles the engine of the DRAM
@each_access
def test_pieces_move_the_bytes_of_their_tile(build):
    program, small = programs(build)
    result = simulate(small, MACHINE)
    assert (result.status, result.bus_bytes) == ("ok", simulate(program, MACHINE).bus_bytes)
