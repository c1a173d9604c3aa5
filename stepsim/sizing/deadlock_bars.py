"""Conditions that depths of FIFOs have to meet to end a deadlock, and the least that meet them all.

Every bar has to be passed: one of its FIFOs has to be deeper than the bar says. Bars that share no
FIFO are met independently of each other, so that each group of bars has a best-first search of its
own; a program of many regions, each with choices of its own, does not multiply them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

__all__ = ["Bar", "Bars"]

Bar = Mapping[str, int]
"""Every run is stuck in which none of these FIFOs is deeper than this."""

_Added = tuple[tuple[str, int], ...]
"""Tokens by which FIFOs are to be deeper, by name, in the order of the names."""


@dataclass(slots=True)
class _Group:
    """Bars that are joined by the FIFOs they share, and the search for the least to pass them.

    No added tokens pass all bars that are fewer than the first in the queue.
    """

    bars: list[Bar]
    queue: list[tuple[int, _Added]] = field(default_factory=lambda: [(0, ())])
    seen: set[_Added] = field(default_factory=lambda: {()})


class Bars:
    """The bars found so far.

    Parameters
    ----------
    own : depths that the FIFOs have, by name.
    tick : called again and again during a search; it may raise to end it.
    """

    def __init__(self, own: Mapping[str, int], tick: Callable[[], None]) -> None:
        self._own, self._tick = own, tick
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

    def least(self) -> dict[str, int]:
        """Depths, of FIFOs that are to be deeper, that pass all bars with the fewest tokens."""
        added = [one for group in self._groups for one in self._least_of(group)]
        return {name: self._own[name] + tokens for name, tokens in added}

    def _least_of(self, group: _Group) -> _Added:
        while True:  # every bar has a FIFO, so that the queue is never empty
            self._tick()
            _, added = group.queue[0]
            more = dict(added)
            bar = next((bar for bar in group.bars if not self._passes(more, bar)), None)
            if bar is None:
                return added
            heapq.heappop(group.queue)
            for name, height in bar.items():
                deeper = {**more, name: height + 1 - self._own[name]}
                state = tuple(sorted(deeper.items()))
                if state not in group.seen:
                    group.seen.add(state)
                    heapq.heappush(group.queue, (sum(deeper.values()), state))

    def _passes(self, more: Mapping[str, int], bar: Bar) -> bool:
        return any(self._own[name] + more.get(name, 0) > height for name, height in bar.items())
