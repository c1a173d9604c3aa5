"""Constraints on FIFO depths ("bars"), and the cheapest depths that satisfy them all.

Every bar must be passed: one of its FIFOs must be deeper than the bar says. Bars that share no
FIFO are independent, so each connected group of bars gets its own best-first search, and the
choices of a program's many regions do not multiply.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Bar: TypeAlias = Mapping[int, int]
"""For a run to be in time, one of these FIFOs, by number, must be deeper than given here."""

_Deeper: TypeAlias = tuple[tuple[int, int], ...]
"""Depths of the FIFOs that are deeper than their minimum, by number, sorted by number."""


@dataclass(slots=True)
class _Group:
    """Bars connected by shared FIFOs, and the search for the cheapest depths that pass them.

    No depths cheaper than the first in the queue pass all bars.
    """

    bars: list[Bar]
    queue: list[tuple[int, _Deeper]] = field(default_factory=lambda: [(0, ())])
    seen: set[_Deeper] = field(default_factory=lambda: {()})


class Bars:
    """The bars found so far.

    Parameters
    ----------
    floors : least depths of all FIFOs.
    weights : cost of a slot of each FIFO.
    tick : called repeatedly during a search; it may raise to end it.
    """

    def __init__(
        self, floors: Sequence[int], weights: Sequence[int], tick: Callable[[], None]
    ) -> None:
        self._floors, self._weights, self._tick = floors, weights, tick
        self._groups: list[_Group] = []

    def add(self, bar: Bar) -> None:
        """Add a bar."""
        joined = [
            one for one in self._groups if any(not bar.keys().isdisjoint(b) for b in one.bars)
        ]
        if len(joined) == 1:  # what its search has ruled out stays so
            joined[0].bars.append(bar)
            return
        self._groups = [one for one in self._groups if all(one is not other for other in joined)]
        self._groups.append(_Group([*(b for one in joined for b in one.bars), bar]))

    def least(self) -> dict[int, int]:
        """The cheapest depths that pass all bars, of the FIFOs that must be deeper."""
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
