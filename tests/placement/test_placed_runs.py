"""A run of a placed program sends over every link the bytes that the search counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import stepsim as st
from stepsim.machine import Machine


def machine() -> Machine:
    return st.load_machine("sda-1024", {"noc": "mesh", "noc.rows": 3, "noc.cols": 5})


def gated() -> st.Program:
    with st.Program("gated", compute_bw=1024) as program:
        x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
        gate, up = x.map(st.fn.silu), x.map(st.fn.gelu)
        st.linear_store(st.zip(gate, up).map(st.fn.mul), "out")
    return program


def buffered() -> st.Program:
    with st.Program("buffered", compute_bw=256) as program:
        x = st.linear_load(st.spec(32, 64), tile=(8, 16))
        again = x.bufferize(1).streamify(repeat=3)
        st.linear_store(again.flatten(0, 2).map(st.fn.silu), "out")
    return program


def multiplied() -> st.Program:
    with st.Program("multiplied", compute_bw=512) as program:
        x = st.linear_load(st.spec(16, 64), tile=(16, 64)).flatten(0, 1)
        st.linear_store(st.nn.linear(x, st.spec(64, 64)), "out")
    return program


@pytest.mark.parametrize("make", [gated, buffered, multiplied], ids=lambda make: make.__name__)
def test_links_carry_what_was_counted(make: Callable[[], st.Program]) -> None:
    program, target = make(), machine()
    found = st.place(program, target, effort=0.05)
    placed = st.simulate(program, target, place=found.placement)
    assert placed.status == "ok"
    carried = {link["link"]: link["link_bytes"] for link in placed.links().to_pylist()}
    assert sum(carried.values()) > 0
    assert carried == {link: found.link_bytes[link] for link in carried}
    assert sum(carried.values()) == found.metrics()["hop_bytes"]


@pytest.mark.parametrize("make", [gated, buffered, multiplied], ids=lambda make: make.__name__)
def test_a_placed_run_takes_longer_than_one_without_a_network(
    make: Callable[[], st.Program],
) -> None:
    program, target = make(), machine()
    assert target.noc is not None
    placed = st.simulate(program, target, place=st.noc.Placement.row_major(program, target.noc))
    assert placed.cycles > st.simulate(program, target).cycles
    assert placed.offchip_bytes == st.simulate(program, target).offchip_bytes


def test_routed_rows_are_counted_as_routed() -> None:
    with st.Program("two experts", compute_bw=64) as program:
        table = st.routing(st.spec(8, 1), experts=2)
        x = st.linear_load(st.spec(8, 8), tile=(1, 8)).flatten(0, 1)
        for part in st.partition(x, table.multihot()):
            part.promote().accum(st.fn.pack_rows, rank=1).map(st.fn.silu).consume()
    bindings = {table: [[0], [1], [0], [0], [0], [1], [0], [1]]}
    found = st.place(program, machine(), bindings=bindings, effort=0.05)
    placed = st.simulate(program, machine(), bindings=bindings, place=found.placement)
    carried = {link["link"]: link["link_bytes"] for link in placed.links().to_pylist()}
    assert carried == {link: found.link_bytes[link] for link in carried}
    assert sum(carried.values()) == found.metrics()["hop_bytes"] > 0
