"""What the journal has of a network between chips: messages, their waits for links, and links that
send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from stepsim.kernels.driver import execute
from stepsim.kernels.layout import Cause
from stepsim.lowering import Network, TimingParams, build_image
from tests.kernels.test_recorded import check, recorded
from tests.oracle.build import NetBuilder
from tests.oracle.carriers import CARRIERS, Crossing
from tests.oracle.fabric import Steps, Unit
from tests.oracle.interpreter import interpret
from tests.oracle.random_chips import TOPOLOGIES, chip_networks, on_chips
from tests.oracle.random_networks import faulty_networks, random_networks, routed_networks
from tests.property_profile import profile

ON_CHIPS = chip_networks(
    st.one_of(random_networks(max_slack=1), routed_networks(), faulty_networks())
)
TILE = {"tile": [16, 64, 2, 0, 16], "level": 0}  # 2048 bytes


def _crossing(network: Network) -> Crossing | None:
    """The links between the chips of the plain interpreter, after a run."""
    seen: list[Any] = []

    def seeing(body: Callable[[Unit], Steps]) -> Callable[[Unit], Steps]:
        def watched(u: Unit) -> Steps:
            seen.append(u.carries)
            return body(u)

        return watched

    interpret(network, bodies={"SendMessage": seeing(CARRIERS["SendMessage"])})
    return seen[0] if seen else None


@pytest.mark.slow
@profile(40, thorough=1000)
@given(ON_CHIPS)
def test_recorded_runs_are_the_same(network: Network) -> None:
    check(network)


@pytest.mark.slow
@profile(30, thorough=500)
@given(ON_CHIPS)
def test_small_pieces_of_memory_change_nothing(network: Network) -> None:
    image = build_image(network)
    whole, in_pieces = recorded(image)[1], recorded(image, piece=2)[1]
    for name in ("waits", "rises", "crossings", "port_waits", "flits"):
        assert (getattr(whole, name) == getattr(in_pieces, name)).all(), name


@pytest.mark.slow
@profile(40, thorough=1000)
@given(ON_CHIPS)
def test_messages_are_those_of_the_interpreter(network: Network) -> None:
    record = recorded(build_image(network))[1]
    between = _crossing(network)
    messages = [] if between is None else between.messages
    arrived = [
        ((one.route, one.created, one.arrival + 1), one)
        for one in messages
        if one.arrival is not None
    ]
    columns = (record.crossings[name].tolist() for name in ("route", "begin", "end"))
    assert sorted(zip(*columns, strict=True)) == sorted(key for key, _ in arrived)
    sent = sorted(
        (one.route, hop, begin, end)
        for one in messages
        for hop, (_, begin, end) in enumerate(one.sent)
    )
    columns = (record.flits[name].tolist() for name in ("route", "hop", "begin", "end"))
    assert sorted(zip(*columns, strict=True)) == sent
    waited = sorted(
        (key, one.route, hop, came, begin)
        for key, one in arrived
        for hop, (came, (_, begin, _)) in enumerate(zip(one.came, one.sent, strict=True))
        if begin > came
    )
    found = [
        (tuple(record.crossings[["route", "begin", "end"]][one["crossing"]].tolist()),
         *one[["route", "hop", "begin", "end"]].tolist())
        for one in record.port_waits
    ]  # fmt: skip
    assert sorted(found) == waited
    total = np.bincount(
        record.port_waits["crossing"],
        record.port_waits["end"] - record.port_waits["begin"],
        len(record.crossings),
    )
    assert record.crossings["waited"].tolist() == total.tolist()


def _shared(topology: str, tokens: int) -> Network:
    b = NetBuilder(TimingParams(), 8)
    for name in "ab":
        b.unit(f"source {name}", "Src", [], [name], tokens=[TILE] * tokens, n=1)
        b.unit(f"sink {name}", "Consumer", [name], [])
    # 2048 bytes take 32 cycles; both streams pass the first link from chip 0.
    return on_chips(b.network(), [0, 1, 0, 1], topology=topology, chips=4, latency=50.0, rate=64.0)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("piece", [2, 1 << 12])
def test_streams_of_one_link_wait_for_it(topology: str, piece: int) -> None:
    record = recorded(build_image(_shared(topology, 200)), piece)[1]
    first = np.sort(record.flits[record.flits["hop"] == 0], order="begin")
    assert (first["end"] - first["begin"] == 32).all()
    assert len(first) == 2 * 200
    assert (first["begin"][1:] == first["end"][:-1]).all()
    assert set(first["route"].tolist()) == {0, 1}
    waited = record.port_waits
    assert (waited["hop"] == 0).all()
    # One stream always waits for a message of the other, and mostly for one of its own too.
    assert len(waited) >= 2 * 200 - 1
    assert (record.waits["cause"] == Cause.PACKET).any()


def test_messages_that_have_not_arrived_at_a_limit_are_left_out() -> None:
    network = _shared("ring", 200)
    image = build_image(network)
    whole = recorded(image)[1]
    run, record = recorded(image, max_cycles=3000)
    assert not run.finished
    count = len(record.crossings)
    assert 0 < count < len(whole.crossings)
    known = {tuple(one) for one in whole.crossings.tolist()}
    assert {tuple(one) for one in record.crossings.tolist()} <= known
    assert len(record.flits) > count
    assert execute(image).finished


def test_messages_without_a_cycle_at_a_link_are_recorded() -> None:
    b = NetBuilder(TimingParams(), None)
    b.unit("source", "Src", [], ["a"], tokens=[TILE] * 50, n=1)
    b.unit("sink", "Consumer", ["a"], [])
    network = on_chips(
        b.network(), [0, 1], topology="switch", chips=2, latency=0.0, rate=1e9, token_bytes=2048
    )
    record = recorded(build_image(network))[1]
    assert len(record.flits) == 2 * 50
    assert (record.flits["begin"] == record.flits["end"]).all()
    assert len(record.crossings) == 50
    assert (record.crossings["end"] == record.crossings["begin"] + 1).all()
