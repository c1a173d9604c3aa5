"""Requests that wait: for their arrival, and then for a place among the running ones.

By order of arrival the queue is a list that is linked through the requests; by priority it is a
heap. Requests that follow others wait for their arrival in a heap of their own.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.serving.layout import NO_TIME


@inlined
def is_before(state, a, b):
    """Whether a request is more urgent than another one."""
    if state.priority[a] != state.priority[b]:
        return state.priority[a] < state.priority[b]
    return arrives_before(state, a, b)


@inlined
def arrives_before(state, a, b):
    """Whether a request arrives before another one."""
    if state.arrival[a] != state.arrival[b]:
        return state.arrival[a] < state.arrival[b]
    return a < b


@inlined
def _precedes(state, by_priority, a, b):
    """Whether a request comes before another one in a heap of one order or the other."""
    return is_before(state, a, b) if by_priority else arrives_before(state, a, b)


@kernel
def _push(state, heap, count, by_priority, r):
    """Add a request to a heap of so many."""
    i = count
    while i > 0:
        up = (i - 1) >> 1
        if not _precedes(state, by_priority, r, heap[up]):
            break
        heap[i] = heap[up]
        i = up
    heap[i] = r


@kernel
def _pop(state, heap, count, by_priority):
    """Take the first request out of a heap of so many."""
    n = count - 1
    r = heap[n]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and _precedes(state, by_priority, heap[child + 1], heap[child]):
            child += 1
        if not _precedes(state, by_priority, heap[child], r):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = r


@kernel
def wait(state, r):
    """Put a request that arrives behind those that wait."""
    g = state.engine[0]
    if g.by_priority != 0:
        _push(state, state.heap, g.waiting, True, r)
    else:
        state.requests[r].follower = -1
        if g.waiting == 0:
            g.head = r
        else:
            state.requests[g.tail].follower = r
        g.tail = r
    g.waiting += 1


@kernel
def wait_again(state, r):
    """Put a request that lost its blocks before those that wait, or where its priority is."""
    g = state.engine[0]
    if g.by_priority != 0:
        _push(state, state.heap, g.waiting, True, r)
    else:
        state.requests[r].follower = g.head
        if g.waiting == 0:
            g.tail = r
        g.head = r
    g.waiting += 1


@inlined
def first_waiting(state):
    """The request that is admitted next. There must be one."""
    g = state.engine[0]
    return state.heap[0] if g.by_priority != 0 else g.head


@kernel
def remove_first(state):
    """Take that request out of the queue."""
    g = state.engine[0]
    if g.by_priority != 0:
        _pop(state, state.heap, g.waiting, True)
    else:
        g.head = state.requests[g.head].follower
    g.waiting -= 1


@kernel
def arrive_later(state, r):
    """Have a request arrive at its time, which is known by now."""
    g = state.engine[0]
    _push(state, state.later, g.later, False, r)
    g.later += 1


@inlined
def next_arrival(state):
    """The time of the next arrival, as far as it is known; NO_TIME without one."""
    g = state.engine[0]
    time = NO_TIME
    if g.due_at < g.due_end:
        time = state.arrival[state.due[g.due_at]]
    if g.later > 0:
        time = min(time, state.arrival[state.later[0]])
    return time


@kernel
def admit_arrivals(state):
    """Put the requests that have arrived by now into the queue, in order of their arrival."""
    g = state.engine[0]
    while next_arrival(state) <= g.now:
        is_due = g.due_at < g.due_end
        if g.later > 0 and (
            not is_due or arrives_before(state, state.later[0], state.due[g.due_at])
        ):
            r = state.later[0]
            _pop(state, state.later, g.later, False)
            g.later -= 1
        else:
            r = state.due[g.due_at]
            g.due_at += 1
        g.unfinished += 1
        wait(state, r)
