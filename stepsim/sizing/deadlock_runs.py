"""Runs of a deadlocked program with other depths, for the search for its least fix.

FIFOs in a row can substitute for each other, so each split of the tokens among them would need its
own bar. Where a unit between two FIFOs only forwards tokens, and sends at least one for each that
it takes, a slot before the unit is worth at least as much as a slot behind it: with depths ``a``
and ``b``, token ``k`` enters the first FIFO once token ``k - a`` has left it. By then the tokens
before that one have become ``S(k - a - 1)`` tokens that entered the second FIFO, and all but ``b``
of these must have left it. ``S(k - a - 2) + 1`` is at most ``S(k - a - 1)``, so ``a + 1`` and
``b - 1`` require no more. Hence only the first FIFO of a row is varied.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import counted
from stepsim.graph import FIFO_DEPTH, EagerMerge, MultiHot, Reassemble
from stepsim.simulation import ImageRun, Limits, Prepared, run_depths
from stepsim.sizing.judge import STUCK, Depths, SearchEnded, Trials, Verdict
from stepsim.sizing.search import Problem, Search

_TIME_OVER: Final = "max_seconds are used up"

_LIMIT: Final = "undecided: a run with other depths reached a limit; raise it"

_HANDING_ON: Final = frozenset({"UnaryMap", "Flatten", "Promote", "RepeatStatic"})
"""Units that read one FIFO and write one, and send at least one token for each they take."""


def order_matters(prepared: Prepared) -> bool:
    """Whether the result of a run may depend on which token arrives first."""
    return any(_by_arrival(unit.operator) for unit in prepared.wiring.units)


def _by_arrival(operator: Any) -> bool:
    if isinstance(operator, Reassemble):
        selectors = operator.inputs[-1].type
        return not (isinstance(selectors, MultiHot) and selectors.hot == 1)
    return isinstance(operator, EagerMerge)


class DeadlockRuns:
    """Runs of one program with other depths, until they or their time are used up.

    Attributes
    ----------
    depths : of the bounded FIFOs, by name.
    rows : the first FIFO of the row that each FIFO is in, which is deepened in its place.
    made : number of runs so far.

    Parameters
    ----------
    limits : of every run.
    max_runs, max_seconds : of all runs together.
    """

    def __init__(
        self,
        prepared: Prepared,
        indices: Any,
        limits: Limits | None,
        max_runs: int,
        max_seconds: float | None,
    ) -> None:
        self._prepared, self._indices, self._limits = prepared, indices, limits or Limits()
        self._max_runs, self._max_seconds = max_runs, max_seconds
        self._begun = time.monotonic()
        self._share = 1.0
        self._image = prepared.image(indices)
        self._check = prepared.check(indices)
        caps = zip(prepared.fifo_numbers, prepared.depths, strict=True)
        self.depths = {name: cap for name, cap in caps if cap and cap <= FIFO_DEPTH.high}
        self.rows = _rows(prepared, self.depths)
        self.made = 0

    @property
    def left(self) -> int:
        """Runs that may still be made."""
        return self._max_runs - self.made

    def spend(self, share: float) -> None:
        """Let the search continue until this share of the runs and of the time is used up."""
        self._share = share

    def check(self) -> None:
        """Raise SearchEnded when no runs or time are left."""
        if self.made >= self._share * self._max_runs:
            raise SearchEnded(f"max_runs, {counted(self._max_runs, 'run')}, are used up")
        left = self._seconds_left()
        if left is not None and left <= 0:
            raise SearchEnded(_TIME_OVER)

    def executed(self, depths: Mapping[str, int | None]) -> ImageRun:
        """A run that reports where it got stuck; SearchEnded when no runs or time are left."""
        limits = self._begin()
        changed = self._prepared.changed(fifo_depths=depths) if depths else self._prepared
        done = changed.execute(self._indices, limits=limits)
        self._ended(done.totals.status)
        return done

    def search(self, names: Sequence[str], free: ImageRun, max_cycles: int | None = None) -> Search:
        """The search for the fewest added slots.

        Parameters
        ----------
        names : of the FIFOs; the others stay as they are.
        free : the run with all FIFOs unbounded.
        max_cycles : length of a run at most; None is unbounded.
        """
        numbers = np.array([self._prepared.fifo_numbers[name] for name in names])
        own = np.array([self.depths[name] for name in names], np.int64)

        def judge(depths: Depths) -> Verdict:
            limits = self._begin()
            row = dict(zip(numbers.tolist(), depths.tolist(), strict=True))
            keep = self._prepared.keep
            done = run_depths(self._image, [row], limits=limits, keep=keep, check=self._check)
            status, cycles = done.status[0], int(done.cycles[0])
            self._ended(status)
            fast = max_cycles is None or cycles <= max_cycles

            def held() -> NDArray[np.int64]:
                if status == "deadlock":
                    return self._held(names, depths)
                waited: NDArray[np.int64] = done.producer_wait[0][numbers]
                return waited

            return Verdict(status == "ok" and fast, cycles, held)

        most = np.maximum(free.execution.channels["sent"][numbers].astype(np.int64), own)
        problem = Problem((judge,), np.ones_like(own), most, most, floors=own)
        return Search(problem, Trials((judge,), self.check))

    def _held(self, names: Sequence[str], depths: Depths) -> NDArray[np.int64]:
        """First FIFOs of rows with a full FIFO in the circular wait, or else holding up a unit."""
        done = self.executed(dict(zip(names, depths.tolist(), strict=True)))
        assert done.diagnosis is not None  # every run that is not ok has one
        slots = [wait.fifo for wait in done.diagnosis.waits if wait.reason == "slot"]
        # A FIFO of what is under way is full when that behind it is.
        held = [name for name in done.diagnosis.deepen or slots if name in self.rows]
        full = {self.rows[name] for name in held}
        return np.array([STUCK if name in full else 0 for name in names], np.int64)

    def _begin(self) -> Limits:
        self.check()
        self.made += 1
        left = self._seconds_left()
        if left is None:
            return self._limits
        own = self._limits.max_wall_seconds
        seconds = left if own is None else min(left, own)
        return Limits(self._limits.max_cycles, self._limits.max_steps, seconds)

    def _ended(self, status: str) -> None:
        if status == "limit":
            left = self._seconds_left()
            over = left is not None and left <= 0
            raise SearchEnded(_TIME_OVER if over else _LIMIT)

    def _seconds_left(self) -> float | None:
        if self._max_seconds is None:
            return None
        return self._share * self._max_seconds - (time.monotonic() - self._begun)


def _rows(prepared: Prepared, bounded: Mapping[str, int]) -> dict[str, str]:
    """The first FIFO of the row of each bounded FIFO; see the docstring of this module.

    In a program where the order of arrival matters every FIFO is a row of its own.
    """
    fifos = [fifo.name for fifo in prepared.wiring.fifos]
    before: dict[str, str] = {}
    for unit in () if order_matters(prepared) else prepared.wiring.units:
        if unit.kind in _HANDING_ON:
            (taken,), (given,) = unit.inputs, unit.outputs
            if fifos[taken] in bounded and fifos[given] in bounded:
                before[fifos[given]] = fifos[taken]
    found: dict[str, str] = {}
    for name in bounded:
        first, passed = name, {name}
        while first in before and before[first] not in passed:
            first = before[first]
            passed.add(first)
        found[name] = name if first in before else first  # a ring has no first
    return found
