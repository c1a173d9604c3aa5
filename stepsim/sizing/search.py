"""The least bytes of FIFO with which all runs are in time: repair what was planned, then shrink it.

Deeper FIFOs never make a run of pure dataflow slower, so that a depth that is not enough with all
other FIFOs unbounded is never enough, and only a FIFO that somebody waited for can help a run that
is too slow. Where units compete for the memory or merge by arrival neither need hold; depths that
are returned have been run, and whether they are the least is only said where it follows.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stepsim.sizing.trials import Depths, Trials

__all__ = ["Shrinking", "repaired"]

_REPAIRS = 3
"""FIFOs are enlarged so often, one at a time, before all get what the unbounded run needed."""

_SINGLY = 64
"""Up to so many FIFOs are looked at one by one; of more those that are alike go together first."""


def repaired(trials: Trials, depths: Depths, peaks: Depths, most: Depths) -> Depths:
    """Depths with which all runs are in time, from some that may be too small.

    The FIFO that held its producer up longest gets half as much again, no more than its peak.

    Parameters
    ----------
    peaks : depths that the unbounded runs needed.
    most : depths that are as good as unbounded.
    """
    caps = np.maximum(depths, peaks)
    for _ in range(_REPAIRS):
        trial = trials.trial(depths)
        if trial.enough:
            return depths
        held = np.where(trial.blocked, np.iinfo(np.int64).max, trial.held)
        held[depths >= caps] = 0
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


class Shrinking:
    """Makes depths that are enough smaller, until none can be, or a budget of runs is used up.

    Parameters
    ----------
    sizes : bytes of a token of every FIFO.
    most : depths that are as good as unbounded.
    alike : FIFOs that do the same in different places have the same number.
    budget : runs that may be made.

    Attributes
    ----------
    proved : the result is the least there is, if deeper FIFOs never make a run slower.
    """

    def __init__(
        self,
        trials: Trials,
        sizes: NDArray[np.int64],
        most: Depths,
        alike: NDArray[np.int64],
        budget: int,
    ) -> None:
        self._trials = trials
        self._sizes = sizes
        self._most = most
        self._alike = alike
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
        risen = self._risen(floors, self._bytes(found))
        if risen is not None:
            risen = self._singly(risen, floors)
            found = min(found, risen, key=self._bytes)
        return self._searched(floors, found)

    @property
    def _is_over(self) -> bool:
        return self._trials.simulations >= self._last

    def _bytes(self, depths: Depths) -> int:
        return int((depths * self._sizes).sum())

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
        gains = (depths - floors) * self._sizes
        for fifo in np.argsort(-gains, kind="stable").tolist():
            bound = self._bisected(depths, [fifo], int(floors[fifo]), int(depths[fifo]))
            depths = self._bounded(depths, [fifo], bound)
        return depths

    def _risen(self, depths: Depths, most_bytes: int) -> Depths | None:
        """From too small depths up: the FIFO that held its producer up longest gets a slot more."""
        while self._bytes(depths) < most_bytes and not self._is_over:
            trial = self._trials.trial(depths)
            if trial.enough:
                return depths
            held = np.where(trial.blocked, 2.0**62, trial.held) / self._sizes
            held[depths >= self._most] = 0
            if not held.any():
                return None
            depths = depths.copy()
            depths[int(held.argmax())] += 1
        return None

    def _searched(self, floors: Depths, found: Depths) -> Depths:
        """Best first from the floors up: a FIFO that nobody waited for need not be deeper."""
        bound = self._bytes(found)
        heap: list[tuple[int, tuple[int, ...]]] = [(self._bytes(floors), tuple(floors.tolist()))]
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
            for fifo in np.flatnonzero((trial.held > 0) | trial.blocked).tolist():
                deeper = (*vector[:fifo], vector[fifo] + 1, *vector[fifo + 1 :])
                more = cost + int(self._sizes[fifo])
                if more < bound and deeper not in seen:
                    seen.add(deeper)
                    heapq.heappush(heap, (more, deeper))
        self.proved = True
        return found

    def _together(self, depths: Depths, floors: Depths) -> Depths:
        """Many FIFOs: those that are alike go together, then parts of all, down to single ones.

        Most FIFOs need no more than one slot, which one run tells of many of them at once.
        """
        groups = [np.flatnonzero(self._alike == group) for group in np.unique(self._alike)]
        parts = [group.tolist() for group in groups]
        depths = self._in_parts(depths, floors, self._ordered(parts, depths), _ROUGH)
        parts = [[fifo] for fifo in range(len(depths))]
        return self._in_parts(depths, floors, self._ordered(parts, depths), 1)

    def _ordered(self, groups: list[list[int]], depths: Depths) -> list[list[int]]:
        """Groups of FIFOs, those with most to gain first."""
        gains = [int(((depths - 1) * self._sizes)[group].sum()) for group in groups]
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
