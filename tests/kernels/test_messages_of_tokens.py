"""Tokens that go from chip to chip: the engine against the plain interpreter, and laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from stepsim.errors import LoweringError
from stepsim.kernels import message_loads
from stepsim.kernels.driver import execute
from stepsim.lowering import ChipLinks, Network, TimingParams, build_image
from stepsim.machine import Chips
from stepsim.noc import simulate_chips
from tests.engine_backend import run_engine
from tests.oracle.build import NetBuilder
from tests.oracle.compare import assert_same
from tests.oracle.interpreter import interpret
from tests.oracle.invariants import check_all
from tests.oracle.random_chips import TOPOLOGIES, chip_networks, chip_path, on_chips
from tests.oracle.random_networks import faulty_networks, random_networks, routed_networks
from tests.property_profile import profile

NAMES = ("engine", "interpreter")
TILE = {"tile": [16, 64, 2, 0, 16], "level": 0}  # 2048 bytes


@pytest.mark.slow
@profile(60, thorough=1500)
@given(chip_networks(random_networks(max_slack=1)))
def test_engine_agrees_with_the_interpreter(network: Network) -> None:
    engine = run_engine(network)
    assert_same(engine, interpret(network), accounts=True, names=NAMES)
    check_all(network, engine)


@profile(50, thorough=1500)
@given(chip_networks(st.one_of(routed_networks(), faulty_networks())))
def test_routed_and_faulty_networks_agree(network: Network) -> None:
    engine = run_engine(network)
    assert_same(engine, interpret(network), accounts=True, names=NAMES)
    check_all(network, engine)


@pytest.mark.slow
@profile(30, thorough=500)
@given(chip_networks(random_networks(max_slack=1)), st.integers(0, 2**16))
def test_order_of_units_in_the_interpreter_changes_nothing(network: Network, seed: int) -> None:
    assert_same(interpret(network), interpret(network, host_order_seed=seed), accounts=True)


@profile(30, thorough=500)
@given(chip_networks(random_networks(max_slack=1)))
def test_bytes_over_links_are_those_of_routes_times_hops(network: Network) -> None:
    assert network.between is not None
    paths = [unit.params["path"] for unit in network.units if unit.op == "SendMessage"]
    links = len(network.between.rate)
    done = execute(build_image(network), history=True)
    loads = message_loads(done.scratch, links, len(paths))
    sent = run_engine(network).tokens
    names = [unit.params["fifo"] for unit in network.units if unit.op == "SendMessage"]
    assert loads.route_messages.tolist() == [len(sent[f"{name}: under way"]) for name in names]
    if not done.finished:
        return  # messages may be on their way
    expected = np.zeros((2, links), np.int64)
    for path, count, size in zip(paths, loads.route_messages, loads.route_bytes, strict=True):
        expected[:, list(path)] += np.array([[count], [size]])
    assert loads.messages.tolist() == expected[0].tolist()
    assert loads.nbytes.tolist() == expected[1].tolist()


def _timing(model: str, outstanding: int | None = None) -> TimingParams:
    return TimingParams(memory_model=model, outstanding=outstanding)


def _loads(timing: TimingParams, counts: Sequence[int]) -> Network:
    """Loads of so many tiles, each with a consumer."""
    b = NetBuilder(timing, 4)
    for number, count in enumerate(counts):
        b.unit(
            f"load {number}", "OffChipLoad", [], [f"c{number}"], tile=[16, 64], bpe=2,
            view=[count], par=1 + number % 3, tokens=[],
        )  # fmt: skip
        b.unit(f"end {number}", "Consumer", [f"c{number}"], [])
    return b.network()


@pytest.mark.parametrize("model", ["published", "interleaved", "uncontended"])
@pytest.mark.parametrize("outstanding", [None, 3])
@pytest.mark.parametrize("chip", [0, 3])
def test_all_units_on_one_chip_take_the_times_of_a_single_chip(
    model: str, outstanding: int | None, chip: int
) -> None:
    network = _loads(_timing(model, outstanding), [5, 9, 2, 7])
    places = [chip] * len(network.units)
    alone = replace(network, between=ChipLinks(tuple(places)))
    assert alone.between is not None
    assert alone.between.chips == chip + 1
    assert_same(run_engine(alone), run_engine(network), accounts=True)


@pytest.mark.parametrize("model", ["published", "interleaved"])
def test_chips_do_not_wait_for_the_memory_of_each_other(model: str) -> None:
    network = _loads(_timing(model), [40, 40])
    apart = on_chips(network, [0, 0, 1, 1], topology="switch", chips=2, latency=1.0, rate=1.0)
    engine = run_engine(apart)
    lone = run_engine(_loads(_timing(model), [40]))
    assert engine.final_clock["load 0"] == lone.final_clock["load 0"]
    wide = replace(_loads(_timing(model), [40, 40]))
    slow = replace(wide, timing=replace(wide.timing, hbm_channels=1, hbm_interval=8))
    both = run_engine(slow).final_clock["load 0"]
    each = on_chips(slow, [0, 0, 1, 1], topology="switch", chips=2, latency=1.0, rate=1.0)
    assert 1.9 < both / run_engine(each).final_clock["load 0"] < 2.1


@profile(40, thorough=1500)
@given(
    st.sampled_from(TOPOLOGIES), st.integers(3, 6), st.sampled_from([5.0, 50.0]),
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 5), st.integers(1, 5), st.integers(1, 40)),
        min_size=1, max_size=25,
    ),
)  # fmt: skip
def test_given_messages_take_the_times_of_messages_alone(
    topology: str, chips: int, gib_per_s: float, drawn: list[tuple[int, int, int, int]]
) -> None:
    """At a clock of 1 GHz, tokens that are sent at given times arrive as messages do."""
    b = NetBuilder(TimingParams(), 4)
    places, messages = [], []
    for number, (time, source, further, rows) in enumerate(drawn):
        source %= chips
        to = (source + 1 + further % (chips - 1)) % chips
        token = {"tile": [rows, 64, 2, 0, rows], "level": 0}
        b.unit(f"source {number}", "Paced", [], [f"m{number}"], tokens=[token], times=[100 * time])
        b.unit(f"end {number}", "Consumer", [f"m{number}"], [])
        places += [source, to]
        messages.append((source, to, rows * 128))
    machine = Chips(topology=topology, count=chips, gib_per_s=gib_per_s, latency_ns=20)
    [dimension] = machine.dimensions
    network = on_chips(
        b.network(), places, topology=topology, chips=chips, latency=20.0,
        rate=dimension.bytes_per_ns,
    )  # fmt: skip
    engine = run_engine(network)
    created = [engine.tokens[f"m{number}: to network"][0][0] for number in range(len(drawn))]
    order = sorted(range(len(drawn)), key=lambda number: created[number])
    columns = {
        "time": [created[i] for i in order],
        "source": [messages[i][0] for i in order],
        "destination": [messages[i][1] for i in order],
        "bytes": [messages[i][2] for i in order],
    }
    arrived = simulate_chips(columns, machine).arrived_ns
    assert [engine.tokens[f"m{i}"][0][0] for i in order] == arrived.tolist()


def _stream(tokens: int, capacity: int | None = 8) -> NetBuilder:
    b = NetBuilder(TimingParams(), capacity)
    b.unit("source", "Src", [], ["a"], tokens=[TILE] * tokens, n=1)
    b.unit("sink", "Consumer", ["a"], [])
    return b


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("to", [1, 3, 5])
def test_a_token_alone_takes_what_the_formula_says(topology: str, to: int) -> None:
    network = on_chips(
        _stream(1).network(), [0, to], topology=topology, chips=8, latency=100.25, rate=53.7
    )
    engine = run_engine(network)
    hops = len(chip_path(topology, 8, 0, to))
    created = engine.tokens["a: to network"][0][0]
    assert engine.tokens["a"][0][0] - created == hops * int(100.25 + 2048 / 53.7)


@pytest.mark.slow
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_full_link_carries_its_bandwidth(topology: str) -> None:
    b = NetBuilder(TimingParams(), 8)
    for name in "ab":
        b.unit(f"source {name}", "Src", [], [name], tokens=[TILE] * 3000, n=1)
        b.unit(f"sink {name}", "Consumer", [name], [])
    # 2048 bytes take 32 cycles; both streams pass the first link from chip 0.
    network = on_chips(
        b.network(), [0, 1, 0, 1], topology=topology, chips=4, latency=500.0, rate=64.0
    )
    engine = run_engine(network)
    arrivals = [token[0] for name in "ab" for token in engine.tokens[name]]
    sent = 2 * 3000 * 2048 / 64.0
    hops = len(chip_path(topology, 4, 0, 1))
    assert sent <= max(arrivals) - hops * 500 <= 1.001 * sent


def test_a_stream_alone_is_not_held_up_by_the_tokens_under_way() -> None:
    b = NetBuilder(TimingParams(), None)
    b.unit("source", "Src", [], ["a"], tokens=[TILE] * 4000, n=1)
    b.unit("sink", "Consumer", ["a"], [])
    network = on_chips(
        b.network(), [0, 1], topology="switch", chips=2, latency=5000.0, rate=2048.0,
        token_bytes=2048,
    )  # fmt: skip
    engine = run_engine(network)
    stamps = [token[0] for token in engine.tokens["a"]]
    assert stamps == list(range(stamps[0], stamps[0] + 4000))


def test_a_slow_consumer_holds_up_its_producer() -> None:
    b = NetBuilder(TimingParams(), 4)
    b.unit("source", "Src", [], ["a"], tokens=[TILE] * 300, n=1)
    b.unit("sink", "Hold", ["a"], [], n=100)
    network = on_chips(
        b.network(), [0, 1], topology="fully-connected", chips=2, latency=64.0, rate=64.0,
        token_bytes=2048,
    )  # fmt: skip
    engine = run_engine(network)
    window = next(c.capacity for c in network.channels if c.name == "a: under way")
    assert window == (64 + 32) // 32 + 1 + 2
    # The places for tokens of a stream: at the producer, under way, at the consumer.
    last = engine.tokens["a: to network"][-1][0]
    taken = engine.taken["a"]
    assert taken[-(2 + window + 4) - 2] <= last <= taken[-(2 + window + 4) + 2]


@pytest.mark.slow
def test_more_messages_than_the_memory_of_a_run_begins_with() -> None:
    b = NetBuilder(TimingParams(), None)
    for number in range(3):
        name = f"s{number}"
        b.unit(f"source {number}", "Src", [], [name], tokens=[TILE] * 3000, n=1)
        b.unit(f"sink {number}", "Consumer", [name], [])
    network = on_chips(
        b.network(), [0, 1] * 3, topology="ring", chips=3, latency=20_000.0, rate=1e6
    )
    image = build_image(network)
    done = execute(image)
    assert done.finished
    assert len(done.slots) > 64 * len(image.channels) + 1024 + len(image.slots)
    assert_same(run_engine(network), interpret(network), accounts=True)


def test_the_first_slot_of_the_arena_is_no_message() -> None:
    """The first ring grows, so that its slot is free while messages are sent."""
    b = NetBuilder(TimingParams(hbm_startup=0, hbm_latency=0, hbm_interval=1), 1)
    b.unit("load", "OffChipLoad", [], ["a"], tile=[1, 1], view=[2, 2], par=1, bpe=2)
    b.unit("sink", "Consumer", ["a"], [])
    network = on_chips(
        b.network(), [0, 1], topology="fully-connected", chips=2, latency=0.0, rate=0.5
    )
    assert_same(run_engine(network), interpret(network), accounts=True)


def test_a_memory_model_that_cannot_be_copied_is_refused() -> None:
    network = replace(_loads(TimingParams(), [1, 1]), between=ChipLinks((0, 0, 1, 1)))
    network = replace(network, timing=replace(network.timing, memory_model="of a package"))
    with pytest.raises(LoweringError, match="memory model 'of a package' is for units on one chip"):
        build_image(network)
