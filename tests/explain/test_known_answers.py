"""The verdict on programs whose answer is known, and the gain of its first suggestion."""

from __future__ import annotations

import pytest

import stepsim as st
from tests.explain.known_answers import KNOWN_ANSWERS, KnownAnswer

_EACH = pytest.mark.parametrize("known", KNOWN_ANSWERS, ids=lambda known: known.name)


@_EACH
def test_the_answers_are_those_of_two_runs(known: KnownAnswer) -> None:
    before, after = st.simulate(*known.before()), st.simulate(*known.after())
    assert (before.status, after.status) == ("ok", "ok")
    assert (before.cycles, after.cycles) == (known.cycles, known.changed_cycles)


def test_one_change_alone_does_not_help_the_pair() -> None:
    pair = KNOWN_ANSWERS[-1]
    machine = pair.before()[1]
    for name, depth in pair.changed.items():
        alone = st.simulate(pair.build(**{name: depth}), machine)
        assert pair.cycles - alone.cycles <= 2
    assert pair.cycles - pair.changed_cycles == 945


@_EACH
def test_the_verdict_names_it(known: KnownAnswer) -> None:
    verdict = st.why(*known.before()).verdict
    assert verdict.kind == known.kind
    for target in known.targets:
        assert target in verdict.target


@_EACH
def test_the_first_suggestion_gives_its_gain_to_the_cycle(known: KnownAnswer) -> None:
    first = st.why(*known.before()).suggestions[0]
    assert first.kind == known.change
    assert first.cycles == st.simulate(*known.after()).cycles
    assert first.gain_cycles == known.cycles - known.changed_cycles


@_EACH
def test_no_change_that_can_be_built_gains_more_than_the_first(known: KnownAnswer) -> None:
    """But by less than half a percent of the run, where a setting comes before hardware."""
    found = st.why(*known.before())
    first = found.suggestions[0]
    most = max(one.gain for one in found.suggestions)
    assert first.gain >= most - 0.005
