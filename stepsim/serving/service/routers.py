"""Routers: which of several engines a request is sent to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from stepsim.serving.requests.requests import Requests
from stepsim.serving.service.record import Ints

Choose = Callable[[int, int], int]
"""The engine of a request that is sent at that time."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a router sees.

    Attributes
    ----------
    requests : all requests.
    block_size : tokens of a KV block.
    end_ns : when each request ends on its engine; -1 while that is not known. [requests]
    """

    requests: Requests
    block_size: int
    end_ns: Ints


def _round_robin(seen: Seen, engines: int) -> Choose:
    turn = -1

    def choose(request: int, now_ns: int) -> int:
        nonlocal turn
        turn = (turn + 1) % engines
        return turn

    return choose


class _Outstanding:
    """Requests that each engine has not finished."""

    def __init__(self, seen: Seen, engines: int) -> None:
        self._ends = seen.end_ns
        self._open: list[list[int]] = [[] for _ in range(engines)]

    def least(self, now_ns: int, among: Sequence[int]) -> int:
        """The engine with the fewest, the first of several."""
        for k in among:
            self._open[k] = [r for r in self._open[k] if not 0 <= self._ends[r] <= now_ns]
        return min(among, key=lambda k: len(self._open[k]))

    def add(self, engine: int, request: int) -> None:
        """Send a request to an engine."""
        self._open[engine].append(request)


def _least_outstanding(seen: Seen, engines: int) -> Choose:
    outstanding = _Outstanding(seen, engines)

    def choose(request: int, now_ns: int) -> int:
        found = outstanding.least(now_ns, range(engines))
        outstanding.add(found, request)
        return found

    return choose


def _prefix_aware(seen: Seen, engines: int) -> Choose:
    """The engine that was sent the longest common prefix; of several the least busy one."""
    outstanding = _Outstanding(seen, engines)
    requests, size = seen.requests, seen.block_size
    none = np.zeros(len(requests) + 1, np.int64), np.empty(0, np.int64)
    offsets, labels = none if requests.prefix is None else requests.prefix.blocks(size)
    sent: list[set[int]] = [set() for _ in range(engines)]

    def choose(request: int, now_ns: int) -> int:
        own = labels[offsets[request] : offsets[request + 1]].tolist()
        own = own[: int(requests.prompt_tokens[request]) // size]
        common = [_leading(own, known) for known in sent]
        most = max(common)
        among = [k for k in range(engines) if common[k] == most]
        found = outstanding.least(now_ns, among)
        outstanding.add(found, request)
        sent[found].update(own)
        return found

    return choose


def _leading(labels: list[int], known: set[int]) -> int:
    """How many labels are known, from the first on."""
    for place, label in enumerate(labels):
        if label not in known:
            return place
    return len(labels)


ROUTERS: Final[dict[str, Callable[[Seen, int], Choose]]] = {
    "round-robin": _round_robin,
    "least-outstanding": _least_outstanding,
    "prefix-aware": _prefix_aware,
}
"""Routers by name: each makes what chooses among so many engines."""
