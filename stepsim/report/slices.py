"""The content of a timeline: slices of units and changes of counters, thinned out.

A slice is one activity of a unit, between two changes. A timeline that would be too large shows
less: adjacent slices shorter than a *grain* become one slice, named after the activity that takes
most of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.results import Events

WORK: Final = 0
"""Kind of a slice in which a unit works; other kinds are causes of waits plus one."""

MIXED: Final = 128
"""Added to the kind of a slice that represents several."""

_Times = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Slices:
    """Slices of tracks, by track and time.

    Attributes
    ----------
    track : track of each slice.
    begin, end : in cycles.
    kind : kind of activity.
    about : number of a FIFO or other object concerned; -1 for none.
    """

    track: NDArray[np.int64]
    begin: _Times
    end: _Times
    kind: NDArray[np.int64]
    about: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.track)

    def inside(self, first: int, after: int) -> Slices:
        """The slices cut to a span of cycles."""
        begin, end = np.maximum(self.begin, first), np.minimum(self.end, after)
        return Slices(self.track, begin, end, self.kind, self.about).chosen(begin < end)

    def chosen(self, which: NDArray[Any]) -> Slices:
        """The slices with these numbers, or for which it is true."""
        return Slices(*(column[which] for column in self._columns))

    def rows(self) -> Iterator[tuple[int, ...]]:
        """Track, begin, end, kind and about of every slice."""
        return zip(*(column.tolist() for column in self._columns), strict=True)

    @property
    def _columns(self) -> tuple[NDArray[np.int64], ...]:
        return self.track, self.begin, self.end, self.kind, self.about


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of counters, by counter and time."""

    counter: NDArray[np.int64]
    at: _Times
    value: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counter)


def unit_slices(events: Events) -> Slices:
    """All slices of all units: their waits, and the work between them."""
    waits, (owner, begin, end) = events.waits, events.work()
    none = np.zeros(len(owner), np.int64)
    track = np.concatenate((waits["unit"].astype(np.int64), owner))
    made = Slices(
        track,
        np.concatenate((waits["begin"], begin)),
        np.concatenate((waits["end"], end)),
        np.concatenate((waits["cause"].astype(np.int64) + 1, none + WORK)),
        np.concatenate((waits["fifo"].astype(np.int64), none - 1)),
    )
    return made.chosen(np.lexsort((made.begin, track)))


def link_slices(events: Events, first_track: int, busy: int, idle: int) -> Slices:
    """What passed every link of the network on chip, about the FIFO, and the time between.

    Links that flits passed have the tracks from ``first_track`` on, in the order of their numbers.
    """
    passed = events.passed
    port, begin, end = (passed[name].astype(np.int64) for name in ("port", "begin", "end"))
    _, track = np.unique(port, return_inverse=True)
    same = np.append(False, track[1:] == track[:-1])[: len(track)]
    before = np.where(same, np.roll(end, 1), 0)
    gap = before < begin
    made = Slices(
        first_track + np.concatenate((track, track[gap])).astype(np.int64),
        np.concatenate((begin, before[gap])),
        np.concatenate((end, begin[gap])),
        np.concatenate((np.full(len(track), busy), np.full(int(gap.sum()), idle))),
        np.concatenate((passed["fifo"].astype(np.int64), np.full(int(gap.sum()), -1))),
    )
    return made.chosen(np.lexsort((made.begin, made.track)))


def joined(first: Slices, second: Slices) -> Slices:
    """The slices of two sets of tracks."""
    return Slices(*map(np.concatenate, zip(first._columns, second._columns, strict=True)))


def thinned(slices: Slices, grain: int) -> Slices:
    """The slices, with adjacent ones shorter than ``grain`` cycles merged, one grain at a time."""
    if grain <= 1 or not len(slices):
        return slices
    length = slices.end - slices.begin
    short = length < grain
    part = slices.begin // grain
    opens = np.ones(len(slices), bool)
    opens[1:] = ~(
        short[1:]
        & short[:-1]
        & (slices.track[1:] == slices.track[:-1])
        & (part[1:] == part[:-1])
        & (slices.begin[1:] == slices.end[:-1])
    )
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(slices)) - 1
    group = np.cumsum(opens) - 1
    kinds = int(slices.kind.max()) + 1
    spent = np.bincount(group * kinds + slices.kind, length, len(first) * kinds)
    most = spent.reshape(len(first), kinds).argmax(axis=1)
    alone = first == last
    return Slices(
        slices.track[first],
        slices.begin[first],
        slices.end[last],
        np.where(alone, slices.kind[first], most + MIXED),
        np.where(alone, slices.about[first], -1),
    )


def fifo_changes(events: Events, first: int, after: int) -> Changes:
    """Slots in use of every FIFO over a span of cycles."""
    count = len(events.sent)
    fifo = np.repeat(np.arange(len(events.fifos)), np.diff(events.first))
    counter = np.concatenate((fifo, fifo))
    at = np.clip(np.concatenate((events.sent, events.freed)), first, after)
    step = np.concatenate((np.ones(count, np.int64), -np.ones(count, np.int64)))
    order = np.lexsort((at, counter))
    counter, at, value = counter[order], at[order], np.cumsum(step[order])
    kept = _last_of(counter, at) & (at < after)
    counter, at, value = counter[kept], at[kept], value[kept]
    return _changed(counter, at, value)


def thinned_changes(changes: Changes, grain: int) -> Changes:
    """The largest value and the last one of the changes within each grain."""
    if grain <= 1 or not len(changes):
        return changes
    counter, at, value = changes.counter, changes.at, changes.value
    bin_ends = np.flatnonzero(_last_of(counter, at // grain))
    bin_starts = np.append(0, bin_ends[:-1] + 1)
    peak = np.maximum.reduceat(value, bin_starts)
    several = np.stack((bin_starts != bin_ends, np.ones(len(peak), bool)), axis=1).ravel()
    counter = np.repeat(counter[bin_ends], 2)[several]
    at = np.stack((at[bin_starts], at[bin_ends]), axis=1).ravel()[several]
    value = np.stack((peak, value[bin_ends]), axis=1).ravel()[several]
    return _changed(counter, at, value)


def _changed(counter: NDArray[np.int64], at: _Times, value: NDArray[np.int64]) -> Changes:
    """The changes without entries that repeat the previous value."""
    changed = np.ones(len(at), bool)
    changed[1:] = (value[1:] != value[:-1]) | (counter[1:] != counter[:-1])
    return Changes(counter[changed], at[changed], value[changed])


def _last_of(counter: NDArray[np.int64], at: _Times) -> NDArray[np.bool_]:
    """Whether each entry is the last one of its counter at its time."""
    last = np.ones(len(at), bool)
    last[:-1] = (counter[1:] != counter[:-1]) | (at[1:] != at[:-1])
    return last
