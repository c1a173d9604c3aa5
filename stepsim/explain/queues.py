"""The FIFOs that hold a run up: the least set that has to be deeper, and how deep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stepsim.explain.stalls import place_of
from stepsim.simulation import ImageRun, Limits, Prepared

__all__ = ["DeeperQueues", "deeper_queues"]

_WORTH: Final = 0.01
"""Part of a run that unbounded FIFOs have to save to be looked at."""

_KEPT: Final = 0.98
"""Part of that gain which fewer FIFOs, and finite depths, have to keep."""

_MOST_DEPTH: Final = 1 << 20
_MOST_RUNS: Final = 40

Depths = Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class DeeperQueues:
    """Depths in tokens by FIFO, and the cycles of the run with them."""

    depths: Mapping[str, int]
    cycles: int


def deeper_queues(
    prepared: Prepared,
    bindings: Mapping[Any, Any] | None,
    done: ImageRun,
    *,
    limits: Limits | None = None,
) -> DeeperQueues | None:
    """Few FIFOs that give nearly all that unbounded FIFOs give; None where these give little.

    FIFOs of lanes go together. A FIFO whose producer never waits may matter when others are deeper,
    so that all are tried where those that hold a producer up are not enough.
    """
    fifos = done.tables().fifos
    waits = dict(zip(fifos["name"].to_pylist(), fifos["producer_wait"].to_pylist(), strict=True))
    present = dict(zip(fifos["name"].to_pylist(), fifos["depth"].to_pylist(), strict=True))
    groups: dict[str, list[str]] = {}
    for name, depth in present.items():
        if depth is not None:
            place = place_of(name)
            groups.setdefault(place.operator if place.lane else name, []).append(name)
    weights = {group: sum(waits[name] for name in names) for group, names in groups.items()}
    if not any(weights.values()):
        return None

    def cycles(chosen: Sequence[str], depth: int | None = None) -> int:
        depths = {name: depth for group in chosen for name in groups[group]}
        totals = prepared.changed(fifo_depths=depths).run(bindings, limits=limits)
        return totals.cycles if totals.status == "ok" else done.totals.cycles

    everything = sorted(groups, key=lambda group: -weights[group])
    gain = done.totals.cycles - cycles(everything)
    if gain < _WORTH * done.totals.cycles:
        return None
    enough = done.totals.cycles - _KEPT * gain
    waiting = [group for group in everything if weights[group]]
    start = waiting if cycles(waiting) <= enough else everything
    chosen = _fewest(start, lambda some: cycles(some) <= enough)
    depth = 2 * max(_depth(present[name]) for group in chosen for name in groups[group])
    while depth < _MOST_DEPTH and cycles(chosen, depth) > enough:
        depth *= 2
    return DeeperQueues(
        {name: depth for group in chosen for name in groups[group]}, cycles(chosen, depth)
    )


def _depth(depth: int | None) -> int:
    assert depth is not None  # those without a bound were left out
    return depth


def _fewest(found: Sequence[str], holds: Callable[[Sequence[str]], bool]) -> list[str]:
    """A part for which something holds, of which nothing can be left out: by halves, then singly.

    Gives up after some tries, with what is left then.
    """
    left, size, runs = list(found), len(found) // 2, 0
    while size:
        for begin in range(len(left) - size, -1, -size):
            without = left[:begin] + left[begin + size :]
            runs += 1
            if without and holds(without):
                left = without
            if runs >= _MOST_RUNS:
                return left
        size //= 2
    return left
