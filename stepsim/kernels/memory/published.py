"""The memory of the STeP paper: exact per request, driven by events.

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

from stepsim.kernels.jit import inlined, kernel
from stepsim.kernels.layout import INFINITY
from stepsim.kernels.memory.accesses import activate, enter, gcd, retire, steady
from stepsim.kernels.memory.declaration import MemoryModel, MemoryTable

__all__ = ["PUBLISHED", "advance", "issue"]

PUBLISHED: Final = MemoryModel(
    "published", "deals the requests of a cycle to the channels in growing steps, as the STeP paper"
)

_MAX_PERIOD_ROWS: Final = 2048
_MAX_TABLE_WORDS: Final = 1 << 22


@PUBLISHED.table
def _table(channels: int, bundles: Sequence[int]) -> MemoryTable:
    """Triangular numbers modulo the channels, then room for the period rows (marked unused)."""
    most = sum(bundles)
    k = np.arange(most + 1, dtype=np.int64)
    triangular = (k * (k + 1) // 2) % channels
    rows = min(most + 1, _MAX_PERIOD_ROWS, _MAX_TABLE_WORDS // (2 * channels))
    empty = np.full(rows * 2 * channels, -1, np.int64)
    return MemoryTable(np.concatenate([triangular, empty]), most + 1, rows)


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
    period = channels // gcd(state.memory_table[requests], channels)
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


@inlined
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


@inlined
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
    period = shared.memory_channels // gcd(state.memory_table[requests], shared.memory_channels)
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


@PUBLISHED.issue
def issue(state, port, clock, requests):
    enter(state, port, clock, requests)


@PUBLISHED.advance
def advance(state, limit):
    """Run all cycles up to ``limit``, or up to the first completion created on the way."""
    shared = state.globals[0]
    t = activate(state, shared.memory_now, limit)
    while shared.memory_active > 0 and t <= limit:
        length = steady(state, t, limit)
        if length == 0:
            _run_cycle(state, t, True)
            length = 1
        else:
            requests = 0
            for i in range(shared.memory_active):
                requests += state.ports[state.active[i]].bundle
            _run_segment(state, t, length, requests)
        limit = min(limit, retire(state))
        t = activate(state, t + length, limit)
    shared.memory_now = max(shared.memory_now, t)
