"""The events to come: a heap by time, and at one time by the order of scheduling."""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined, kernel


@inlined
def _put(state, i, time, order, code):
    event = state.heap[i]
    event.time = time
    event.order = order
    event.code = code


@kernel
def schedule(state, time, kind, number):
    """Let something happen to message, link, group or chip ``number`` at ``time``."""
    run = state.run[0]
    order = run.scheduled
    run.scheduled = order + 1
    i = run.events
    run.events = i + 1
    # An event is later than all of its time, so that only an earlier time moves up.
    while i > 0:
        up = (i - 1) >> 1
        above = state.heap[up]
        if above.time <= time:
            break
        _put(state, i, above.time, above.order, above.code)
        i = up
    _put(state, i, time, order, 4 * number + kind)


@inlined
def first_time(state):
    """Time of the next event."""
    return state.heap[0].time


@kernel
def pop(state):
    """Remove the next event and return its code."""
    run = state.run[0]
    code = state.heap[0].code
    n = run.events - 1
    run.events = n
    time = state.heap[n].time
    order = state.heap[n].order
    moved = state.heap[n].code
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        least = state.heap[child]
        if child + 1 < n:
            other = state.heap[child + 1]
            if other.time < least.time or (other.time == least.time and other.order < least.order):
                child += 1
                least = other
        if time < least.time or (time == least.time and order < least.order):
            break
        _put(state, i, least.time, least.order, least.code)
        i = child
    _put(state, i, time, order, moved)
    return code
