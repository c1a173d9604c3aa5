"""Closed forms of one FIFO against every push and pop."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, strategies as some

from stepsim.errors import CompileError
from stepsim.reproduce.streamtensor.token_model import Link
from tests.property_profile import profile

links = some.builds(
    Link,
    tokens=some.integers(1, 40),
    first=some.integers(0, 30),
    source_interval=some.integers(1, 8),
    sink_interval=some.integers(1, 8),
    delay=some.integers(0, 120),
    hop=some.integers(0, 1),
)


@pytest.mark.slow
@profile(2500, 20_000)
@given(links)
def test_closed_forms(link: Link) -> None:
    peak = link.trace().peak
    assert link.peak == peak
    assert link.depth == max(1, peak)
    if link.applies == "eq1":
        assert link.eq1 in (peak, peak + 1)
    else:
        assert link.eq2 == peak


def test_the_published_example_holds_three_tokens() -> None:
    link = Link(tokens=5, first=3, source_interval=1, sink_interval=2, delay=4)
    assert (link.last, link.printed, link.depth, link.trace().peak) == (7, 4, 3, 3)


def test_intervals_may_be_fractions() -> None:
    link = Link(10, 1, Fraction(3, 2), Fraction(5, 2), 2)
    in_halves = Link(10, 2, 3, 5, 4, hop=2)
    assert link.depth == in_halves.trace().peak == 4
    with pytest.raises(CompileError, match="whole cycles, found 1, 3/2"):
        link.trace()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0, 1, 1, 1, 1), "1 token or more"),
        ((1, -1, 1, 1, 1), "cycles from 0"),
        ((1, 1, 0, 1, 1), "more than 0 cycles"),
    ],
)
def test_impossible_links_are_refused(values: tuple[int, ...], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        Link(*values)
