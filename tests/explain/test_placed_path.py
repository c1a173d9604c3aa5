"""The critical path of placed programs: which route, what it takes alone, what waits for links."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given

import stepsim as st
from stepsim.explain.path import path_of, port_names
from stepsim.lowering import Network, TimingParams
from stepsim.simulation import prepare
from tests.explain.test_path import assert_true, assert_whole, check, recorded, rows_of
from tests.oracle.build import NetBuilder
from tests.oracle.random_networks import random_networks, routed_networks
from tests.oracle.random_places import placed, placed_networks
from tests.property_profile import profile
from tests.simulation.placed_programs import placed_programs


@pytest.mark.slow
@profile(60)
@given(placed_networks(random_networks(max_slack=1)))
def test_segments_add_up_in_random_networks(network: Network) -> None:
    check(network)


@pytest.mark.slow
@profile(30)
@given(placed_networks(routed_networks()))
def test_segments_add_up_in_routed_networks(network: Network) -> None:
    check(network)


@pytest.mark.slow
@profile(40)
@given(placed_programs())
def test_segments_add_up_in_random_programs(case: Any) -> None:
    program, machine, placement = case
    prepared = prepare(program, machine, place=placement)
    run = prepared.execute(keep_tokens=True, record="paces")
    path = path_of(run, prepared.timing, port_names(prepared, run))
    assert path.cycles == run.totals.cycles == prepared.run().cycles
    assert_whole(path)
    assert_true(run, path, 0)
    names = set(prepared_links(prepared))
    assert {row["link"] for row in rows_of(path)} - {None} <= names


def prepared_links(prepared: Any) -> list[str]:
    loads = prepared.loads(prepared.execute())
    return [loads.port_name(r, h) for r, (_, p) in enumerate(loads.routes) for h in range(len(p))]


def test_a_token_alone_takes_its_route() -> None:
    b = NetBuilder(TimingParams(), 8)
    tile = {"tile": [4, 16, 2, 0, 4], "level": 0}
    b.unit("source", "Src", [], ["a"], tokens=[tile], n=1)
    b.unit("sink", "Consumer", ["a"], [])
    run = recorded(placed(b.network(), [0, 2], rows=1, cols=3))
    path = path_of(run, TimingParams())
    assert_whole(path)
    (crossing,) = [row for row in rows_of(path) if row["cause"] == "network"]
    assert crossing["operator"] == "a: receive"
    assert crossing["fifo"] == "a"
    assert crossing["cycles"] == 2 + (4 + 1) * 3 + 8 - 1


def test_two_streams_of_one_link_wait_for_it() -> None:
    with st.Program("shared", compute_bw=1 << 20) as program:
        parts = [st.linear_load(st.spec(64, 64), tile=(16, 64), label=name) for name in "ab"]
        for part in parts:
            part.flatten(0, 1).map(st.fn.silu).consume()
    machine = st.load_machine("sda-1024", {"noc": "mesh", "noc.rows": 1, "noc.cols": 8})
    names = ["a#0", "b#1", "flatten#2", "silu#3", "consume#4", "flatten#5", "silu#6", "consume#7"]
    known = list(st.noc.Placement.row_major(program, machine.noc).operators)  # type: ignore[arg-type]
    assert sorted(known) == sorted(names)
    places = {name: place for place, name in enumerate(names)}
    placement = st.noc.Placement(program, machine.noc, places)  # type: ignore[arg-type]
    path = st.explain.critical_path(prepare(program, machine, place=placement))
    assert_whole(path)
    waits: dict[str, int] = defaultdict(int)
    for row in rows_of(path):
        if row["cause"] == "link wait":
            waits[row["link"]] += row["cycles"]
    assert waits
    assert set(waits) <= {
        word.format(place)
        for place in range(8)
        for word in ("{} east", "{} west", "out of {}", "into {}")
    }
    assert "link wait: " in str(path)


def test_the_readers_of_a_tree_have_their_own_ways() -> None:
    with st.Program("spread", compute_bw=1 << 20) as program:
        x = st.linear_load(st.spec(256, 64), tile=(16, 64), label="x").flatten(0, 1)
        for name in "ab":
            x.map(st.fn.silu, label=name).consume(label=f"{name}_end")
    grid = {"noc": "mesh", "noc.rows": 1, "noc.cols": 6, "noc.broadcast": "tree"}
    machine = st.load_machine("sda-1024", grid)
    prepared = prepare(program, machine, place="row-major")
    assert "flatten#1>0: send" in prepared.execute().image.unit_names
    path = st.explain.critical_path(prepared)
    assert_whole(path)
    assert path.cycles == prepared.run().cycles
    assert "network" in path.totals("cause")["cause"].to_pylist()
    run = prepared.result(record=True)
    assert run.events is not None
    passed: dict[str, int] = defaultdict(int)
    for one in run.events.passed:
        passed[run.events.ports[one["port"]]] += int(one["end"] - one["begin"])
    for link in run.links().to_pylist():
        assert passed[link["link_name"]] == link["link_flits"]
