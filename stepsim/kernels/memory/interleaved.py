"""A memory whose ports deal their requests to the channels in turn: exact per request.

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

``memory_table`` holds the position of every port and, behind them, room for a word per channel and
one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from stepsim.kernels.jit import kernel
from stepsim.kernels.layout import INFINITY
from stepsim.kernels.memory.accesses import activate, enter, gcd, retire, steady
from stepsim.kernels.memory.declaration import MemoryModel, MemoryTable

__all__ = ["INTERLEAVED", "advance", "first_channel", "issue"]

INTERLEAVED: Final = MemoryModel(
    "interleaved", "deals the requests of every operator to the channels in turn"
)


def first_channel(port: int, channels: int) -> int:
    """Where a port begins: multiples of the golden section, which spread any run of ports."""
    return (port * 0x9E3779B9 % (1 << 32) * channels) >> 32


@INTERLEAVED.table
def _table(channels: int, bundles: Sequence[int]) -> MemoryTable:
    """Positions of the ports, then room for a word per channel and one more."""
    positions = [first_channel(port, channels) for port in range(len(bundles))]
    return MemoryTable(np.array(positions + [0] * (channels + 1), np.int64), len(bundles))


@INTERLEAVED.issue
def issue(state, port, clock, requests):
    enter(state, port, clock, requests)


@kernel
def _run_cycle(state, t):
    # One arbiter cycle in which every active port issues one bundle.
    shared = state.globals[0]
    channels = shared.memory_channels
    interval = shared.memory_interval
    earliest = t + 1
    for i in range(shared.memory_active):
        p = state.active[i]
        port = state.ports[p]
        size = min(port.bundle, port.left)
        latest = -1
        c = state.memory_table[p]
        for _ in range(size):
            start = state.free_at[c]
            if start < earliest:
                start = earliest
            state.free_at[c] = start + interval
            if start > latest:
                latest = start
            c += 1
            if c == channels:
                c = 0
        state.memory_table[p] = c
        port.left -= size
        if latest + shared.memory_delay > port.vmax:
            port.vmax = latest + shared.memory_delay
        shared.memory_steps += size


@kernel
def _queue(state, cycles):
    # The requests of ``cycles`` cycles on channels that never idle meanwhile: only counted.
    shared = state.globals[0]
    channels = shared.memory_channels
    change = shared.memory_rows_at  # of the number of requests from each channel to the next
    for c in range(channels + 1):
        state.memory_table[change + c] = 0
    for i in range(shared.memory_active):
        p = state.active[i]
        port = state.ports[p]
        issued = cycles * port.bundle
        port.left -= issued
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
    for c in range(channels):
        arrivals += state.memory_table[change + c]
        state.free_at[c] += arrivals * shared.memory_interval


@kernel
def _skip_periods(state, need, period, count, t):
    # ``count`` whole periods from cycle ``t``, in each of which a channel works ``need`` cycles.
    shared = state.globals[0]
    saved = shared.memory_rows_at
    for c in range(shared.memory_channels):
        state.memory_table[saved + c] = state.free_at[c]
        state.free_at[c] = -INFINITY
    # From idle channels no response is later than it really is: the latest ones stay true.
    for j in range(period):
        _run_cycle(state, t + j)
    for c in range(shared.memory_channels):
        busy = state.memory_table[saved + c] + count * need
        idle = state.free_at[c] + (count - 1) * max(period, need)
        state.free_at[c] = max(busy, idle)
    for i in range(shared.memory_active):
        port = state.ports[state.active[i]]
        port.left -= (count - 1) * period * port.bundle


@kernel
def _pass(state, t, cycles):
    # ``cycles`` cycles from ``t`` in which the same ports issue full bundles, and not the last
    # requests of any of them.
    shared = state.globals[0]
    channels = shared.memory_channels
    requests = 0
    step = channels
    for i in range(shared.memory_active):
        bundle = state.ports[state.active[i]].bundle
        requests += bundle
        step = gcd(bundle, step)
    if cycles * requests > 2 * channels:
        period = channels // step
        need = requests // step * shared.memory_interval
        least = state.free_at[0]
        for c in range(channels):
            least = min(least, state.free_at[c])
        if least >= t + cycles or (least >= t + period and need >= period):
            _queue(state, cycles)
            return
        count = cycles // period
        if count > 1:  # skipping costs one period, and so does running one
            _skip_periods(state, need, period, count, t)
            t += count * period
            cycles -= count * period
    for j in range(cycles):
        _run_cycle(state, t + j)


@INTERLEAVED.advance
def advance(state, limit):
    """Run all cycles up to ``limit``, or up to the first completion created on the way."""
    shared = state.globals[0]
    t = activate(state, shared.memory_now, limit)
    while shared.memory_active > 0 and t <= limit:
        length = max(1, steady(state, t, limit))
        quiet = length
        for i in range(shared.memory_active):
            port = state.ports[state.active[i]]
            quiet = min(quiet, (port.left - shared.memory_channels) // port.bundle)
        if quiet > 0:
            _pass(state, t, quiet)
        for j in range(max(0, quiet), length):
            _run_cycle(state, t + j)
        limit = min(limit, retire(state))
        t = activate(state, t + length, limit)
    shared.memory_now = max(shared.memory_now, t)
