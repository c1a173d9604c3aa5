"""The search for the least bytes of FIFO with which all runs are in time.

Depths that were planned are repaired, made smaller, and proved to be the least. Deeper FIFOs never
make a run of pure dataflow slower, or stop it earlier (a Kahn process network with bounded
channels). So if a run is late or stuck in which some FIFOs have a depth each and all others are
unbounded, no run is in time in which none of these FIFOs is deeper: one of them has to be. Such a
`Bar` is found wherever the search meets a run that is not in time, and made as high as it goes, by
doubling and bisection; least depths that pass all bars known so far, and are enough, are the least
of all. Where units compete for the memory or merge by arrival that need not hold; depths that are
returned have been run, and whether they are the least is only said where it follows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stepsim.sizing.bars import Bar, Bars
from stepsim.sizing.judge import Depths, Judge, SearchEnded, Trials


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """FIFOs that are to be as small as can be.

    Attributes
    ----------
    judges : of the runs that have to be in time.
    weights : bytes of a slot of every FIFO, or another cost.
    peaks : depths with which unbounded runs are the same.
    most : depths that are as good as unbounded.
    alike : FIFOs that do the same in different places have the same number; without it, none do.
    floors : depths that are not gone below; without them, 1.
    """

    judges: Sequence[Judge]
    weights: NDArray[np.int64]
    peaks: Depths
    most: Depths
    alike: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    floors: Depths | None = None

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
    search = Search(problem, Trials(problem.judges))
    trials = search.trials
    depths = search.repaired(np.asarray(planned, np.int64), repairs)
    before = trials.simulations
    if start is not None and problem.cost(start) < problem.cost(depths) and trials.enough(start):
        depths = start
    if not trials.enough(depths):
        return None
    trials.allow(before + budget)
    with suppress(SearchEnded):
        search.make_least(depths)
    cycles = trials.trial(search.best).cycles
    return Found(search.best, cycles, before, trials.simulations, search.proved)


_SINGLY = 64
"""Up to so many FIFOs are looked at one by one; of more those that are alike go together first."""

_ROUGH = 1.3
"""Of FIFOs that are alike a bound is known well enough when it is so many times the least, or less;
what that leaves to gain, the search for single ones finds. Decoders of 600 to 3,600 FIFOs come so
to the same bytes with half the runs."""


class Search:
    """Looks for depths with which the runs of a problem are in time.

    What it does until its trials end it, with `SearchEnded`, is kept.

    Attributes
    ----------
    best : the least depths so far that are enough.
    proved : they are the least there are, if deeper FIFOs never make a run slower.
    """

    def __init__(self, problem: Problem, trials: Trials) -> None:
        self.problem, self.trials = problem, trials
        self._weights, self._most = problem.weights, problem.most
        self._floors = np.ones_like(problem.most) if problem.floors is None else problem.floors
        self.best: Depths = problem.most
        self._top = problem.most
        self.proved = False

    def repaired(self, depths: Depths, repairs: int) -> Depths:
        """Depths with which all runs are in time, from some that may be too small.

        The FIFO that held its producer up longest gets half as much again, no more than its peak;
        after so many repairs all get theirs.
        """
        most = self._most
        caps = np.maximum(depths, self.problem.peaks)
        for _ in range(repairs):
            trial = self.trials.trial(depths)
            if trial.enough:
                return depths
            held = np.where(depths >= caps, 0, trial.held)
            if not held.any():
                break
            fifo = int(held.argmax())
            depths = depths.copy()
            depths[fifo] = min(caps[fifo], depths[fifo] + max(1, depths[fifo] // 2))
        depths = caps
        while not self.trials.enough(depths) and (depths < most).any():
            depths = np.minimum(2 * depths, np.maximum(most, depths))
        return depths

    def make_least(self, depths: Depths) -> None:
        """Make depths that are enough smaller; of many FIFOs, until no single one can be."""
        if len(depths) <= _SINGLY:
            self.prove_least(depths)
        elif not self._are_floors_enough(depths):
            self._make_small_together()

    def _are_floors_enough(self, depths: Depths) -> bool:
        """Whether no FIFO need be deeper than its floor; else the search begins with ``depths``."""
        self.best, self._top = depths, np.maximum(self._most, depths)
        self.proved = self._enough(self._floors)
        return self.proved

    def prove_least(self, depths: Depths) -> None:
        """Make depths that are enough smaller, until there are proved to be none."""
        if self._are_floors_enough(depths):
            return
        floors = np.array(
            [
                self._bisected(self._top, [fifo], int(self._floors[fifo]), int(depths[fifo]))
                for fifo in range(len(depths))
            ]
        )
        if not self._enough(floors):
            self.make_small(floors)
        self._prove(floors)

    def make_small(self, floors: Depths) -> None:
        """Every FIFO in turn as small as the others let it be, those with most to gain first."""
        depths = self.best
        gains = (depths - floors) * self._weights
        for fifo in np.argsort(-gains, kind="stable").tolist():
            bound = self._bisected(depths, [fifo], int(floors[fifo]), int(depths[fifo]))
            depths = self._bounded(depths, [fifo], bound)

    def _prove(self, floors: Depths) -> None:
        """Find the least depths of all from floors up, by the bars that are in their way."""
        bars = Bars(floors.tolist(), self._weights.tolist(), self.trials.check)
        while True:
            depths = floors.copy()
            for fifo, depth in bars.least().items():
                depths[fifo] = depth
            if self.problem.cost(depths) >= self.problem.cost(self.best) or self._enough(depths):
                self.proved = True
                return
            bar = self._bar(depths)
            if not bar:  # deeper FIFOs make a run slower here
                return
            bars.add(bar)

    def _bar(self, depths: Depths) -> Bar:
        """The highest bar of as few FIFOs as possible that these depths do not pass."""
        low_ones = depths < self._top
        held = np.flatnonzero(low_ones & (self.trials.trial(depths).held > 0)).tolist()
        bar = {fifo: int(depths[fifo]) for fifo in held}
        if not self._is_bar(bar):  # more than one wait holds the run up
            bar = {fifo: int(depths[fifo]) for fifo in np.flatnonzero(low_ones).tolist()}
        for fifo in list(bar):
            rest = {other: height for other, height in bar.items() if other != fifo}
            if rest and self._is_bar(rest):
                bar = rest
        for fifo, height in bar.items():
            low, step = height, 1
            while self._is_bar({**bar, fifo: low + step}):
                low, step = low + step, 2 * step
            high = low + step
            while low + 1 < high:
                middle = (low + high) // 2
                if self._is_bar({**bar, fifo: middle}):
                    low = middle
                else:
                    high = middle
            bar[fifo] = low
        return bar

    def _is_bar(self, bar: Bar) -> bool:
        """Whether no run is in time in which only these FIFOs have a depth."""
        if not bar or any(height >= self._top[fifo] for fifo, height in bar.items()):
            return False
        depths = self._top.copy()
        depths[list(bar)] = list(bar.values())
        return not self.trials.enough(depths)

    def _enough(self, depths: Depths) -> bool:
        """Whether depths are enough; the best of them are kept."""
        enough = self.trials.enough(depths)
        if enough and self.problem.cost(depths) < self.problem.cost(self.best):
            self.best = depths
        return enough

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

    def _make_small_together(self) -> None:
        """Many FIFOs: those that are alike go together, then parts of all, down to single ones.

        Most FIFOs need no more than one slot, which one run tells of many of them at once.
        """
        alike = self.problem.alike
        groups = [np.flatnonzero(alike == group).tolist() for group in np.unique(alike)]
        depths = self._in_parts(self.best, self._floors, self._ordered(groups), _ROUGH)
        singles = self._ordered([[fifo] for fifo in range(len(depths))])
        self._in_parts(depths, self._floors, singles, 1)

    def make_small_in_parts(self, floors: Depths, order: Sequence[int]) -> None:
        """As `make_small`, from unbounded FIFOs, of which most can be as small as their floors."""
        self.best = self._top = self._most
        self._in_parts(self.best, floors, [[fifo] for fifo in order], 1)

    def _ordered(self, groups: list[list[int]]) -> list[list[int]]:
        """Groups of FIFOs, those with most to gain first."""
        gained = (self.best - self._floors) * self._weights
        gains = [int(gained[group].sum()) for group in groups]
        return [groups[place] for place in np.argsort(-np.array(gains), kind="stable").tolist()]

    def _in_parts(
        self, depths: Depths, floors: Depths, groups: list[list[int]], rough: float
    ) -> Depths:
        """Groups of FIFOs as small as the others let them be: all at once, else in two halves.

        A group may stay ``rough`` times as deep as it need be.
        """
        groups = [group for group in groups if (depths[group] > floors[group]).any()]
        if not groups:
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
