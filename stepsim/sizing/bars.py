"""Conditions that depths of FIFOs have to meet, and the least depths that meet them all.

Every bar has to be passed: one of its FIFOs has to be deeper than the bar says. Bars that share no
FIFO are met independently of each other, so that each group of bars has a best-first search of its
own; a program of many regions, each with choices of its own, does not multiply them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Bar: TypeAlias = Mapping[int, int]
"""No run is in time in which none of these FIFOs, by number, is deeper than this."""

_Deeper: TypeAlias = tuple[tuple[int, int], ...]
"""Depths of the FIFOs that are deeper than their least, by number, in the order of the numbers."""


@dataclass(slots=True)
class _Group:
    """Bars that are joined by the FIFOs they share, and the search for the least to pass them.

    No depths pass all bars that cost less than the first in the queue.
    """

    bars: list[Bar]
    queue: list[tuple[int, _Deeper]] = field(default_factory=lambda: [(0, ())])
    seen: set[_Deeper] = field(default_factory=lambda: {()})


class Bars:
    """The bars found so far.

    Parameters
    ----------
    floors : least depths of all FIFOs.
    weights : what a slot of each costs.
    tick : called again and again during a search; it may raise to end it.
    """

    def __init__(
        self, floors: Sequence[int], weights: Sequence[int], tick: Callable[[], None]
    ) -> None:
        self._floors, self._weights, self._tick = floors, weights, tick
        self._groups: list[_Group] = []

    def add(self, bar: Bar) -> None:
        """Take a further bar into account."""
        joined = [
            one for one in self._groups if any(not bar.keys().isdisjoint(b) for b in one.bars)
        ]
        if len(joined) == 1:  # what its search has ruled out stays so
            joined[0].bars.append(bar)
            return
        self._groups = [one for one in self._groups if all(one is not other for other in joined)]
        self._groups.append(_Group([*(b for one in joined for b in one.bars), bar]))

    def least(self) -> dict[int, int]:
        """Depths, of FIFOs that are to be deeper, that pass all bars at the least cost."""
        return dict(deeper for group in self._groups for deeper in self._least_of(group))

    def _least_of(self, group: _Group) -> _Deeper:
        while True:  # every bar has a FIFO, so that the queue is never empty
            self._tick()
            cost, deeper = group.queue[0]
            depths = dict(deeper)
            bar = next((bar for bar in group.bars if not self._passes(depths, bar)), None)
            if bar is None:
                return deeper
            heapq.heappop(group.queue)
            for fifo, height in bar.items():
                added = height + 1 - depths.get(fifo, self._floors[fifo])
                state = tuple(sorted({**depths, fifo: height + 1}.items()))
                if state not in group.seen:
                    group.seen.add(state)
                    heapq.heappush(group.queue, (cost + added * self._weights[fifo], state))

    def _passes(self, depths: Mapping[int, int], bar: Bar) -> bool:
        return any(depths.get(f, self._floors[f]) > height for f, height in bar.items())
