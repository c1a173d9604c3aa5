"""The search for the least FIFO depths, without a program."""

from __future__ import annotations

import numpy as np

from stepsim.sizing import STUCK, Depths, Problem, Verdict, solved

_NEEDED = np.array([256] * 10 + [1] * 10)
_PLANNED = np.full(20, 256)


def _shrunk(budget: int) -> tuple[list[int], bool]:
    """Depths of FIFOs that are enough once each has what it needs, and whether they are proved."""

    def judge(depths: Depths) -> Verdict:
        held = np.where(depths < _NEEDED, STUCK, 0)
        return Verdict(not held.any(), 100, lambda: held)

    ones = np.ones_like(_NEEDED)
    problem = Problem((judge,), ones, _PLANNED, _PLANNED, np.arange(len(_NEEDED)))
    found = solved(problem, _PLANNED, budget=budget)
    assert found is not None
    return found.depths.tolist(), found.proved


def test_the_least_depths_are_proved() -> None:
    assert _shrunk(1000) == (_NEEDED.tolist(), True)


def test_a_search_that_ran_out_of_runs_proves_nothing() -> None:
    # The runs are used up by FIFOs that need what they have; the others are not looked at.
    assert _shrunk(50) == (_PLANNED.tolist(), False)


def test_depths_with_which_no_run_is_in_time_are_not_found() -> None:
    def judge(depths: Depths) -> Verdict:
        return Verdict(False, 0, lambda: np.zeros(len(depths), np.int64))

    one = np.ones(1, np.int64)
    assert solved(Problem((judge,), one, one, one, one), one) is None
