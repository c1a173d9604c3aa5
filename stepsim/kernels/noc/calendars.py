"""Calendars: when a port of a router is taken, as a sorted list of intervals that do not touch.

All intervals are in one array of words, by the place of their first word: begin, end, and the next
interval. The last one of a calendar is part of the calendar. It is the only one of a port with a
queue, which is taken without a gap, and most segments only move its end. The others are nodes of a
pool behind all calendars.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels.build.jit import inlined, kernel

Whole = NDArray[np.int64]

NOTHING: Final = -1
"""Instead of an interval."""

_BEGIN: Final = 0
END: Final = 1
"""Word of an interval: the first cycle after it."""
_NEXT: Final = 2
EACH_INTERVAL: Final = 3
"""Words of an interval in the pool."""

_FIRST: Final = 3  # interval; the last one if there are no others
_BEFORE: Final = 4  # interval before the last one, if there are others
WAITED: Final = 5
"""Word of a calendar: cycles that segments waited for the port."""
EACH_CALENDAR: Final = 6
"""Words of a calendar."""


def waited_for(intervals: Whole, ports: int) -> Whole:
    """Cycles that segments waited for each of the first ``ports`` calendars."""
    return intervals[: EACH_CALENDAR * ports].reshape(ports, EACH_CALENDAR)[:, WAITED].copy()


def new_calendars(count: int) -> Whole:
    """So many calendars without an interval, and no pool."""
    intervals = np.zeros((count, EACH_CALENDAR), np.int64)
    intervals[:, _NEXT] = NOTHING
    intervals[:, _FIRST] = np.arange(0, EACH_CALENDAR * count, EACH_CALENDAR)
    return intervals.reshape(-1)


def with_more_intervals(intervals: Whole, spare: int) -> tuple[Whole, int]:
    """The same with about twice the room, and the first spare interval."""
    there = len(intervals)
    more = np.zeros((256 + there // EACH_INTERVAL, EACH_INTERVAL), np.int64)
    more[:, _NEXT] = there + EACH_INTERVAL * np.arange(1, len(more) + 1)
    more[-1, _NEXT] = spare
    return np.concatenate([intervals, more.reshape(-1)]), there


@inlined
def begin_calendars(intervals, count):
    """So many calendars without an interval; their words are zero."""
    for i in range(count):
        calendar = EACH_CALENDAR * i
        intervals[calendar + _NEXT] = NOTHING
        intervals[calendar + _FIRST] = calendar


@inlined
def begin_pool(intervals, first, count):
    """Make so many intervals from the place ``first`` on spare ones; the first of them."""
    for i in range(count):
        node = first + EACH_INTERVAL * i
        intervals[node + _NEXT] = node + EACH_INTERVAL
    intervals[first + EACH_INTERVAL * (count - 1) + _NEXT] = NOTHING
    return first


@inlined
def has_spare(intervals, spare, count):
    """Whether there are so many spare intervals."""
    while count > 0 and spare != NOTHING:
        spare = intervals[spare + _NEXT]
        count -= 1
    return count == 0


@inlined
def without_past(intervals, calendar, time, spare):
    """Give back the intervals that end at ``time`` or before; the first spare interval."""
    node = intervals[calendar + _FIRST]
    while node != calendar and intervals[node + END] <= time:
        after = intervals[node + _NEXT]
        intervals[node + _NEXT] = spare
        spare = node
        node = after
    intervals[calendar + _FIRST] = node
    return spare


@inlined
def _append(intervals, calendar, begin, end, time, spare):
    # An interval behind all others.
    before = intervals[calendar + END]
    if before == begin:
        intervals[calendar + END] = end
        return spare
    spare = without_past(intervals, calendar, time, spare)
    if before > time:
        # What was the last comes into the pool.
        node = spare
        spare = intervals[node + _NEXT]
        intervals[node + _BEGIN] = intervals[calendar + _BEGIN]
        intervals[node + END] = before
        intervals[node + _NEXT] = calendar
        if intervals[calendar + _FIRST] == calendar:
            intervals[calendar + _FIRST] = node
        else:
            intervals[intervals[calendar + _BEFORE] + _NEXT] = node
        intervals[calendar + _BEFORE] = node
    intervals[calendar + _BEGIN] = begin
    intervals[calendar + END] = end
    return spare


@inlined
def reserve(intervals, inside, outside, c, n, time, spare):
    """Take the first ``n`` cycles from ``c`` on in which two calendars are free.

    Intervals that are over at ``time`` may be given back. Most segments come behind all that was
    taken before, which needs no search.

    Returns
    -------
    tuple
        The first of these cycles, and the first spare interval.
    """
    end_in = intervals[inside + END]
    end_out = intervals[outside + END]
    behind = c
    if behind < end_out and intervals[outside + _BEGIN] < behind + n:
        behind = end_out
    if behind < end_in and intervals[inside + _BEGIN] < behind + n:
        behind = end_in
    if behind >= end_in and behind >= end_out:
        spare = _append(intervals, inside, behind, behind + n, time, spare)
        return behind, _append(intervals, outside, behind, behind + n, time, spare)
    spare = without_past(intervals, inside, time, spare)
    spare = without_past(intervals, outside, time, spare)
    c, before_in, after_in, before_out, after_out = first_free(intervals, inside, outside, c, n)
    spare = book(intervals, inside, before_in, after_in, c, c + n, time, spare)
    return c, book(intervals, outside, before_out, after_out, c, c + n, time, spare)


@inlined
def first_free(intervals, inside, outside, c, n):
    """The first ``n`` cycles from ``c`` on in which two calendars are free.

    Returns
    -------
    tuple
        The first of these cycles, and the intervals before and after it in both calendars.
    """
    after_in = intervals[inside + _FIRST]
    after_out = intervals[outside + _FIRST]
    before_in = NOTHING
    before_out = NOTHING
    while True:
        while after_in != NOTHING and intervals[after_in + END] <= c:
            before_in = after_in
            after_in = intervals[after_in + _NEXT]
        if after_in != NOTHING and intervals[after_in + _BEGIN] < c + n:
            c = intervals[after_in + END]
            continue
        while after_out != NOTHING and intervals[after_out + END] <= c:
            before_out = after_out
            after_out = intervals[after_out + _NEXT]
        if after_out != NOTHING and intervals[after_out + _BEGIN] < c + n:
            c = intervals[after_out + END]
            continue
        break
    return c, before_in, after_in, before_out, after_out


@kernel
def book_at(intervals, calendar, c, n, time, spare):
    """Take the cycles [c, c + n), which are free; the first spare interval."""
    before = NOTHING
    after = intervals[calendar + _FIRST]
    while after != NOTHING and intervals[after + END] <= c:
        before = after
        after = intervals[after + _NEXT]
    return book(intervals, calendar, before, after, c, c + n, time, spare)


@kernel
def book(intervals, calendar, before, after, begin, end, time, spare):
    """Take [begin, end) between two intervals, NOTHING for none; the first spare interval.

    Intervals that would touch become one, so that a port that is always busy has one interval.
    """
    if after == NOTHING:
        return _append(intervals, calendar, begin, end, time, spare)
    if intervals[after + _BEGIN] == end:
        intervals[after + _BEGIN] = begin
        if before != NOTHING and intervals[before + END] == begin:
            spare = _join(intervals, calendar, before, after, spare)
    elif before != NOTHING and intervals[before + END] == begin:
        intervals[before + END] = end
    else:
        node = spare
        spare = intervals[node + _NEXT]
        intervals[node + _BEGIN] = begin
        intervals[node + END] = end
        intervals[node + _NEXT] = after
        if before == NOTHING:
            intervals[calendar + _FIRST] = node
        else:
            intervals[before + _NEXT] = node
        if after == calendar:
            intervals[calendar + _BEFORE] = node
    return spare


@inlined
def _join(intervals, calendar, before, after, spare):
    # The interval takes in the one before it, which it touches.
    intervals[after + _BEGIN] = intervals[before + _BEGIN]
    node = intervals[calendar + _FIRST]
    if node == before:
        intervals[calendar + _FIRST] = after
    else:
        while intervals[node + _NEXT] != before:
            node = intervals[node + _NEXT]
        intervals[node + _NEXT] = after
        if after == calendar:
            intervals[calendar + _BEFORE] = node
    intervals[before + _NEXT] = spare
    return before
