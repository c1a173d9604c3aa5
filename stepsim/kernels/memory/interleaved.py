"""A memory whose ports distribute their requests over the channels in turn: exact per request.

The request that follows one on channel ``c`` goes to channel ``c + 1``, modulo the channels, within
an access and from each access to the next: every port has a position of its own, and every channel
gets its share of every port at any number of channels. The positions start spread over the channels
so that ports that start together do not collide. Arbitration and channels are those of the
published model: one bundle per issuing port and cycle, reads before writes; a channel serves one
request per interval, first come first served; a response comes ``D`` cycles after its service
started.

State: ``free_at[c]``, the cycle from which channel ``c`` is free; per port its position, what is
left to issue and the latest response. A port that issues another ``channels`` requests visits every
channel again, and responses of a channel are in order: only the last ``channels`` requests of an
access decide when it is complete, and are run one by one. Before them, while the same ports issue
full bundles,

* channels that never idle only count: ``free -> free + arrivals * interval``;
* otherwise arrivals repeat after ``channels / gcd(channels, bundles)`` cycles. Over such a period
  each channel gets as many requests, which need ``need`` cycles, and goes through ``free ->
  max(free + need, idle)``, where ``idle`` is the result from an idle channel. One period later
  ``idle`` is later by a period, so that any number of periods is one such step.

``memory_table`` holds the position of every port and the cycle from which its requests are run one
by one, and behind them, as a cache that is written before it is read, room for a word per channel
and one more.

Indices are unsigned in what is done per request: signed ones are asked whether they count from the
end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.layout import INFINITY
from stepsim.kernels.memory.accesses import (
    activate,
    begin,
    complete,
    end_of_segment,
    enter,
    first_cycle,
    gcd,
    go_on,
    next_to_begin,
    one_begins,
)
from stepsim.kernels.memory.declaration import MemoryModel, MemoryTable

INTERLEAVED: Final = MemoryModel(
    "interleaved", "distributes the requests of every operator over the channels in turn"
)


def first_channel(port: int, channels: int) -> int:
    """Where a port begins: multiples of the golden section, which spread any run of ports."""
    return (port * 0x9E3779B9 % (1 << 32) * channels) >> 32


@INTERLEAVED.table
def _table(channels: int, bundles: Sequence[int]) -> MemoryTable:
    """Positions of the ports, a word more per port, then room for a word per channel and one."""
    positions = [first_channel(port, channels) for port in range(len(bundles))]
    return MemoryTable(np.array(positions + [0] * len(bundles), np.int64), cache=channels + 1)


@INTERLEAVED.issue
def issue(state, port, clock, requests):
    enter(state, port, clock, requests)


@inlined
def _watch(state, p):
    # Where the cycle is from which the requests of port ``p`` are run one by one.
    return (state.globals[0].memory_words >> 1) + p


@inlined
def _serve(state, first, end, earliest):
    # One request on each of the channels from ``first`` to ``end - 1``; the latest start.
    free_at = state.free_at
    interval = state.globals[0].memory_interval
    latest = 0
    for c in range(first, end):
        start = max(free_at[c], earliest)
        free_at[c] = start + interval
        latest = max(latest, start)
    return latest


@kernel
def _run_cycles(state, t, cycles):
    # Cycles from ``t`` in which every active port issues what it issues at present.
    shared = state.globals[0]
    channels = np.uint64(shared.memory_channels)
    delay = shared.memory_delay
    none = np.uint64(0)
    for earliest in range(t + 1, t + 1 + cycles):
        for i in range(np.uint64(shared.memory_active)):
            p = np.uint64(state.active[i])
            port = state.ports[p]
            first = np.uint64(state.memory_table[p])
            end = first + np.uint64(port.issues)
            latest = 0
            while end >= channels:
                latest = max(latest, _serve(state, first, channels, earliest))
                first = none
                end -= channels
            latest = max(latest, _serve(state, first, end, earliest))
            state.memory_table[p] = np.int64(end)
            port.vmax = max(port.vmax, latest + delay)


@kernel
def _queue(state, cycles):
    # The requests of ``cycles`` cycles on channels that never idle meanwhile: only counted.
    shared = state.globals[0]
    channels = shared.memory_channels
    change = shared.memory_words  # of the number of requests from each channel to the next
    for c in range(np.uint64(channels + 1)):
        state.memory_table[np.uint64(change) + c] = 0
    for i in range(shared.memory_active):
        p = state.active[i]
        issued = cycles * state.ports[p].issues
        begin = state.memory_table[p]
        end = begin + issued % channels
        state.memory_table[change] += issued // channels
        state.memory_table[change + begin] += 1
        if end >= channels:
            end -= channels
            state.memory_table[change] += 1
        state.memory_table[change + end] -= 1
        state.memory_table[p] = end
    arrivals = 0
    for c in range(np.uint64(channels)):
        arrivals += state.memory_table[np.uint64(change) + c]
        state.free_at[c] += arrivals * shared.memory_interval


@kernel
def _skip_periods(state, need, period, count, t):
    # ``count`` whole periods from cycle ``t``, in each of which a channel works ``need`` cycles.
    shared = state.globals[0]
    saved = np.uint64(shared.memory_words)
    for c in range(np.uint64(shared.memory_channels)):
        state.memory_table[saved + c] = state.free_at[c]
        state.free_at[c] = -INFINITY
    # From idle channels no response is later than it really is: the latest ones stay true.
    _run_cycles(state, t, period)
    for c in range(np.uint64(shared.memory_channels)):
        busy = state.memory_table[saved + c] + count * need
        idle = state.free_at[c] + (count - 1) * max(period, need)
        state.free_at[c] = max(busy, idle)


@inlined
def _pass(state, t, cycles, requests):
    # ``cycles`` cycles from ``t`` with ``requests`` each, and not the last requests of any port.
    # The cycles that are left to be run one by one.
    shared = state.globals[0]
    channels = shared.memory_channels
    if cycles * requests <= 2 * channels:
        return cycles
    step = channels
    for i in range(shared.memory_active):
        step = gcd(state.ports[state.active[i]].issues, step)
    period = channels // step
    need = requests // step * shared.memory_interval
    least = INFINITY
    for c in range(np.uint64(channels)):
        least = min(least, state.free_at[c])
    if least >= t + cycles or (least >= t + period and need >= period):
        _queue(state, cycles)
        return 0
    count = cycles // period
    if count < 2:  # skipping costs one period, and so does running one
        return cycles
    _skip_periods(state, need, period, count, t)
    shared.memory_steps += period * requests
    return cycles - count * period


@inlined
def _start(state, p, t):
    shared = state.globals[0]
    port = state.ports[p]
    before = max(0, port.left - shared.memory_channels)
    state.memory_table[_watch(state, p)] = t + before // port.bundle
    begin(state, p, t)
    activate(state, p)


@inlined
def _end_bundles(state, t, limit):
    # Of the ports that are due at ``t``, the last bundle follows or the access is complete; the new
    # ``limit``.
    shared = state.globals[0]
    kept = 0
    for i in range(shared.memory_active):
        p = state.active[i]
        port = state.ports[p]
        if port.due > t or port.left > 0:
            if port.due <= t:
                go_on(state, p)
            state.active[kept] = p
            kept += 1
        else:
            limit = min(limit, complete(state, p, port.vmax))
    shared.memory_active = kept
    return limit


@INTERLEAVED.advance
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
        due = INFINITY
        quiet = INFINITY
        requests = 0
        for i in range(shared.memory_active):
            p = state.active[i]
            port = state.ports[p]
            due = min(due, port.due)
            quiet = min(quiet, state.memory_table[_watch(state, p)])
            requests += port.issues
        until = end_of_segment(state, limit, due)
        quiet = min(quiet, until) - t
        left = until - t
        if quiet > 0:
            left += _pass(state, t, quiet, requests) - quiet
        shared.memory_steps += left * requests
        _run_cycles(state, until - left, left)
        t = until
        if due <= t:
            limit = _end_bundles(state, t, limit)
    shared.memory_now = t
