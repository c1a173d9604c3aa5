"""Work that never changes, to compare with: what a machine makes of it is its speed just now.

There is one kernel for compiled code and one for Python, because load and processors do not slow
both down alike. Neither uses anything of stepsim. Edit one, and every stored ratio is void.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numba
import numpy as np

__all__ = ["CALIBRATIONS", "ratios"]

_STAGES: Final = 500
_TOKENS: Final = 300
_DEPTH: Final = 8


@numba.njit
def _tokens_through_rings(clock, stamps, free, order, turns):  # type: ignore[no-untyped-def]
    # As an engine does it: look up a unit, its rings and slots, take the later time, write back.
    last = 0
    for turn in range(turns):
        for i in range(len(order)):
            u = order[i]
            slot = turn & (_DEPTH - 1)
            now = max(clock[u], stamps[u, slot], free[u + 1, slot])
            if now & 1:
                now += 3
            else:
                now += 2
            stamps[u + 1, slot] = now + 1
            free[u, slot] = now + 1
            clock[u] = now
            last = max(last, now)
    return last


def _compiled() -> Callable[[], object]:
    clock = np.zeros(_STAGES + 1, np.int64)
    stamps = np.zeros((_STAGES + 2, _DEPTH), np.int64)
    free = np.zeros((_STAGES + 2, _DEPTH), np.int64)
    order = np.random.default_rng(1).permutation(_STAGES)
    return lambda: _tokens_through_rings(clock, stamps, free, order, 3 * _TOKENS)


class _Node:
    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size

    def grown(self, by: int) -> _Node:
        return _Node(self.name, self.size + by)


def _objects_and_dictionaries() -> int:
    nodes = {f"node{i}": _Node(f"node{i}", i) for i in range(2000)}
    total = 0
    for turn in range(3):
        nodes = {name: node.grown(turn) for name, node in nodes.items() if node.size >= turn}
        total += sum(node.size for node in nodes.values())
        total += len(" ".join(sorted(nodes)))
    return total


CALIBRATIONS: Final[dict[str, Callable[[], Callable[[], object]]]] = {
    "compiled": _compiled,
    "python": lambda: _objects_and_dictionaries,
}
"""By the language that most of a measure is in."""


def ratios(work: Callable[[], object], calibration: Callable[[], object], seconds: float) -> float:
    """CPU time of ``work`` over that of ``calibration``: the least of many short turns of either.

    They alternate, so that both meet the machine's best moments; other work only slows down.
    """
    least = [float("inf"), float("inf")]
    work()
    calibration()
    end = time.process_time() + seconds
    turns = 0
    while turns < 5 or time.process_time() < end:
        for i, run in enumerate((work, calibration)):
            begin = time.process_time()
            run()
            least[i] = min(least[i], time.process_time() - begin)
        turns += 1
    return least[0] / least[1]
