"""A run of a placed program sends over every link the bytes that the search counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import stepsim as st
from stepsim.machine import Machine
from stepsim.placement import places_of
from stepsim.simulation import prepare
from tests.small_programs import gated


def machine(network: str = "mesh", **values: Any) -> Machine:
    size = {} if values.pop("whole", False) else {"noc.rows": 3, "noc.cols": 5}
    own = {f"noc.{key}": value for key, value in values.items()}
    return st.load_machine("sda-1024", {"noc": network} | size | own)


ONE_WAY = {"topology": "torus", "routing": "one-way"}
NETWORKS: dict[str, dict[str, Any]] = {
    "mesh": {},
    "tree": {"broadcast": "tree"},
    "by access": ONE_WAY,
    "shorter": ONE_WAY | {"streams": "shorter"},
    "second network": ONE_WAY | {"streams": "second"},
    "trees by access": ONE_WAY | {"broadcast": "tree"},
    "shorter trees": ONE_WAY | {"broadcast": "tree", "streams": "shorter"},
    "torus of trees": {"topology": "torus", "broadcast": "tree"},
    "wormhole": {"network": "wormhole-flits", "whole": True, "broadcast": "tree"},
    "blackhole": {"network": "blackhole-flits", "whole": True},
}


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


def gathered() -> st.Program:
    """Random loads and stores, whose addresses cross the network too."""
    with st.Program("gathered", compute_bw=64) as program:
        rows = st.random_load(st.metadata([5, 0, 2, 7, 7]), st.spec(32, 64), (1, 64))
        gate, up, down = rows.map(st.fn.silu), rows.map(st.fn.gelu), rows.map(st.fn.exp)
        both = st.zip(gate, up).map(st.fn.mul)
        st.linear_store(st.zip(both, down).map(st.fn.add), "out")
    return program


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("make", [gated, gathered], ids=lambda make: make.__name__)
def test_all_networks_carry_what_was_counted(make: Callable[[], st.Program], network: str) -> None:
    program, target = make(), machine(**NETWORKS[network])
    found = st.place(program, target, effort=0.02)
    for placement in (found.placement, found.row_major):
        placed = st.simulate(program, target, place=placement)
        assert placed.status == "ok"
        counted = found.link_bytes if placement is found.placement else found.row_major_link_bytes
        carried = {link["link"]: link["link_bytes"] for link in placed.links().to_pylist()}
        assert carried == {link: counted[link] for link in carried}
        assert sum(carried.values()) == counted.sum() > 0
    metrics = found.metrics()
    assert metrics["busiest_link_bytes"] <= metrics["row_major_busiest_link_bytes"]
    streams = found.busiest_streams
    assert sum(size for _, size in streams) == metrics["busiest_link_bytes"]


def test_a_tree_with_one_reader_elsewhere_takes_the_network_that_was_counted() -> None:
    program, target = gated(), machine(**NETWORKS["shorter trees"])
    assert target.noc is not None
    found = st.place(program, target, per_tile=3, effort=0.001)
    names = list(found.placement.operators)
    # The second reader of flatten is one link from it on network 0, and six on network 1.
    places = {name: 0 if name in names[:3] else 1 for name in names}
    ports = dict.fromkeys(found.placement.ports, 0)
    placement = st.noc.Placement(program, target.noc, places, ports, per_tile=4)
    counted = found.flows.loads(found.topology, places_of(placement, found.flows))
    links = st.simulate(program, target, place=placement).links().to_pylist()
    assert {link["link"]: link["link_bytes"] for link in links} == {
        link["link"]: counted[link["link"]] for link in links
    }
    assert sum(link["link_bytes"] > 0 for link in links) > 5  # around the row, on network 1


def test_a_tree_carries_its_bytes_once() -> None:
    program = gated()
    trees, routes = (machine(broadcast=how) for how in ("tree", "routes"))
    places = {
        "linear_load#0": 0, "flatten#1": 0, "silu#2": 4, "gelu#3": 14, "zip#4": 4, "mul#5": 4,
        "linear_store#6": 4,
    }  # fmt: skip
    names = list(st.noc.Placement.row_major(program, trees.noc).operators)
    places = dict(zip(names, places.values(), strict=True))
    carried = {}
    for target in (trees, routes):
        assert target.noc is not None
        ports = {name: places[name] for name in names if name.startswith("linear")}
        placement = st.noc.Placement(program, target.noc, places, ports, per_tile=7)
        placed = st.simulate(program, target, place=placement)
        carried[target.noc.broadcast] = sum(placed.links()["link_bytes"].to_pylist())
    size = 64 * 64 * 2
    # Four links east to (0, 4), then two south to (2, 4), and two north again from there.
    assert carried == {"tree": (4 + 2 + 2) * size, "routes": (4 + 6 + 2) * size}


def test_a_slow_reader_of_a_tree_holds_up_the_others_as_it_does_without_a_network() -> None:
    with st.Program("uneven", fifo_depth=2, compute_bw=1024) as program:
        x = st.linear_load(st.spec(512, 16), tile=(16, 16)).flatten(0, 1)
        x.map(st.fn.silu, compute_bw=1).consume()
        x.map(st.fn.gelu).consume()
    runs = {how: machine(broadcast=how) for how in ("tree", "routes")}
    cycles = {how: st.simulate(program, one, place="row-major") for how, one in runs.items()}
    assert {run.status for run in cycles.values()} == {"ok"}
    alone = st.simulate(program, "sda-1024")
    assert all(alone.cycles <= run.cycles < 1.1 * alone.cycles for run in cycles.values())


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


def test_a_store_may_read_from_a_tree() -> None:
    with st.Program("two stores", compute_bw=1 << 20) as program:
        x = st.linear_load(st.spec(64, 64), tile=(16, 64), label="x").flatten(0, 1)
        for name in "ab":
            st.linear_store(x, name, label=name)
    grid = {"noc": "mesh", "noc.rows": 2, "noc.cols": 2, "noc.broadcast": "tree"}
    machine = st.load_machine("sda-1024", grid)
    assert isinstance(machine.noc, st.machine.Network)
    known = st.noc.placed_operators(program)
    operators = dict(zip(known, range(4), strict=True))
    ports = {name: 3 - place for name, place in operators.items() if known[name]}
    placement = st.noc.Placement(program, machine.noc, operators, ports)
    names = prepare(program, machine, place=placement).execute().image.unit_names
    assert [name for name in names if name.startswith("flatten#1>0: ")] == [
        "flatten#1>0: send 2",
        "flatten#1>0: receive 2",
        "flatten#1>0: send",
        "flatten#1>0: receive",
    ]
