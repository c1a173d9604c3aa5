"""Laws of time: more room never hurts, and a steady stage scales with its tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from stepsim.lowering import Network
from tests.engine_backend import run_engine
from tests.oracle.build import NetBuilder
from tests.oracle.random_networks import random_networks
from tests.property_profile import profile

# Who comes first decides what these send, or when: more room elsewhere may turn that round.
ORDER_SENSITIVE = {"EagerMerge", "Reassemble"}


def is_deterministic(network: Network) -> bool:
    return not any("OffChip" in unit.op or unit.op in ORDER_SENSITIVE for unit in network.units)


def deepened(network: Network, by: int | None) -> Network:
    """Every bounded channel with ``by`` more slots, or without bounds."""
    channels = tuple(
        c._replace(capacity=None if by is None or c.capacity is None else c.capacity + by)
        for c in network.channels
    )
    return replace(network, channels=channels)


def stamps(result: Any) -> dict[str, list[int]]:
    return {name: [token[0] for token in tokens] for name, tokens in result.tokens.items()}


@pytest.mark.long
@profile(75)
@given(random_networks().filter(is_deterministic), st.sampled_from([1, 3, None]))
def test_deeper_fifos_never_slow_a_deterministic_network(network: Network, by: int | None) -> None:
    shallow = run_engine(network)
    assume(shallow.status == "ok")
    deep = run_engine(deepened(network, by))
    assert deep.status == "ok"
    before, after = stamps(shallow), stamps(deep)
    for channel, times in after.items():
        assert len(times) == len(before[channel])
        assert all(a <= b for a, b in zip(times, before[channel], strict=True)), channel
    assert deep.cycles <= shallow.cycles


@pytest.mark.slow
@profile(50)
@given(random_networks(), st.integers(1, 4))
def test_depth_does_not_change_what_is_sent_without_merges(network: Network, by: int) -> None:
    assume(not any(unit.op in ORDER_SENSITIVE for unit in network.units))
    first, second = run_engine(network), run_engine(deepened(network, by))
    assume(first.status == second.status == "ok")
    for channel, tokens in first.tokens.items():
        assert [token[1:3] for token in tokens] == [token[1:3] for token in second.tokens[channel]]


@pytest.mark.parametrize("factor", [2, 3, 10])
def test_a_stage_at_full_rate_scales_with_its_tokens(factor: int) -> None:
    def cycles(tokens: int) -> int:
        b = NetBuilder(capacity=2)
        b.unit("src", "Gen", [], ["x"], tokens=[{"tile": [8, 64, 2, 0, 8], "level": 0}] * tokens)
        b.unit("map", "UnaryMap", ["x"], ["y"], fn="Silu", bw=64, wb=False)
        b.unit("end", "Consumer", ["y"], [])
        return run_engine(b.network()).cycles

    per_tile = cycles(21) - cycles(20)
    assert per_tile > 8
    assert cycles(20 * factor) - cycles(20) == 20 * (factor - 1) * per_tile
