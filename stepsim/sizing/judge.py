"""Runs that decide whether FIFO depths are enough, and which FIFOs make them late or stuck."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import counted

Depths: TypeAlias = NDArray[np.int64]
"""Depths of the sized FIFOs, in their order."""

STUCK = int(np.iinfo(np.int64).max)
"""Replaces the cycles of a producer that waits for a slot forever."""


class SearchEnded(Exception):
    """The runs or the time of a search are used up, or a run reached a limit; see the message."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one run with given depths.

    Attributes
    ----------
    in_time : the run is ok, and no longer than allowed.
    cycles : its length, where it is in time.
    blame : computes `Trial.held` of a run that is not in time.
    """

    in_time: bool
    cycles: int
    blame: Callable[[], NDArray[np.int64]]


Judge: TypeAlias = Callable[[Depths], Verdict]
"""Makes a run of a program with given bindings, or of a model of one."""


@dataclass(frozen=True, eq=False)
class Trial:
    """The outcome of all runs with given depths.

    Attributes
    ----------
    cycles : of the runs; empty unless all of them were made and are in time.
    late : a run that is not in time.
    """

    cycles: tuple[int, ...]
    late: Verdict | None = None

    @property
    def enough(self) -> bool:
        """All runs are in time."""
        return self.late is None

    @cached_property
    def held(self) -> NDArray[np.int64]:
        """Cycles that each FIFO, when full, held its producer up, or `STUCK`.

        The value is 0 for FIFOs that need not be deeper for the run to be in time. At least one of
        the others must be deeper.
        """
        assert self.late is not None  # what is enough has nothing to blame
        return self.late.blame()


class Trials:
    """Calls the judges, counts the runs and remembers their outcomes.

    Parameters
    ----------
    check : called before every run; it may raise `SearchEnded`.

    Attributes
    ----------
    simulations : runs made so far.
    """

    def __init__(self, judges: Sequence[Judge], check: Callable[[], None] = lambda: None) -> None:
        self._judges, self._check = tuple(judges), check
        self._order = list(range(len(self._judges)))
        self._known: dict[bytes, Trial] = {}
        self._last = math.inf
        self.simulations = 0

    def allow(self, simulations: int) -> None:
        """Stop after this total number of runs."""
        self._last = simulations

    @property
    def left(self) -> float:
        """Further runs that are allowed; infinity without a limit."""
        return self._last - self.simulations

    def check(self) -> None:
        """Raise SearchEnded when no further run is allowed."""
        if self.simulations >= self._last:
            raise SearchEnded(f"{counted(self.simulations, 'run')} are used up")
        self._check()

    def enough(self, depths: Depths) -> bool:
        """Whether all runs are in time with these depths."""
        return self.trial(depths).enough

    def trial(self, depths: Depths) -> Trial:
        """Make all runs, the one that failed last first, until one is not in time."""
        key = depths.tobytes()
        if key not in self._known:
            self.check()
            self._known[key] = self._made(depths)
        return self._known[key]

    def _made(self, depths: Depths) -> Trial:
        cycles = [0] * len(self._judges)
        for number in tuple(self._order):
            self.simulations += 1
            verdict = self._judges[number](depths)
            cycles[number] = verdict.cycles
            if not verdict.in_time:
                self._order.remove(number)
                self._order.insert(0, number)
                return Trial((), verdict)
        return Trial(tuple(cycles))
