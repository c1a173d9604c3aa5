"""The search for the FIFO depths of least bytes with which all runs are in time.

Planned depths are repaired, reduced, and proved to be the least. Deeper FIFOs never make a run of
pure dataflow slower, or stop it earlier (a Kahn process network with bounded channels). So if a
run with given depths of some FIFOs and all others unbounded is late or stuck, at least one of these
FIFOs must be deeper in every run that is in time. Such a `Bar` is derived wherever the search
meets a run that is not in time, and raised as far as possible by doubling and bisection; the least
depths that pass all bars known so far are the least of all if they are enough. Where units compete
for the memory or merge by arrival, this need not hold; all returned depths have been run, and they
are only reported as the least where that is proved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stepsim.sizing.bars import Bar, Bars
from stepsim.sizing.judge import STUCK, Depths, Judge, SearchEnded, Trials


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """FIFOs to be made as small as possible.

    Attributes
    ----------
    judges : of the runs that must be in time.
    weights : bytes of a slot of every FIFO, or another cost.
    peaks : depths that reproduce the unbounded runs exactly.
    most : depths that are as good as unbounded.
    alike : class of every FIFO; FIFOs with the same role in different places share one. By
        default every FIFO has its own.
    floors : least depths allowed; 1 by default.
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
    proved : no smaller depths are enough, given that deeper FIFOs never make a run slower.
    complete : the search ended by itself and not at its largest number of runs."""

    depths: Depths
    cycles: tuple[int, ...]
    before: int
    simulations: int
    proved: bool
    complete: bool = True


_REPAIRS = 3
"""Number of single enlargements where the runs are those of programs, which take long."""


def solved(
    problem: Problem,
    planned: Depths | Sequence[int],
    *,
    start: Depths | None = None,
    shallow: Sequence[Depths] = (),
    raised: Depths | None = None,
    budget: int = 2000,
    repairs: int = _REPAIRS,
) -> Found | None:
    """The least depths found; None where no depths make the runs complete.

    Parameters
    ----------
    planned : initial depths, which may be too small.
    start : depths known to be enough; the search starts there if they are smaller.
    shallow : depths that may be too small, in the order in which they are tried; the search starts
        at the first that are enough, and repairs the planned ones only where none are.
    raised : depths that FIFOs of shallow ones get if they are full in a deadlock; with None, they
        stay as they are.
    budget : largest number of runs for shrinking; with 0, planned depths are only repaired.
    repairs : how often a single FIFO is enlarged before all get the depth that the unbounded
        run needed.
    """
    search = Search(problem, Trials(problem.judges))
    trials = search.trials
    for one in shallow:
        depths = one if raised is None else search.unlocked(one, raised)
        if trials.enough(depths):
            break
    else:
        depths = search.repaired(np.asarray(planned, np.int64), repairs)
    before = trials.simulations
    if start is not None and problem.cost(start) < problem.cost(depths) and trials.enough(start):
        depths = start
    if not trials.enough(depths):
        return None
    trials.allow(before + budget)
    complete = False
    with suppress(SearchEnded):
        search.make_least(depths)
        complete = True
    cycles = trials.trial(search.best).cycles
    return Found(search.best, cycles, before, trials.simulations, search.proved, complete)


_UNLOCKED = 8
"""Deadlocks of shallow depths that are resolved one after another. A network with shortcuts has one
for each that a converter feeds, most of which the first run shows at once."""

_SINGLY = 64
"""Up to this many FIFOs are shrunk one by one; with more, classes of FIFOs go together first."""

_ROUGH = 1.3
"""A bound of a class of FIFOs is precise enough within this factor of the least; the search for
single FIFOs finds the rest. Decoders of 600 to 3,600 FIFOs reach the same bytes with half the runs
this way."""


class Search:
    """Looks for depths with which the runs of a problem are in time.

    Results are kept when its trials end it with `SearchEnded`.

    Attributes
    ----------
    best : the least depths so far that are enough.
    proved : they are the least of all, given that deeper FIFOs never make a run slower.
    """

    def __init__(self, problem: Problem, trials: Trials) -> None:
        self.problem, self.trials = problem, trials
        self._weights, self._most = problem.weights, problem.most
        self._floors = np.ones_like(problem.most) if problem.floors is None else problem.floors
        self.best: Depths = problem.most
        self._top = problem.most
        self.proved = False

    def repaired(self, depths: Depths, repairs: int) -> Depths:
        """Depths with which all runs are in time, starting from depths that may be too small.

        The FIFO that held its producer up longest grows by half, up to its peak; after the given
        number of repairs all get their peaks.
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

    def unlocked(self, depths: Depths, raised: Depths) -> Depths:
        """Depths with which runs do not deadlock, or those of the last of `_UNLOCKED` deadlocks.

        Only FIFOs that are full in a deadlock get deeper, such as those of a shortcut, which hold
        what the kernels beside it take before they send anything.
        """
        for _ in range(_UNLOCKED):
            trial = self.trials.trial(depths)
            if trial.enough:
                break
            stuck = (trial.held == STUCK) & (depths < raised)
            if not stuck.any():
                break
            depths = np.where(stuck, raised, depths)
        return depths

    def make_least(self, depths: Depths) -> None:
        """Shrink depths that are enough; with many FIFOs, until no single one can shrink.

        A proof bounds every FIFO alone, and then makes one after another small. Where fewer runs
        are left than that takes, they are made small together first.
        """
        few = len(depths) <= _SINGLY
        if few and 2 * self._runs_of_bound(depths) <= self.trials.left:
            self.prove_least(depths)
        elif not self._are_floors_enough(depths):
            self._make_small_together()
            if few:
                self.prove_least(self.best)

    def _runs_of_bound(self, depths: Depths) -> int:
        """Most runs that bisect the depth of every FIFO once."""
        return sum(int(span).bit_length() for span in depths - self._floors)

    def _are_floors_enough(self, depths: Depths) -> bool:
        """Whether no FIFO need be deeper than its floor; else the search starts with ``depths``."""
        self.best, self._top = depths, np.maximum(self._most, depths)
        self.proved = self._enough(self._floors)
        return self.proved

    def prove_least(self, depths: Depths) -> None:
        """Shrink depths that are enough, until it is proved that no smaller ones are."""
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
        """Shrink every FIFO in turn as far as the others allow, those with most to gain first."""
        depths = self.best
        gains = (depths - floors) * self._weights
        for fifo in np.argsort(-gains, kind="stable").tolist():
            bound = self._bisected(depths, [fifo], int(floors[fifo]), int(depths[fifo]))
            depths = self._bounded(depths, [fifo], bound)

    def _prove(self, floors: Depths) -> None:
        """Find the least depths of all from the floors up, by the bars they do not pass."""
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
        """The highest bar, over as few FIFOs as possible, that these depths do not pass."""
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
        """Whether a run that bounds only these FIFOs is not in time."""
        if not bar or any(height >= self._top[fifo] for fifo, height in bar.items()):
            return False
        depths = self._top.copy()
        depths[list(bar)] = list(bar.values())
        return not self.trials.enough(depths)

    def _enough(self, depths: Depths) -> bool:
        """Whether depths are enough; keeps the best ones."""
        enough = self.trials.enough(depths)
        if enough and self.problem.cost(depths) < self.problem.cost(self.best):
            self.best = depths
        return enough

    def _bisected(
        self, depths: Depths, fifos: Sequence[int], low: int, high: int, rough: float = 0
    ) -> int:
        """The least common bound from ``low`` on the depths of some FIFOs; ``high`` is enough.

        With ``rough``, up to so many times the least, and by ratios, as most are small.
        """
        while low < high and high > rough * low:
            middle = math.isqrt(low * high) if rough else (low + high) // 2
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
        """Shrink many FIFOs: first each class together, then parts of all, down to single ones.

        Most FIFOs need only one slot, which one run can show for many of them at once.
        """
        alike = self.problem.alike
        groups = [np.flatnonzero(alike == group).tolist() for group in np.unique(alike)]
        depths = self._in_parts(self.best, self._floors, self._ordered(groups), _ROUGH)
        singles = self._ordered([[fifo] for fifo in range(len(depths))])
        self._in_parts(depths, self._floors, singles, 1)

    def make_small_in_parts(self, floors: Depths, order: Sequence[int]) -> None:
        """As `make_small`, from unbounded FIFOs, most of which can go down to their floors."""
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
        """Shrink groups of FIFOs as far as the others allow: all at once, else in two halves.

        A group may stay up to ``rough`` times as deep as necessary.
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
            bound = self._bisected(depths, fifos, low, high, rough)
            return self._bounded(depths, fifos, bound)
        half = len(groups) // 2
        depths = self._in_parts(depths, floors, groups[:half], rough)
        return self._in_parts(depths, floors, groups[half:], rough)
