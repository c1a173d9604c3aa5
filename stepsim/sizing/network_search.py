"""The least depths of a network of stepping kernels that keep its speed, found by running it.

Deeper FIFOs never make such a network slower, so that depths that are not enough say which FIFOs
matter: one of those that ``blamed`` names must be deeper. Source: StreamTensor, section
4.7, simulate and repair, with a shrink to the proved least.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stepsim.errors import CompileError
from stepsim.sizing.blame import blamed
from stepsim.sizing.network import FifoNetwork, NetworkRun

__all__ = ["Search", "Sized"]

_RAISE = 2
"""A FIFO that is repaired gets one in so many slots more: 50 %."""


@dataclass(frozen=True, slots=True)
class Sized:
    """Depths that are enough.

    Attributes
    ----------
    depths : slots by FIFO.
    runs : made to find them.
    proved : none with less are enough.
    """

    depths: tuple[int, ...]
    runs: int
    proved: bool = False


class Search:
    """Runs a network with depths, remembers them, and looks for fewer slots.

    Parameters
    ----------
    slowdown : how much longer a run may take than with FIFOs without bound, as a fraction.
    weights : what a slot of each FIFO costs; without them, 1.

    Attributes
    ----------
    target : cycles that a run may take.
    runs : made so far.
    """

    def __init__(
        self,
        network: FifoNetwork,
        *,
        slowdown: float = 0.0,
        weights: Sequence[int] | None = None,
    ) -> None:
        self.network = network
        unbounded = network.unbounded.makespan
        assert unbounded is not None  # kernels in topological order always end without bounds
        self.target = int(unbounded * (1 + slowdown) + 1e-9)
        self.weights = tuple(weights) if weights is not None else (1,) * len(network.fifos)
        self.runs = 0
        self._known: dict[tuple[int | None, ...], NetworkRun] = {}

    def run(self, depths: Sequence[int | None]) -> NetworkRun:
        """The run with these depths, made once."""
        key = tuple(depths)
        if key not in self._known:
            self.runs += 1
            self._known[key] = self.network.run(key)
        return self._known[key]

    def enough(self, depths: Sequence[int | None]) -> bool:
        """Whether a run with these depths is in time."""
        makespan = self.run(depths).makespan
        return makespan is not None and makespan <= self.target

    def ends(self, depths: Sequence[int | None]) -> bool:
        """Whether a run with these depths ends, however late."""
        return not self.run(depths).deadlock

    def cost(self, depths: Sequence[int]) -> int:
        """What these depths cost."""
        return sum(d * w for d, w in zip(depths, self.weights, strict=True))

    def uniform(self, good: Callable[[Sequence[int | None]], bool]) -> int:
        """The least common depth that is good (``enough`` or ``ends``)."""
        fifos = len(self.network.fifos)
        return _least(1, max(self.network.tokens), lambda depth: good([depth] * fifos))

    def alone(self, fifo: int, good: Callable[[Sequence[int | None]], bool]) -> int:
        """The least depth of one FIFO, with the others without bound, that is good."""
        others: list[int | None] = [None] * len(self.network.fifos)

        def with_depth(depth: int) -> bool:
            return good([*others[:fifo], depth, *others[fifo + 1 :]])

        return _least(1, self.network.peaks[fifo], with_depth)

    def greedy(self, depths: Sequence[int], order: Sequence[int] | None = None) -> tuple[int, ...]:
        """Every FIFO in turn as small as the others let it be.

        Parameters
        ----------
        depths : that are enough.
        order : of the FIFOs; without it, by number.
        """
        found = list(depths)
        for fifo in range(len(found)) if order is None else order:

            def with_depth(depth: int, fifo: int = fifo) -> bool:
                return self.enough([*found[:fifo], depth, *found[fifo + 1 :]])

            found[fifo] = _least(1, found[fifo], with_depth)
        return tuple(found)

    def repaired(self, depths: Sequence[int]) -> Sized:
        """Depths that are enough, from some that may be too small.

        The FIFO that held its producer up longest gets 50 % more, at most what the unbounded run
        needed; of a deadlock, those of the circular wait.
        """
        before = self.runs
        caps = [max(pair) for pair in zip(depths, self.network.peaks, strict=True)]
        found = list(depths)
        while not self.enough(found):
            run = self.run(found)
            small = [fifo for fifo in blamed(run) if found[fifo] < caps[fifo]]
            if not small:
                found = caps
                break
            if run.deadlock:
                for fifo in small:
                    found[fifo] = min(caps[fifo], max(found[fifo] + 1, 2 * found[fifo]))
            else:
                fifo = max(small, key=lambda e: (run.held(e), -e))
                more = max(1, found[fifo] // _RAISE)
                found[fifo] = min(caps[fifo], found[fifo] + more)
        return Sized(tuple(found), self.runs - before)

    def shrunk(self, depths: Sequence[int], budget: int = 2000) -> Sized:
        """Less costly depths than some that are enough.

        Every FIFO in turn, those with most to gain first; then the least of all, by best-first
        search from one slot each up, while the budget of runs lasts.
        """
        before = self.runs
        gains = [-(d - 1) * w for d, w in zip(depths, self.weights, strict=True)]
        found = self.greedy(depths, sorted(range(len(gains)), key=lambda fifo: (gains[fifo], fifo)))
        best = self._least(found, before + budget)
        return Sized(best or found, self.runs - before, proved=best is not None)

    def least(self, most_runs: int = 1_000_000) -> Sized:
        """The least costly depths that are enough, proved.

        Raises
        ------
        CompileError
            They are not found with so many runs.
        """
        before = self.runs
        found = self._least(self.greedy(self.network.peaks), before + most_runs)
        if found is None:
            raise CompileError(
                f"the least depths of {len(self.network.fifos)} FIFOs are not proved after "
                f"{most_runs} runs; allow more"
            )
        return Sized(found, self.runs - before, proved=True)

    def _least(self, found: tuple[int, ...], last_run: int) -> tuple[int, ...] | None:
        """Best first from the floors up, one more slot for each FIFO that a failure is blamed on.

        None if that takes too many runs.
        """
        bound = self.cost(found)
        floors = tuple(self.alone(fifo, self.enough) for fifo in range(len(found)))
        heap = [(self.cost(floors), floors)]
        seen = {floors}
        while heap and heap[0][0] < bound:
            if self.runs >= last_run:
                return None
            cost, depths = heapq.heappop(heap)
            if self.enough(depths):
                return depths
            for fifo in blamed(self.run(depths)):
                deeper = (*depths[:fifo], depths[fifo] + 1, *depths[fifo + 1 :])
                more = cost + self.weights[fifo]
                if more < bound and deeper not in seen:
                    seen.add(deeper)
                    heapq.heappush(heap, (more, deeper))
        return found


def _least(low: int, high: int, good: Callable[[int], bool]) -> int:
    """The least good number; ``high`` is good, and so is all above a good one."""
    while low < high:
        middle = (low + high) // 2
        if good(middle):
            high = middle
        else:
            low = middle + 1
    return high
