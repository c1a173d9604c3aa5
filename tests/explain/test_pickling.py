"""Answers go to other processes, and say the same there."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import stepsim as st
from tests.simulation.programs import centered

ANSWERS: dict[str, Callable[[], Any]] = {
    "sizes": lambda: st.size_fifos(centered(2)),
    "why": lambda: st.why(centered(8)),
    "what_if": lambda: st.what_if(st.prepare(centered(8))),
    "fix": lambda: st.fix_deadlock(centered(2)),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_can_be_pickled(answer: str) -> None:
    made = ANSWERS[answer]()
    assert str(pickle.loads(pickle.dumps(made))) == str(made)


def test_a_prepared_program_that_has_run_can_be_pickled() -> None:
    prepared = st.prepare(centered(8))
    first = prepared.run()
    again = pickle.loads(pickle.dumps(prepared))
    assert (again.run().cycles, again.run().image_hash) == (first.cycles, first.image_hash)
    image = pickle.loads(pickle.dumps(prepared.image()))
    assert image.digest() == first.image_hash
