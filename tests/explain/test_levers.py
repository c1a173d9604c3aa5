"""The first suggestion is the largest lever, by programs that are built with every change."""

from __future__ import annotations

import pytest

import stepsim as st
from tests.explain.levers import LEVERS, Lever

_EACH = pytest.mark.parametrize("lever", LEVERS, ids=lambda lever: lever.name)

_ALIKE = 0.005
"""Difference of gains below which the smaller change may come first."""


@pytest.mark.slow
@_EACH
def test_the_first_suggestion_is_the_largest_lever(lever: Lever) -> None:
    cycles, pair = lever.run(), len(lever.kinds) > 1
    truth = lever.measured(pairs=pair)
    shortest = min(after for after, _ in truth)
    assert any(after == shortest and kinds == lever.kinds for after, kinds in truth)
    if pair:
        alone = min(after for after, kinds in truth if len(kinds) == 1)
        assert cycles - alone < 0.1 * cycles < 0.4 * cycles < cycles - shortest

    found = st.why(*lever.made())
    assert found.what_if is not None
    rows = {row["change"]: row for row in found.what_if.table.to_pylist()}
    first = found.suggestions[0]
    assert {rows[name]["kind"] for name in first.change.parts or [first.change.name]} == lever.kinds
    assert found.cycles == cycles
    assert first.cycles <= shortest + _ALIKE * cycles
    buildable = [row["cycles"] for row in rows.values() if row["buildable"]]
    assert first.cycles <= min(buildable) + _ALIKE * cycles


@pytest.mark.slow
def test_two_changes_are_tried_together_only_where_one_is_not_enough() -> None:
    for lever in LEVERS:
        found = st.what_if(*lever.made())
        tried = any(change.parts for change in found.changes)
        assert tried == (len(lever.kinds) > 1)
        assert len(found.changes) <= found.runs <= 130 + 6 * 6


def test_equally_good_dispatch_is_the_narrowest() -> None:
    """Of 4, 16 and 64 requests per cycle the last gains 10 of 12,778 cycles on the second."""
    first = st.why(*LEVERS[0].made()).suggestions[0]
    assert set(first.variant.par_dispatch.values()) == {16}
    assert len(first.targets) == 5
