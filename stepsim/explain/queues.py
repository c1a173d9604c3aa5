"""The FIFOs that limit a run: the smallest set that must be deeper, and their depths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stepsim.results import place_of
from stepsim.simulation import ImageRun, Limits, Prepared

_WORTH: Final = 0.01
"""Least saving of unbounded FIFOs, as a fraction of a run, that starts the search."""

_KEPT: Final = 0.98
"""Fraction of that gain that fewer FIFOs, and finite depths, must keep."""

_MOST_DEPTH: Final = 1 << 20
_MOST_SETS: Final = 40
"""Most sets of FIFOs that are tried."""

MOST_RUNS: Final = _MOST_SETS + _MOST_DEPTH.bit_length() + 2
"""Most runs of a search: sets of FIFOs, doubled depths, and two runs before and after them."""

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
    ran: Callable[[], object] = lambda: None,
) -> DeeperQueues | None:
    """A few FIFOs that gain nearly as much as unbounded ones; None if those gain little.

    FIFOs of lanes are treated together. A FIFO whose producer never waits may matter when others
    are deeper, so all FIFOs are tried if those that stall a producer are not enough. ``ran`` is
    called after every run, of which there are at most `MOST_RUNS`.
    """
    fifos = done.tables().fifos
    waits = dict(zip(fifos["name"].to_pylist(), fifos["producer_wait"].to_pylist(), strict=True))
    depths = zip(fifos["name"].to_pylist(), fifos["depth"].to_pylist(), strict=True)
    own = prepared.fifo_numbers  # and not those of carriers
    bounded: dict[str, int] = {
        name: depth for name, depth in depths if depth is not None and name in own
    }
    groups: dict[str, list[str]] = {}
    for name in bounded:
        place = place_of(name)
        groups.setdefault(place.operator if place.lane else name, []).append(name)
    weights = {group: sum(waits[name] for name in names) for group, names in groups.items()}
    if not any(weights.values()):
        return None

    def cycles(chosen: Sequence[str], depth: int | None = None) -> int:
        deeper = {name: depth for group in chosen for name in groups[group]}
        totals = prepared.changed(fifo_depths=deeper).run(bindings, limits=limits)
        ran()
        return totals.cycles if totals.status == "ok" else done.totals.cycles

    everything = sorted(groups, key=lambda group: -weights[group])
    gain = done.totals.cycles - cycles(everything)
    if gain < _WORTH * done.totals.cycles:
        return None
    enough = done.totals.cycles - _KEPT * gain
    waiting = [group for group in everything if weights[group]]
    start = waiting if cycles(waiting) <= enough else everything
    chosen = _fewest(start, lambda some: cycles(some) <= enough)
    depth = 2 * max(bounded[name] for group in chosen for name in groups[group])
    while depth < _MOST_DEPTH and cycles(chosen, depth) > enough:
        depth *= 2
    return DeeperQueues(
        {name: depth for group in chosen for name in groups[group]}, cycles(chosen, depth)
    )


def _fewest(found: Sequence[str], holds: Callable[[Sequence[str]], bool]) -> list[str]:
    """A minimal subset that satisfies a predicate, found by halving, then one by one.

    Stops after a number of tries with the subset found so far.
    """
    left, size, runs = list(found), len(found) // 2, 0
    while size:
        for begin in range(len(left) - size, -1, -size):
            without = left[:begin] + left[begin + size :]
            runs += 1
            if without and holds(without):
                left = without
            if runs >= _MOST_SETS:
                return left
        size //= 2
    return left
