"""The memory model ``dram``: ports, arbiter and request path, against one iteration per cycle."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as hs

import stepsim as st
from stepsim.graph import wire
from stepsim.lowering import Network, checked_places, network_of
from tests.engine_backend import run_engine
from tests.oracle.compare import assert_same
from tests.oracle.interpreter import interpret
from tests.oracle.random_dram import with_dram
from tests.oracle.random_networks import random_networks, routed_networks
from tests.property_profile import profile

NAMES = ("engine", "interpreter")

pytestmark = pytest.mark.slow
"""They compile an engine."""


@profile(25, thorough=1500)
@given(with_dram(random_networks(max_slack=1)))
def test_engine_agrees_with_the_interpreter(network: Network) -> None:
    assert_same(run_engine(network), interpret(network), accounts=True, names=NAMES)


@profile(10, thorough=500)
@given(with_dram(routed_networks()))
def test_routed_tuples_and_buffers_agree(network: Network) -> None:
    assert_same(run_engine(network), interpret(network), accounts=True, names=NAMES)


def _chosen(machine: str, loads: list[int], stores: list[int]) -> Network:
    """Tiles of 256 bytes and 4 of padding, so that some share a request of 512 bytes."""
    with st.Program("chosen", compute_bw=64) as program:
        st.random_load(st.metadata(loads), st.spec(32, 16), (8, 16)).consume()
        data = st.linear_load(st.spec(8 * len(stores), 16), (8, 16)).flatten(0, 1)
        out = st.spec(32, 16, name="out")
        st.random_store(st.metadata(stores), data, out).consume()
    return network_of(wire(program, {}), st.load_machine(machine), None)


@profile(20, thorough=500)
@given(
    hs.sampled_from(["hdl-dram", "hdl-read-ahead", "hdl-arbiter"]),
    hs.lists(hs.integers(0, 3), min_size=1, max_size=5),
    hs.permutations(range(4)),
)
def test_random_accesses_share_requests_with_the_access_before(
    machine: str, loads: list[int], stores: list[int]
) -> None:
    network = _chosen(machine, loads, stores)
    assert_same(run_engine(network), interpret(network), accounts=True, names=NAMES)


def test_the_first_tile_of_a_stream_shares_no_request_wherever_it_begins() -> None:
    with st.Program("moved", compute_bw=64) as program:
        st.linear_load(st.spec(32, 16, name="x"), (8, 16)).flatten(0, 1).consume()
    target = st.load_machine("hdl-dram")
    places = {"x": {"base": 160, "layout": "stream"}}
    # Four tiles of 256 bytes and 4 of padding, from byte 160 to 1200: the first three of 512.
    assert st.simulate(program, target, addresses=places).memory_requests == 3
    network = network_of(wire(program, {}), target, None, checked_places(places))
    assert_same(run_engine(network), interpret(network), accounts=True, names=NAMES)


@pytest.mark.parametrize(
    ("loads", "requests"),
    [([1], 2), ([0, 1], 2), ([1, 1], 4), ([1, 2], 2), ([2, 1], 3), ([0, 0], 2)],
)
def test_requests_of_random_accesses(loads: list[int], requests: int) -> None:
    with st.Program("chosen") as program:
        st.random_load(st.metadata([*loads, 0, 0, 0, 0]), st.spec(48, 16), (8, 16)).consume()
    # Tile 0 begins anew, with one request.
    assert st.simulate(program, "hdl-dram").memory_requests == requests + 4
