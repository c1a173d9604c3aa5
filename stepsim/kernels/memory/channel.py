"""The channel model of off-chip memory: exact per request, driven by events.

An arbiter takes one bundle per issuing port and cycle, reads before writes, and scatters the
requests over the channels: within a cycle the channel advances by 1, 2, 3, ... (a triangular walk),
and the position is carried to the next cycle. A channel serves one request per interval, first come
first served; a response comes ``D`` cycles after its service started.

State: ``free_at[c]``, the cycle from which channel ``c`` is free; ``memory_offset``; per port what
is left to issue and the latest response. Cycles in which no port issues change nothing and are not
visited. While the issuing ports and their bundle sizes stay the same the arrivals are periodic, and
each channel is advanced over whole periods in closed form: over one period ``free -> max(free + m *
II, idle)``, where ``m`` requests arrive and ``idle`` is the result from an idle channel. Only the
last period of such a segment is run explicitly, because on every channel the last response is the
latest.

``memory_table`` holds the triangular numbers modulo the channel count in its first part and, behind
them, one row of ``2 * channels`` numbers (``m`` and ``idle``) per number of requests per cycle,
filled on first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from stepsim.kernels.calendar import schedule
from stepsim.kernels.jit import inlined, kernel
from stepsim.kernels.layout import INFINITY
from stepsim.kernels.memory.declaration import MemoryModel, MemoryTable

__all__ = ["CHANNEL", "advance", "issue"]

CHANNEL: Final = MemoryModel("channel", "serves each request on the next channel in turn")

_MAX_PERIOD_ROWS: Final = 2048
_MAX_TABLE_WORDS: Final = 1 << 22


@CHANNEL.table
def _table(channels: int, bundles: Sequence[int]) -> MemoryTable:
    """Triangular numbers modulo the channels, then room for the period rows (marked unused)."""
    most = sum(bundles)
    k = np.arange(most + 1, dtype=np.int64)
    triangular = (k * (k + 1) // 2) % channels
    rows = min(most + 1, _MAX_PERIOD_ROWS, _MAX_TABLE_WORDS // (2 * channels))
    empty = np.full(rows * 2 * channels, -1, np.int64)
    return MemoryTable(np.concatenate([triangular, empty]), most + 1, rows)


@CHANNEL.issue
def issue(state, port, clock, requests):
    """Enter an access; ``pending`` is a heap of ports by starting cycle."""
    shared = state.globals[0]
    record = state.ports[port]
    record.start = clock + 1
    record.left = requests
    record.vmax = -1
    shared.memory_requests += requests
    i = shared.memory_pending
    shared.memory_pending += 1
    while i > 0:
        up = (i - 1) >> 1
        if state.ports[state.pending[up]].start <= record.start:
            break
        state.pending[i] = state.pending[up]
        i = up
    state.pending[i] = port


@inlined
def _pop_pending(state):
    shared = state.globals[0]
    port = state.pending[0]
    n = shared.memory_pending - 1
    shared.memory_pending = n
    last = state.pending[n]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if (
            child + 1 < n
            and state.ports[state.pending[child + 1]].start
            < state.ports[state.pending[child]].start
        ):
            child += 1
        if state.ports[last].start <= state.ports[state.pending[child]].start:
            break
        state.pending[i] = state.pending[child]
        i = child
    if n > 0:
        state.pending[i] = last
    return port


@inlined
def _activate(state, port):
    # Keep the active list in poll order: ports are numbered reads first, then writes.
    shared = state.globals[0]
    i = shared.memory_active
    while i > 0 and state.active[i - 1] > port:
        state.active[i] = state.active[i - 1]
        i -= 1
    state.active[i] = port
    shared.memory_active += 1


@kernel
def _gcd(a, b):
    while b != 0:
        a, b = b, a % b
    return a


@kernel
def _period_row(state, requests):
    # Row of ``m`` and ``idle`` for ``requests`` per cycle, by one period from an idle machine.
    shared = state.globals[0]
    channels = shared.memory_channels
    row = shared.memory_rows_at + requests * 2 * channels
    if state.memory_table[row] >= 0:
        return row
    for c in range(channels):
        state.memory_table[row + c] = 0
        state.memory_table[row + channels + c] = -INFINITY
    period = channels // _gcd(state.memory_table[requests], channels)
    offset = 0
    for t in range(period):
        for k in range(requests):
            c = offset + state.memory_table[k]
            if c >= channels:
                c -= channels
            start = state.memory_table[row + channels + c]
            if start < t + 1:
                start = t + 1
            state.memory_table[row + channels + c] = start + shared.memory_interval
            state.memory_table[row + c] += 1
        offset += state.memory_table[requests]
        if offset >= channels:
            offset -= channels
    return row


@kernel
def _skip_periods(state, requests, period, count, t):
    # Advance every channel over ``count`` whole periods that start in cycle ``t``.
    shared = state.globals[0]
    channels = shared.memory_channels
    row = _period_row(state, requests)
    for r in range(channels):
        arrivals = state.memory_table[row + r]
        if arrivals == 0:
            continue
        c = shared.memory_offset + r
        if c >= channels:
            c -= channels
        need = arrivals * shared.memory_interval
        busy = state.free_at[c] + count * need
        idle = t + state.memory_table[row + channels + r] + (count - 1) * max(period, need)
        state.free_at[c] = max(busy, idle)


@kernel
def _run_cycle(state, t, track):
    # One arbiter cycle in which every active port issues one bundle.
    shared = state.globals[0]
    channels = shared.memory_channels
    interval = shared.memory_interval
    offset = shared.memory_offset
    earliest = t + 1
    k = 0
    for i in range(shared.memory_active):
        port = state.ports[state.active[i]]
        size = min(port.bundle, port.left)
        latest = -1
        for _ in range(size):
            c = offset + state.memory_table[k]
            if c >= channels:
                c -= channels
            start = state.free_at[c]
            if start < earliest:
                start = earliest
            state.free_at[c] = start + interval
            if start > latest:
                latest = start
            k += 1
        if track:
            port.left -= size
            if latest + shared.memory_delay > port.vmax:
                port.vmax = latest + shared.memory_delay
    offset += state.memory_table[k]
    if offset >= channels:
        offset -= channels
    shared.memory_offset = offset
    shared.memory_steps += k


@inlined
def _run_segment(state, t, length, requests):
    # ``length`` cycles from ``t`` in which the same ports issue full bundles.
    shared = state.globals[0]
    period = shared.memory_channels // _gcd(state.memory_table[requests], shared.memory_channels)
    quiet = length - period
    if quiet > 0:
        count = quiet // period
        if count * period * requests > 4 * shared.memory_channels and requests < shared.memory_rows:
            _skip_periods(state, requests, period, count, t)
            t += count * period
            quiet -= count * period
            length -= count * period
            skipped = count * period
            for i in range(shared.memory_active):
                port = state.ports[state.active[i]]
                port.left -= skipped * port.bundle
        for j in range(quiet):
            _run_cycle(state, t + j, False)
        for i in range(shared.memory_active):
            port = state.ports[state.active[i]]
            port.left -= quiet * port.bundle
        t += quiet
        length -= quiet
    for j in range(length):
        _run_cycle(state, t + j, True)


@inlined
def _retire(state):
    # Ports that have issued everything complete when their last response is back.
    shared = state.globals[0]
    kept = 0
    first = INFINITY
    for i in range(shared.memory_active):
        p = state.active[i]
        port = state.ports[p]
        if port.left > 0:
            state.active[kept] = p
            kept += 1
        else:
            done = port.vmax + 1
            schedule(state, port.unit, done)
            if done < first:
                first = done
    shared.memory_active = kept
    return first


@CHANNEL.advance
def advance(state, limit):
    """Run all cycles up to ``limit``, or up to the first completion created on the way."""
    shared = state.globals[0]
    t = shared.memory_now
    while True:
        if shared.memory_active == 0:
            if shared.memory_pending == 0 or state.ports[state.pending[0]].start > limit:
                break
            t = max(t, state.ports[state.pending[0]].start)
        if t > limit:
            break
        while shared.memory_pending > 0 and state.ports[state.pending[0]].start <= t:
            _activate(state, _pop_pending(state))
        length = limit - t + 1
        if shared.memory_pending > 0:
            length = min(length, state.ports[state.pending[0]].start - t)
        requests = 0
        for i in range(shared.memory_active):
            port = state.ports[state.active[i]]
            requests += port.bundle
            length = min(length, port.left // port.bundle)
        if length == 0:
            _run_cycle(state, t, True)
            length = 1
        else:
            _run_segment(state, t, length, requests)
        t += length
        limit = min(limit, _retire(state))
    shared.memory_now = max(shared.memory_now, t)
