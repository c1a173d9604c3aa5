"""The search for the least bytes of FIFO with which all runs are in time.

Depths that were planned are repaired, then made smaller. Deeper FIFOs never make a run of pure
dataflow slower, so that a depth that is not enough with all other FIFOs unbounded is never enough,
and only a FIFO that somebody waited for can help a run that is too slow. Where units compete for
the memory or merge by arrival neither need hold; depths that are returned have been run, and
whether they are the least is only said where it follows.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepsim.sizing.judge import Depths, Judge, Trials

__all__ = ["Found", "Problem", "solved"]


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """FIFOs that are to be as small as can be.

    Attributes
    ----------
    judges : of the runs that have to be in time.
    weights : bytes of a slot of every FIFO, or another cost.
    peaks : depths with which unbounded runs are the same.
    most : depths that are as good as unbounded.
    alike : FIFOs that do the same in different places have the same number.
    """

    judges: Sequence[Judge]
    weights: NDArray[np.int64]
    peaks: Depths
    most: Depths
    alike: NDArray[np.int64]

    def cost(self, depths: Depths) -> int:
        """Bytes of all FIFOs with these depths."""
        return int((depths * self.weights).sum())


@dataclass(frozen=True, slots=True)
class Found:
    """Depths that are enough.

    Attributes
    ----------
    depths : tokens, in the order of the FIFOs.
    cycles : of the runs with them.
    before, simulations : runs made until depths were enough, and in all.
    proved : no smaller depths are enough, if deeper FIFOs never make a run slower.
    """

    depths: Depths
    cycles: tuple[int, ...]
    before: int
    simulations: int
    proved: bool


_REPAIRS = 3
"""FIFOs are enlarged so often where runs are those of programs, which take long."""


def solved(
    problem: Problem,
    planned: Depths | Sequence[int],
    *,
    start: Depths | None = None,
    budget: int = 2000,
    repairs: int = _REPAIRS,
) -> Found | None:
    """The least depths that are found; None where the runs end with none.

    Parameters
    ----------
    planned : depths to begin with, which may be too small.
    start : depths that are enough, to begin with if they are smaller.
    budget : runs that shrinking makes at most; with 0 planned depths are only repaired.
    repairs : how often a FIFO is enlarged, one at a time, before all get what the unbounded run
        needed.
    """
    trials = Trials(problem.judges)
    depths = _repaired(problem, trials, np.asarray(planned, np.int64), repairs)
    before = trials.simulations
    if start is not None and problem.cost(start) < problem.cost(depths) and trials.enough(start):
        depths = start
    shrinking = _Shrinking(problem, trials, budget)
    depths = shrinking.least(depths)
    last = trials.trial(depths)
    if not last.enough:
        return None
    return Found(depths, last.cycles, before, trials.simulations, shrinking.proved)


_SINGLY = 64
"""Up to so many FIFOs are looked at one by one; of more those that are alike go together first."""


def _repaired(problem: Problem, trials: Trials, depths: Depths, repairs: int) -> Depths:
    """Depths with which all runs are in time, from some that may be too small.

    The FIFO that held its producer up longest gets half as much again, no more than its peak.
    """
    most = problem.most
    caps = np.maximum(depths, problem.peaks)
    for _ in range(repairs):
        trial = trials.trial(depths)
        if trial.enough:
            return depths
        held = np.where(depths >= caps, 0, trial.held)
        if not held.any():
            break
        fifo = int(held.argmax())
        depths = depths.copy()
        depths[fifo] = min(caps[fifo], depths[fifo] + max(1, depths[fifo] // 2))
    depths = caps
    while not trials.enough(depths) and (depths < most).any():
        depths = np.minimum(2 * depths, np.maximum(most, depths))
    return depths


_ROUGH = 1.3
"""Of FIFOs that are alike a bound is known well enough when it is so many times the least, or less;
what that leaves to gain, the search for single ones finds. Decoders of 600 to 3,600 FIFOs come so
to the same bytes with half the runs."""


class _Shrinking:
    """Makes depths that are enough smaller, until none can be, or a budget of runs is used up.

    Attributes
    ----------
    proved : the result is the least there is, if deeper FIFOs never make a run slower.
    """

    def __init__(self, problem: Problem, trials: Trials, budget: int) -> None:
        self._problem, self._trials = problem, trials
        self._weights, self._most = problem.weights, problem.most
        self._last = trials.simulations + budget
        self.proved = False

    def least(self, depths: Depths) -> Depths:
        """The smallest depths that were found."""
        floors = np.ones_like(depths)
        if self._enough(floors):
            self.proved = True
            return floors
        if len(depths) > _SINGLY:
            return self._together(depths, floors)
        floors = self._floors(depths)
        if self._is_over:  # FIFOs that were not looked at keep their depths, which proves nothing
            return depths
        if self._enough(floors):
            self.proved = True
            return floors
        found = self._singly(depths, floors)
        risen = self._risen(floors, self._problem.cost(found))
        if risen is not None:
            risen = self._singly(risen, floors)
            found = min(found, risen, key=self._problem.cost)
        return self._searched(floors, found)

    @property
    def _is_over(self) -> bool:
        return self._trials.simulations >= self._last

    def _enough(self, depths: Depths) -> bool:
        return not self._is_over and self._trials.enough(depths)

    def _floors(self, depths: Depths) -> Depths:
        """The least depth of every FIFO, the others unbounded; ``depths`` are enough."""
        top = np.maximum(self._most, depths)
        return np.array(
            [self._bisected(top, [fifo], 1, int(depths[fifo])) for fifo in range(len(depths))]
        )

    def _bisected(self, depths: Depths, fifos: Sequence[int], low: int, high: int) -> int:
        """The least common bound from ``low`` on the depths of some FIFOs; ``high`` is enough."""
        while low < high:
            middle = (low + high) // 2
            if self._enough(self._bounded(depths, fifos, middle)):
                high = middle
            else:
                low = middle + 1
        return high

    @staticmethod
    def _bounded(depths: Depths, fifos: Sequence[int], bound: int) -> Depths:
        other = depths.copy()
        other[fifos] = np.minimum(other[fifos], bound)
        return other

    def _singly(self, depths: Depths, floors: Depths) -> Depths:
        """Every FIFO in turn as small as the others let it be, those with most to gain first."""
        gains = (depths - floors) * self._weights
        for fifo in np.argsort(-gains, kind="stable").tolist():
            bound = self._bisected(depths, [fifo], int(floors[fifo]), int(depths[fifo]))
            depths = self._bounded(depths, [fifo], bound)
        return depths

    def _risen(self, depths: Depths, most_bytes: int) -> Depths | None:
        """From too small depths up: the FIFO that held its producer up longest gets a slot more."""
        while self._problem.cost(depths) < most_bytes and not self._is_over:
            trial = self._trials.trial(depths)
            if trial.enough:
                return depths
            held = np.where(depths >= self._most, 0, trial.held / self._weights)
            if not held.any():
                return None
            depths = depths.copy()
            depths[int(held.argmax())] += 1
        return None

    def _searched(self, floors: Depths, found: Depths) -> Depths:
        """Best first from the floors up: a FIFO that nobody waited for need not be deeper."""
        bound = self._problem.cost(found)
        heap: list[tuple[int, tuple[int, ...]]] = [
            (self._problem.cost(floors), tuple(floors.tolist()))
        ]
        seen = {heap[0][1]}
        while heap:
            cost, vector = heapq.heappop(heap)
            if cost >= bound:
                break
            if self._is_over:
                return found
            depths = np.array(vector, np.int64)
            trial = self._trials.trial(depths)
            if trial.enough:
                found = depths
                break
            for fifo in np.flatnonzero(trial.held).tolist():
                deeper = (*vector[:fifo], vector[fifo] + 1, *vector[fifo + 1 :])
                more = cost + int(self._weights[fifo])
                if more < bound and deeper not in seen:
                    seen.add(deeper)
                    heapq.heappush(heap, (more, deeper))
        self.proved = True
        return found

    def _together(self, depths: Depths, floors: Depths) -> Depths:
        """Many FIFOs: those that are alike go together, then parts of all, down to single ones.

        Most FIFOs need no more than one slot, which one run tells of many of them at once.
        """
        groups = [
            np.flatnonzero(self._problem.alike == group) for group in np.unique(self._problem.alike)
        ]
        parts = [group.tolist() for group in groups]
        depths = self._in_parts(depths, floors, self._ordered(parts, depths), _ROUGH)
        parts = [[fifo] for fifo in range(len(depths))]
        return self._in_parts(depths, floors, self._ordered(parts, depths), 1)

    def _ordered(self, groups: list[list[int]], depths: Depths) -> list[list[int]]:
        """Groups of FIFOs, those with most to gain first."""
        gains = [int(((depths - 1) * self._weights)[group].sum()) for group in groups]
        return [groups[place] for place in np.argsort(-np.array(gains), kind="stable").tolist()]

    def _in_parts(
        self, depths: Depths, floors: Depths, groups: list[list[int]], rough: float
    ) -> Depths:
        """Groups of FIFOs as small as the others let them be: all at once, else in two halves.

        A group may stay ``rough`` times as deep as it need be.
        """
        groups = [group for group in groups if (depths[group] > floors[group]).any()]
        if not groups or self._is_over:
            return depths
        fifos = [fifo for group in groups for fifo in group]
        smaller = depths.copy()
        smaller[fifos] = floors[fifos]
        if self._enough(smaller):
            return smaller
        if len(groups) == 1:
            low, high = int(floors[fifos].min()) + 1, int(depths[fifos].max())
            bound = self._roughly(depths, fifos, low, high, rough)
            return self._bounded(depths, fifos, bound)
        half = len(groups) // 2
        depths = self._in_parts(depths, floors, groups[:half], rough)
        return self._in_parts(depths, floors, groups[half:], rough)

    def _roughly(
        self, depths: Depths, fifos: Sequence[int], low: int, high: int, rough: float
    ) -> int:
        """As `_bisected`, up to ``rough`` times the least; by ratios, as most are small."""
        while low < high and high > rough * low:
            middle = math.isqrt(low * high)
            if self._enough(self._bounded(depths, fifos, middle)):
                high = middle
            else:
                low = middle + 1
        return high
