"""Runs that tell whether FIFO depths are enough: counted, remembered, cut off when they are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stepsim.results import ENDED
from stepsim.simulation import DepthRuns, Limits

__all__ = ["Depths", "Trial", "Trials"]

Depths = NDArray[np.int64]
"""Depths of the FIFOs that are sized, in their order."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What some depths came to.

    Attributes
    ----------
    enough : every run is ok and in time.
    cycles : of the runs, by binding; empty unless all of them were made.
    held : cycles that producers waited for a slot of each FIFO, in the run that was not in time.
    blocked : FIFOs whose producer still waits, in a run that is stuck.
    """

    enough: bool
    cycles: tuple[int, ...]
    held: NDArray[np.int64]
    blocked: NDArray[np.bool_]


class Trials:
    """Makes the runs.

    Parameters
    ----------
    runners : for every binding, what runs it with many choices of depths of all sized FIFOs.
    targets : cycles that the runs may take, by binding.
    limits : further limits of a run.

    Attributes
    ----------
    simulations : runs made so far.
    """

    def __init__(
        self,
        runners: Sequence[Callable[[Sequence[Depths], Limits], DepthRuns]],
        targets: Sequence[int],
        sized: NDArray[np.int64],
        limits: Limits,
    ) -> None:
        self._runners = list(runners)
        self._targets = list(targets)
        self._sized = sized
        self._limits = limits
        self._order = list(range(len(runners)))
        self._known: dict[bytes, Trial] = {}
        self.simulations = 0

    def enough(self, depths: Depths) -> bool:
        """Whether all runs are in time with these depths."""
        return self.trial(depths).enough

    def trial(self, depths: Depths) -> Trial:
        """Run all bindings, the one that failed last first, until one is not in time."""
        key = depths.tobytes()
        if key not in self._known:
            self._known[key] = self._made(depths)
        return self._known[key]

    def _made(self, depths: Depths) -> Trial:
        cycles = [0] * len(self._runners)
        none = np.zeros(len(depths), np.int64)
        for binding in tuple(self._order):
            target = self._targets[binding]
            bound = self._limits.max_cycles
            limits = replace(self._limits, max_cycles=min(target, bound or target))
            runs = self._runners[binding]([depths], limits)
            self.simulations += 1
            cycles[binding] = int(runs.cycles[0])
            if runs.status[0] not in ENDED or cycles[binding] > target:
                self._order.remove(binding)
                self._order.insert(0, binding)
                blocked = runs.blocked[0][self._sized]
                if runs.status[0] != "deadlock":
                    blocked = np.zeros_like(blocked)
                return Trial(False, (), runs.producer_wait[0][self._sized], blocked)
        return Trial(True, tuple(cycles), none, none != 0)
