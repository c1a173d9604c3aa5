"""Calendars: when a port of a router is taken, as a sorted list of intervals that do not touch.

The intervals of all calendars are nodes of one pool, with a begin, an end and the next node.
"""

from __future__ import annotations

from typing import Final

from stepsim.kernels.build.jit import inlined

NOTHING: Final = -1
"""Instead of a node."""


@inlined
def without_past(state, calendar, time, spare):
    """Give back the intervals that end at ``time`` or before; the first spare node."""
    node = state.first[calendar]
    while node != NOTHING and state.ends[node] <= time:
        after = state.nexts[node]
        state.nexts[node] = spare
        spare = node
        node = after
    state.first[calendar] = node
    return spare


@inlined
def book(state, calendar, before, after, begin, end, spare):
    """Take [begin, end) between two intervals, NOTHING for none; the first spare node.

    Intervals that would touch become one, so that a port that is always busy has one interval.
    """
    if before != NOTHING and state.ends[before] == begin:
        state.ends[before] = end
        if after != NOTHING and state.begins[after] == end:
            state.ends[before] = state.ends[after]
            state.nexts[before] = state.nexts[after]
            state.nexts[after] = spare
            spare = after
    elif after != NOTHING and state.begins[after] == end:
        state.begins[after] = begin
    else:
        node = spare
        spare = state.nexts[node]
        state.begins[node] = begin
        state.ends[node] = end
        state.nexts[node] = after
        if before == NOTHING:
            state.first[calendar] = node
        else:
            state.nexts[before] = node
    return spare
