"""The search for the least FIFO depths, without a program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepsim.simulation import Limits
from stepsim.simulation.running.depth_runs import DepthRuns
from stepsim.sizing.search import Shrinking
from stepsim.sizing.trials import Depths, Trials

_NEEDED = np.array([256] * 10 + [1] * 10)
_PLANNED = np.full(20, 256)


def _shrunk(budget: int) -> tuple[list[int], bool]:
    """Depths of FIFOs that are enough once each has what it needs, and whether they are proved."""

    def run(choices: Sequence[Depths], limits: Limits) -> DepthRuns:
        blocked = choices[0] < _NEEDED
        none = np.zeros((1, len(_NEEDED)), np.int64)
        status = "deadlock" if blocked.any() else "ok"
        return DepthRuns((status,), np.array([100]), none, none, blocked[np.newaxis])

    numbers = np.arange(len(_NEEDED))
    trials = Trials([run], [100], numbers, Limits())
    shrinking = Shrinking(trials, np.ones_like(_NEEDED), _PLANNED, numbers, budget)
    return shrinking.least(_PLANNED).tolist(), shrinking.proved


def test_the_least_depths_are_proved() -> None:
    assert _shrunk(1000) == (_NEEDED.tolist(), True)


def test_a_search_that_ran_out_of_runs_proves_nothing() -> None:
    # The runs are used up by FIFOs that need what they have; the others are not looked at.
    assert _shrunk(50) == (_PLANNED.tolist(), False)
