"""Runs that tell whether FIFO depths are enough, and for which FIFOs they are late or stuck."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["STUCK", "Depths", "Judge", "Trial", "Trials", "Verdict"]

Depths: TypeAlias = NDArray[np.int64]
"""Depths of the FIFOs that are sized, in their order."""

STUCK = int(np.iinfo(np.int64).max)
"""Stands for the cycles for which a producer is held up that waits for a slot for ever."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one run with some depths came to.

    Attributes
    ----------
    in_time : it is ok, and no longer than it may be.
    cycles : how long it is, where it is in time.
    held : cycles that each FIFO, for want of a slot, held its producer up; 0 of those that need not
        be deeper. Where the run is not in time, one of the others has to be.
    """

    in_time: bool
    cycles: int
    held: NDArray[np.int64]


Judge: TypeAlias = Callable[[Depths], Verdict]
"""Makes a run: of a program with some bindings, or of a model of one."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What some depths came to.

    Attributes
    ----------
    enough : all runs are in time.
    cycles : of the runs; empty unless all of them were made.
    held : as of the verdict on the run that was not in time.
    """

    enough: bool
    cycles: tuple[int, ...]
    held: NDArray[np.int64]


class Trials:
    """Asks the judges, counts the runs and remembers what came of them.

    Attributes
    ----------
    simulations : runs made so far.
    """

    def __init__(self, judges: Sequence[Judge]) -> None:
        self._judges = tuple(judges)
        self._order = list(range(len(self._judges)))
        self._known: dict[bytes, Trial] = {}
        self.simulations = 0

    def enough(self, depths: Depths) -> bool:
        """Whether all runs are in time with these depths."""
        return self.trial(depths).enough

    def trial(self, depths: Depths) -> Trial:
        """Make all runs, the one that failed last first, until one is not in time."""
        key = depths.tobytes()
        if key not in self._known:
            self._known[key] = self._made(depths)
        return self._known[key]

    def _made(self, depths: Depths) -> Trial:
        cycles = [0] * len(self._judges)
        for number in tuple(self._order):
            verdict = self._judges[number](depths)
            self.simulations += 1
            cycles[number] = verdict.cycles
            if not verdict.in_time:
                self._order.remove(number)
                self._order.insert(0, number)
                return Trial(False, (), verdict.held)
        return Trial(True, tuple(cycles), np.zeros(len(depths), np.int64))
