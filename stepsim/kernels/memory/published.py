"""The memory of the STeP paper: exact per request, at a cost per change of contention.

An arbiter takes one bundle per issuing port and cycle, reads before writes, and scatters the
requests over the channels: within a cycle the channel advances by 1, 2, 3, ... (a triangular walk),
and the position is carried to the next cycle. A channel serves one request per interval, first come
first served; a response comes ``D`` cycles after its service started.

Time passes in *segments*, in which the same ports issue as many requests in every cycle. What a
segment does to the channels depends on its length and on the requests per cycle alone, and is a
max-plus map of every channel: :mod:`stepsim.kernels.memory.maps`. No request is looked at for it.

What an access waits for is looked for when it is complete: :func:`_latest` goes back through the
requests of this one port, from the last on, only as far as an earlier one could be the latest.
:mod:`stepsim.kernels.memory.history` has the clocks of all channels at the start of the segments so
far, and where in the cycles the port stood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.layout import INFINITY
from stepsim.kernels.memory.accesses import (
    begin,
    complete,
    end_of_segment,
    enter,
    first_cycle,
    go_on,
    next_to_begin,
    one_begins,
    pop_port,
    push_port,
)
from stepsim.kernels.memory.declaration import MemoryModel, MemoryTable
from stepsim.kernels.memory.history import (
    ALL,
    BEFORE,
    FIRST,
    HELD,
    LENGTH,
    MARK,
    OFFSET,
    REQUESTS,
    START,
    TOP,
    change,
    clocks_of,
    least_clock,
    place_of,
    segment_of,
    top_before,
    top_of,
)
from stepsim.kernels.memory.maps import PERIOD, clock_of, least_after, map_of, pass_cycles, walked
from stepsim.kernels.memory.table import (
    LOG,
    LOG_MASK,
    LOGGED,
    NEWEST,
    OLDEST,
    RATE,
    RING_MASK,
    SLOT,
    SLOT_MASK,
    STARTED,
    STARTS,
    STARTS_MASK,
    TREE_PORTS,
    TURNS,
    table_of,
)

PUBLISHED: Final = MemoryModel(
    "published",
    "distributes the requests of a cycle over the channels in growing steps, as the STeP paper",
)


@PUBLISHED.table
def _table(channels: int, bundles: Sequence[int]) -> MemoryTable:
    return table_of(channels, bundles)


@PUBLISHED.issue
def issue(state, port, clock, requests):
    enter(state, port, clock, requests)


@inlined
def _latest_walked(state, segment, place, size):
    # The latest start in a walked segment of requests ``place``, ... of its cycles.
    words = state.memory_table
    first = words[segment + FIRST] + place
    latest = 0
    for _ in range(words[segment + LENGTH]):
        for k in range(first, first + size):
            latest = max(latest, words[words[STARTS] + (k & words[STARTS_MASK])])
        first += words[segment + REQUESTS]
    return latest


@kernel
def _latest(state, p):
    # The cycle in which the service of the latest request of port ``p`` starts, of those so far.
    #
    # On a channel, requests are served in the order of arrival. Those that arrived before a cycle
    # start an interval or more before ``free``, the clock of the channel at the start of the cycle,
    # and ``free`` grows by an interval at least with each request that arrives from there on. So if
    # ``top`` is the largest clock after a segment, and every channel gets ``least`` cycles of work
    # or more in its last cycles, then all that arrived before them started at
    # ``top - least - interval`` or earlier, and need not be looked at when a later one is known;
    # the same holds for one channel and its own clock. In segments longer than a period, every
    # request before the last period has one of the same port on the same channel behind it.
    shared = state.globals[0]
    words = state.memory_table
    channels = shared.memory_channels
    interval = shared.memory_interval
    found = state.ports[p].vmax - shared.memory_delay
    size = state.ports[p].issues
    place = place_of(state, p)
    logged = words[LOGGED]
    s = words[NEWEST]
    offset = shared.memory_offset
    top = top_of(state, words[SLOT])
    while s > words[OLDEST] and top - interval > found:
        s -= 1
        segment = segment_of(state, s)
        while logged > words[segment + MARK]:
            logged -= 1
            entry = words[LOG] + 2 * (logged & words[LOG_MASK])
            if words[entry] == p:
                size -= words[entry + 1]
            elif words[entry] < p:
                place -= words[entry + 1]
        if size == 0:
            break
        if words[segment + FIRST] >= 0:
            found = max(found, _latest_walked(state, segment, place, size))
            offset = words[segment + OFFSET]
            top = words[segment + BEFORE]
            continue
        begin = words[segment + START]
        cycle = words[segment + LENGTH]
        ends = clocks_of(state, words[segment + HELD] + 1)
        clocks = clocks_of(state, words[segment + HELD])
        steps = map_of(state, words[segment + REQUESTS])
        first = max(0, cycle - words[steps + PERIOD])
        shift = walked(state, words[segment + REQUESTS])
        back = 0
        least = 0
        while cycle > first and top - least - interval > found:
            cycle -= 1
            offset -= shift
            if offset < 0:
                offset += channels
            for k in range(place, place + size):
                c = offset + walked(state, k)
                if c >= channels:
                    c -= channels
                if words[ends + c] - least - interval > found:
                    start = clock_of(state, steps, clocks, words[segment + OFFSET], begin, cycle, c)
                    start = max(start, begin + cycle + 1) + interval * words[words[TURNS] + k]
                    found = max(found, start)
                    shared.memory_steps += 1
            back += 1
            if back & (back - 1) == 0:
                least = least_after(state, steps, back)
        offset = words[segment + OFFSET]
        top = top_of(state, words[segment + HELD])
    return found


@kernel
def _forget(state):
    # Make room for another segment and its changes: the older half of the segments goes.
    shared = state.globals[0]
    words = state.memory_table
    now = words[NEWEST]
    kept = words[OLDEST] + (now - words[OLDEST] + 1) // 2
    # Whatever issues from here on starts at the least clock or later.
    top = top_of(state, words[SLOT]) if kept == now else top_before(state, segment_of(state, kept))
    if top - shared.memory_interval > least_clock(state):
        for i in range(shared.memory_active):
            p = state.active[i]
            state.ports[p].vmax = _latest(state, p) + shared.memory_delay
    words[OLDEST] = kept


@inlined
def _is_full(state, segment):
    # What is behind the next segment needs a place, and so do the changes of all ports.
    words = state.memory_table
    oldest = segment_of(state, words[OLDEST])
    return (
        words[NEWEST] - words[OLDEST] + 1 > words[RING_MASK]
        or words[SLOT] - words[oldest + HELD] + 1 > words[SLOT_MASK]
        or words[LOGGED] - words[oldest + MARK] + 2 * words[TREE_PORTS] > words[LOG_MASK]
        or words[STARTED] - words[oldest + ALL] + state.globals[0].memory_channels // 8
        > words[STARTS_MASK]
    )


@inlined
def _walk(state, t, cycles):
    # One request after the other, in the clocks that hold now.
    shared = state.globals[0]
    words = state.memory_table
    channels = shared.memory_channels
    requests = words[RATE]
    clocks = clocks_of(state, words[SLOT])
    offset = shared.memory_offset
    top = top_of(state, words[SLOT])
    started = words[STARTED]
    for earliest in range(t + 1, t + 1 + cycles):
        for k in range(requests):
            c = offset + walked(state, k)
            if c >= channels:
                c -= channels
            start = max(words[clocks + c], earliest)
            words[clocks + c] = start + shared.memory_interval
            words[words[STARTS] + (started & words[STARTS_MASK])] = start
            top = max(top, start + shared.memory_interval)
            started += 1
        offset += walked(state, requests)
        if offset >= channels:
            offset -= channels
    words[STARTED] = started
    words[segment_of(state, words[SLOT]) + TOP] = top
    shared.memory_offset = offset
    shared.memory_steps += cycles * requests


@inlined
def _pass(state, t, cycles):
    # ``cycles`` cycles from ``t`` in which the same ports issue as many requests.
    shared = state.globals[0]
    words = state.memory_table
    s = words[NEWEST]
    segment = segment_of(state, s)
    if s == 0:
        _open(state)
    words[segment + START] = t
    words[segment + LENGTH] = cycles
    words[segment + OFFSET] = shared.memory_offset
    words[segment + REQUESTS] = words[RATE]
    words[segment + MARK] = words[LOGGED]
    words[segment + HELD] = words[SLOT]
    words[segment + ALL] = words[STARTED]
    while _is_full(state, segment):
        _forget(state)
    words[NEWEST] = s + 1
    # A sweep over the channels takes about the time of an eighth as many requests.
    if 8 * cycles * words[RATE] <= shared.memory_channels:
        words[segment + FIRST] = words[STARTED]
        words[segment + BEFORE] = top_of(state, words[SLOT])
        _walk(state, t, cycles)
        return
    words[segment + FIRST] = -1
    source = clocks_of(state, words[SLOT])
    words[SLOT] += 1
    target = clocks_of(state, words[SLOT])
    shared.memory_offset = pass_cycles(
        state, map_of(state, words[RATE]), cycles, shared.memory_offset, t, source, target
    )
    words[segment_of(state, words[SLOT]) + TOP] = -1


@kernel
def _open(state):
    # All channels are free at first.
    words = state.memory_table
    clocks = clocks_of(state, 0)
    for c in range(state.globals[0].memory_channels):
        words[clocks + c] = 0
    words[segment_of(state, 0) + TOP] = 0


@inlined
def _start(state, p, t):
    begin(state, p, t)
    change(state, p, state.ports[p].issues)
    push_port(state, state.active, state.globals[0].memory_active, p)
    state.globals[0].memory_active += 1


@inlined
def _end_bundles(state, limit):
    # The port that is due first has issued its full bundles, or everything; the new ``limit``.
    shared = state.globals[0]
    p = pop_port(state, state.active, shared.memory_active)
    port = state.ports[p]
    before = port.issues
    if port.left > 0:
        go_on(state, p)
        change(state, p, port.issues - before)
        push_port(state, state.active, shared.memory_active - 1, p)
        return limit
    shared.memory_active -= 1
    done = complete(state, p, _latest(state, p) + shared.memory_delay)
    change(state, p, -before)
    return min(limit, done)


@PUBLISHED.advance
def advance(state, limit):
    """Run all cycles up to ``limit``, or up to the first completion created on the way."""
    shared = state.globals[0]
    t = shared.memory_now
    while True:
        first = first_cycle(state, t, limit)
        if first > limit:
            break
        t = first
        while one_begins(state, t):
            _start(state, next_to_begin(state), t)
        until = end_of_segment(state, limit, state.ports[state.active[0]].due)
        _pass(state, t, until - t)
        t = until
        while shared.memory_active > 0 and state.ports[state.active[0]].due <= t:
            limit = _end_bundles(state, limit)
    shared.memory_now = t


@PUBLISHED.ends_from
def ends_from(state):
    """The first cycle in which the state of a port changes: none ends an access before."""
    shared = state.globals[0]
    first = INFINITY
    if shared.memory_active > 0:
        first = state.ports[state.active[0]].due - 1
    if shared.memory_pending > 0:
        first = min(first, state.ports[state.pending[0]].due)
    return first
