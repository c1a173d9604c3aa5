"""The critical path of programs on several chips: over which links, and what waits for them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as hs

import stepsim as st
from stepsim.explain.path import path_of, port_names
from stepsim.lowering import Network, TimingParams
from stepsim.simulation import prepare
from tests.explain.test_path import assert_true, assert_whole, check, recorded, rows_of
from tests.oracle.build import NetBuilder
from tests.oracle.random_chips import TOPOLOGIES, chip_networks, chip_path, on_chips
from tests.oracle.random_networks import faulty_networks, random_networks, routed_networks
from tests.property_profile import profile
from tests.simulation.chip_programs import chip_machine, chip_programs, reduced

TILE = {"tile": [16, 64, 2, 0, 16], "level": 0}  # 2048 bytes


@pytest.mark.slow
@profile(60, thorough=1000)
@given(chip_networks(random_networks(max_slack=1)))
def test_segments_add_up_in_random_networks(network: Network) -> None:
    check(network)


@pytest.mark.slow
@profile(30, thorough=500)
@given(chip_networks(hs.one_of(routed_networks(), faulty_networks())))
def test_segments_add_up_in_routed_and_faulty_networks(network: Network) -> None:
    check(network)


@pytest.mark.slow
@profile(40, thorough=500)
@given(chip_programs())
def test_segments_add_up_in_random_programs(case: tuple[st.Program, st.Machine]) -> None:
    program, machine = case
    prepared = prepare(program, machine)
    run = prepared.execute(keep_tokens=True, record="paces")
    path = path_of(run, prepared.timing, port_names(prepared, run))
    assert path.cycles == run.totals.cycles == prepared.run().cycles
    assert_whole(path)
    assert_true(run, path, 0)
    loads: Any = prepared.loads(run)
    names = set() if loads is None else set(loads.names)
    assert {row["link"] for row in rows_of(path)} - {None} <= names


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_token_alone_takes_its_route(topology: str) -> None:
    b = NetBuilder(TimingParams(), 8)
    b.unit("source", "Src", [], ["a"], tokens=[TILE], n=1)
    b.unit("sink", "Consumer", ["a"], [])
    places = [0, 2]
    run = recorded(
        on_chips(b.network(), places, topology=topology, chips=4, latency=100.25, rate=53.7)
    )
    path = path_of(run, TimingParams())
    assert_whole(path)
    (crossing,) = [row for row in rows_of(path) if row["cause"] == "network"]
    assert crossing["operator"] == "a: receive"
    assert crossing["fifo"] == "a"
    hops = len(chip_path(topology, 4, *places))
    assert crossing["cycles"] == hops * int(100.25 + 2048 / 53.7)


def test_a_full_link_is_waited_for() -> None:
    with st.Program("shared", compute_bw=1 << 20, par_dispatch=16) as program:
        for name in "ab":
            with st.chip(0):
                x = st.linear_load(st.spec(512, 64, name=name), tile=(16, 64), label=name)
            with st.chip(1):
                x.flatten(0, 1).consume()
    prepared = prepare(program, chip_machine(chips__gib_per_s=5, chips__latency_ns=10))
    path = st.explain.critical_path(prepared)
    assert_whole(path)
    waits = path.totals(("cause", "link")).to_pylist()
    assert waits[0]["cause"] == "link wait"
    assert waits[0]["link"] == "chip 0 to chip 1"
    assert waits[0]["share"] > 0.5
    assert "link wait: chip 0 to chip 1" in str(path)


@pytest.mark.parametrize("algorithm", ["ring", "direct", "halving-doubling"])
def test_the_path_of_a_collective_passes_its_links(algorithm: str) -> None:
    prepared = prepare(reduced(4, algorithm=algorithm), chip_machine())
    path = st.explain.critical_path(prepared)
    assert_whole(path)
    assert path.cycles == prepared.run().cycles
    shares = {row["cause"]: row["share"] for row in path.totals("cause").to_pylist()}
    assert shares["network"] > 0.5
