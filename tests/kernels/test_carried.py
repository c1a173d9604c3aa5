"""Tokens that cross a network on chip: the engine against the plain interpreter, and laws."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from stepsim.errors import LoweringError
from stepsim.kernels import driver
from stepsim.lowering import Network, TimingParams, build_image, builder
from tests.engine_backend import run_engine
from tests.oracle.build import NetBuilder
from tests.oracle.compare import assert_same
from tests.oracle.interpreter import interpret
from tests.oracle.invariants import check_all
from tests.oracle.random_networks import faulty_networks, random_networks, routed_networks
from tests.oracle.random_places import placed, placed_networks
from tests.property_profile import profile

NAMES = ("engine", "interpreter")


@pytest.mark.slow
@profile(60)
@given(placed_networks(random_networks(max_slack=1)))
def test_engine_agrees_with_the_interpreter(network: Network) -> None:
    engine = run_engine(network)
    assert_same(engine, interpret(network), accounts=True, names=NAMES)
    check_all(network, engine)


@pytest.mark.slow
@profile(50)
@given(placed_networks(st.one_of(routed_networks(), faulty_networks())))
def test_routed_and_faulty_networks_agree(network: Network) -> None:
    engine = run_engine(network)
    assert_same(engine, interpret(network), accounts=True, names=NAMES)
    check_all(network, engine)


@pytest.mark.slow
@profile(30)
@given(placed_networks(random_networks(max_slack=1)), st.integers(0, 2**16))
def test_order_of_units_in_the_interpreter_changes_nothing(network: Network, seed: int) -> None:
    assert_same(interpret(network), interpret(network, host_order_seed=seed), accounts=True)


def _stream(tokens: int, tile: list[int], capacity: int | None = 8) -> NetBuilder:
    b = NetBuilder(TimingParams(), capacity)
    b.unit("source", "Src", [], ["a"], tokens=[{"tile": tile, "level": 0}] * tokens, n=1)
    b.unit("sink", "Consumer", ["a"], [])
    return b


@pytest.mark.parametrize(("to", "hops"), [(1, 1), (2, 2), (5, 3)])
@pytest.mark.parametrize("columns", [1, 16, 40])
def test_a_token_alone_takes_what_the_formula_says(to: int, hops: int, columns: int) -> None:
    network = placed(_stream(1, [4, columns, 2, 0, 4]).network(), [0, to], rows=2, cols=3)
    engine = run_engine(network)
    created = engine.tokens["a: to network"][0][0]
    flits = -(-4 * columns * 2 // 16)
    assert engine.tokens["a"][0][0] - created == 2 + (4 + 1) * (hops + 1) + flits - 1


def test_a_fifo_within_a_place_is_no_route() -> None:
    network = _stream(5, [4, 4, 2, 0, 4]).network()
    assert placed(network, [3, 3], rows=2, cols=2) is network


def test_a_full_link_carries_its_bandwidth() -> None:
    b = NetBuilder(TimingParams(), 8)
    tokens = [{"tile": [16, 16, 2, 0, 16], "level": 0}] * 200
    for name in "ab":
        b.unit(f"source {name}", "Src", [], [name], tokens=tokens, n=1)
        b.unit(f"sink {name}", "Consumer", [name], [])
    # Both streams pass the link from place 1 to place 2.
    network = placed(b.network(), [0, 2, 1, 3], rows=1, cols=4)
    engine = run_engine(network)
    flits = 2 * 200 * 32
    arrivals = [token[0] for name in "ab" for token in engine.tokens[name]]
    assert flits <= max(arrivals) <= 1.001 * flits + 2 + 5 * 4


def test_a_run_with_too_little_room_for_events_begins_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = placed(
        _stream(30, [8, 8, 2, 0, 8]).network(), [0, 8], rows=3, cols=3, flit_bytes=1, quantum=1
    )
    whole = run_engine(network)
    monkeypatch.setattr(builder, "_FIRST_EVENTS", 3)
    monkeypatch.setattr(builder, "_EVENTS_OF_ROUTE", 0)
    assert_same(whole, run_engine(network), accounts=True)


def test_a_sender_that_was_parked_comes_before_other_packets_of_its_cycle() -> None:
    b = NetBuilder(TimingParams(), 8)
    tile = {"tile": [4, 16, 2, 0, 4], "level": 0}
    b.unit("source a", "At", [], ["a"], tokens=[tile] * 3, times=[0, 10, 25], tail=0)
    b.unit("source b", "Paced", [], ["b"], tokens=[tile], times=[25], tail=0)
    for name in "ab":
        b.unit(f"sink {name}", "Consumer", [name], [])
    network = placed(b.network(), [0, 0, 1, 1], rows=1, cols=2, window=2)
    engine = run_engine(network)
    # A token is 8 flits, and alone takes 2 + 5 * 2 + 8 - 1 = 19 cycles from the one in which it is
    # with its sender, a cycle after it was made.
    stamps = {name: [token[0] for token in engine.tokens[name]] for name in engine.tokens}
    assert stamps["a: to network"] == [1, 11, 26]
    assert stamps["b: to network"] == [26]
    # When the third token of a comes, one of two places under way is free since the first arrived
    # in cycle 20; the second is there in cycle 30. So its sender parks until cycle 26. It has the
    # lower number of a route, and 8 flits of b follow through the port that both leave by.
    assert stamps["a"] == [20, 30, 26 + 19]
    assert stamps["b"] == [26 + 19 + 8]
    assert_same(engine, interpret(network), accounts=True, names=NAMES)


def test_a_slow_consumer_holds_up_its_producer() -> None:
    b = NetBuilder(TimingParams(), 4)
    tokens = [{"tile": [1, 1, 2, 0, 1], "level": 0}] * 300
    b.unit("source", "Src", [], ["a"], tokens=tokens, n=1)
    b.unit("sink", "Hold", ["a"], [], n=100)
    network = placed(b.network(), [0, 1], rows=1, cols=2)
    engine = run_engine(network)
    window = next(c.capacity for c in network.channels if c.name == "a: under way")
    assert window == 2 + 5 * 2 + 2
    # The places for tokens of a stream: at the producer, under way, at the consumer.
    last = engine.tokens["a: to network"][-1][0]
    taken = engine.taken["a"]
    assert taken[-(2 + window + 4) - 2] <= last <= taken[-(2 + window + 4) + 2]


def _spread(tokens: int, places: list[int], **more: int) -> Network:
    """A stream to three readers."""
    b = NetBuilder(TimingParams(), 4)
    tile = [{"tile": [4, 16, 2, 0, 4], "level": 0}] * tokens
    b.unit("source", "Src", [], ["x"], tokens=tile, n=1)
    b.unit("broadcast", "Broadcast", ["x"], ["a", "b", "c"])
    for name in "abc":
        b.unit(f"sink {name}", "Consumer", [name], [])
    return placed(b.network(), [0, 0, *places], rows=3, cols=3, spread=True, **more)


def test_every_reader_of_a_tree_receives_after_its_own_hops() -> None:
    engine = run_engine(_spread(1, [2, 8, 3]))
    created = engine.tokens["a: to network"][0][0]
    for name, hops in (("a", 2), ("b", 4), ("c", 1)):
        assert engine.tokens[name][0][0] - created == 2 + 5 * (hops + 1) + 4 * 16 * 2 // 16 - 1


def test_readers_at_one_place_share_a_branch() -> None:
    network = _spread(20, [8, 8, 1])
    (tree,) = [unit for unit in network.units if unit.op == "MulticastPacket"]
    # Injection; east; ejection and east; then south twice and ejection.
    assert len(tree.params["path"]) == 7
    engine = run_engine(network)
    assert engine.tokens["a"] == engine.tokens["b"]


def test_a_tree_carries_the_bandwidth_of_a_link_to_every_reader() -> None:
    engine = run_engine(_spread(200, [2, 8, 3]))
    flits = 200 * 4 * 16 * 2 // 16
    for name in "abc":
        assert flits <= engine.tokens[name][-1][0] <= 1.001 * flits + 2 + 5 * 5 + 8


def test_a_tree_with_too_little_room_for_events_begins_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = _spread(30, [2, 8, 3], flit_bytes=1, quantum=1)
    whole = run_engine(network)
    monkeypatch.setattr(builder, "_FIRST_EVENTS", 3)
    monkeypatch.setattr(builder, "_EVENTS_OF_ROUTE", 0)
    # What a network lacks has nothing to do with changes of pace, of which more are kept in vain.
    monkeypatch.setattr(driver, "keep_more_paces", None)
    assert_same(whole, run_engine(network), accounts=True)


def test_carriers_need_a_network() -> None:
    b = _stream(1, [1, 1, 2, 0, 1])
    network = replace(placed(b.network(), [0, 1], rows=1, cols=2), carriage=None)
    with pytest.raises(LoweringError, match="no network on chip"):
        build_image(network)


def test_too_long_a_route_is_refused() -> None:
    with pytest.raises(LoweringError, match="FIFO 'a': its route over the network has 302 ports"):
        placed(_stream(1, [1, 1, 2, 0, 1]).network(), [0, 300], rows=1, cols=301)
