"""Calendars: when a port of a router is taken, as a sorted list of intervals that do not touch.

The intervals of all calendars are nodes of one pool, with a begin, an end and the next node. Of
every calendar the first and the last node are known.
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
    if node == NOTHING:
        state.last[calendar] = NOTHING
    return spare


@inlined
def _end(state, calendar):
    node = state.last[calendar]
    return state.ends[node] if node != NOTHING else 0


@inlined
def _begin_of_last(state, calendar):
    node = state.last[calendar]
    return state.begins[node] if node != NOTHING else 0


@inlined
def _append(state, calendar, begin, end, spare):
    # An interval behind all others.
    node = state.last[calendar]
    if node != NOTHING and state.ends[node] == begin:
        state.ends[node] = end
        return spare
    added = spare
    spare = state.nexts[added]
    state.begins[added] = begin
    state.ends[added] = end
    state.nexts[added] = NOTHING
    if node == NOTHING:
        state.first[calendar] = added
    else:
        state.nexts[node] = added
    state.last[calendar] = added
    return spare


@inlined
def reserve(state, inside, outside, c, n, spare):
    """Take the first ``n`` cycles from ``c`` on in which two calendars are free.

    A port with a queue is taken without a gap to its end, so that most segments come behind all
    that was taken before, which needs no search.

    Returns
    -------
    tuple
        The first of these cycles, and the first spare node.
    """
    end_in = _end(state, inside)
    end_out = _end(state, outside)
    behind = c
    if behind < end_out and _begin_of_last(state, outside) < behind + n:
        behind = end_out
    if behind < end_in and _begin_of_last(state, inside) < behind + n:
        behind = end_in
    if behind >= end_in and behind >= end_out:
        spare = _append(state, inside, behind, behind + n, spare)
        return behind, _append(state, outside, behind, behind + n, spare)
    c, before_in, after_in, before_out, after_out = first_free(state, inside, outside, c, n)
    spare = book(state, inside, before_in, after_in, c, c + n, spare)
    return c, book(state, outside, before_out, after_out, c, c + n, spare)


@inlined
def first_free(state, inside, outside, c, n):
    """The first ``n`` cycles from ``c`` on in which two calendars are free.

    Returns
    -------
    tuple
        The first of these cycles, and the intervals before and after it in both calendars.
    """
    after_in = state.first[inside]
    after_out = state.first[outside]
    before_in = NOTHING
    before_out = NOTHING
    while True:
        while after_in != NOTHING and state.ends[after_in] <= c:
            before_in = after_in
            after_in = state.nexts[after_in]
        if after_in != NOTHING and state.begins[after_in] < c + n:
            c = state.ends[after_in]
            continue
        while after_out != NOTHING and state.ends[after_out] <= c:
            before_out = after_out
            after_out = state.nexts[after_out]
        if after_out != NOTHING and state.begins[after_out] < c + n:
            c = state.ends[after_out]
            continue
        break
    return c, before_in, after_in, before_out, after_out


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
            if state.last[calendar] == after:
                state.last[calendar] = before
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
        if after == NOTHING:
            state.last[calendar] = node
    return spare
