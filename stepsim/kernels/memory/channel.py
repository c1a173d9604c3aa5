"""The channel model of off-chip memory: exact per request, driven by events.

An arbiter takes one bundle per issuing port and cycle, reads before writes, and scatters the
requests over the channels: within a cycle the channel advances by 1, 2, 3, ... (a triangular walk),
and the position is carried to the next cycle. A channel serves one request per interval, first come
first served; a response comes ``D`` cycles after its service started.

State: ``B[c]``, the cycle from which channel ``c`` is free; ``g.mem_offset``; per port what is left
to issue and the latest response. Cycles in which no port issues change nothing and are not visited.
While the issuing ports and their bundle sizes stay the same the arrivals are periodic, and each
channel is advanced over whole periods in closed form: over one period ``free -> max(free + m * II,
idle)``, where ``m`` requests arrive and ``idle`` is the result from an idle channel. Only the last
period of such a segment is run explicitly, because on every channel the last response is the
latest.

``T`` holds the triangular numbers modulo the channel count in its first part and, behind them, one
row of ``2 * channels`` numbers (``m`` and ``idle``) per number of requests per cycle, filled on
first use.
"""

from __future__ import annotations

from stepsim.kernels.calendar import schedule
from stepsim.kernels.jit import kernel
from stepsim.kernels.layout import INFINITY

__all__ = ["advance", "issue"]


@kernel
def issue(M, Q, g, port, clock, requests):
    """Enter an access; ``Q`` is a heap of ports by starting cycle, behind the active list."""
    record = M[port]
    record.start = clock + 1
    record.left = requests
    record.vmax = -1
    g.mem_requests += requests
    i = g.mem_pending
    g.mem_pending += 1
    while i > 0:
        up = (i - 1) >> 1
        if M[Q[up]].start <= record.start:
            break
        Q[i] = Q[up]
        i = up
    Q[i] = port


@kernel
def _pop_pending(M, Q, g):
    port = Q[0]
    n = g.mem_pending - 1
    g.mem_pending = n
    last = Q[n]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and M[Q[child + 1]].start < M[Q[child]].start:
            child += 1
        if M[last].start <= M[Q[child]].start:
            break
        Q[i] = Q[child]
        i = child
    if n > 0:
        Q[i] = last
    return port


@kernel
def _activate(A, g, port):
    # Keep the active list in poll order: ports are numbered reads first, then writes.
    i = g.mem_active
    while i > 0 and A[i - 1] > port:
        A[i] = A[i - 1]
        i -= 1
    A[i] = port
    g.mem_active += 1


@kernel
def _gcd(a, b):
    while b != 0:
        a, b = b, a % b
    return a


@kernel
def _period_row(T, g, requests):
    # Row of ``m`` and ``idle`` for ``requests`` per cycle, by one period from an idle machine.
    channels = g.mem_channels
    row = g.mem_table_rows + requests * 2 * channels
    if T[row] >= 0:
        return row
    for c in range(channels):
        T[row + c] = 0
        T[row + channels + c] = -INFINITY
    period = channels // _gcd(T[requests], channels)
    offset = 0
    for t in range(period):
        for k in range(requests):
            c = offset + T[k]
            if c >= channels:
                c -= channels
            start = T[row + channels + c]
            if start < t + 1:
                start = t + 1
            T[row + channels + c] = start + g.mem_interval
            T[row + c] += 1
        offset += T[requests]
        if offset >= channels:
            offset -= channels
    return row


@kernel
def _skip_periods(B, T, g, requests, period, count, t):
    # Advance every channel over ``count`` whole periods that start in cycle ``t``.
    channels = g.mem_channels
    row = _period_row(T, g, requests)
    for r in range(channels):
        arrivals = T[row + r]
        if arrivals == 0:
            continue
        c = g.mem_offset + r
        if c >= channels:
            c -= channels
        need = arrivals * g.mem_interval
        busy = B[c] + count * need
        idle = t + T[row + channels + r] + (count - 1) * max(period, need)
        B[c] = max(busy, idle)


@kernel
def _run_cycle(M, A, B, T, g, t, track):
    # One arbiter cycle in which every active port issues one bundle.
    channels = g.mem_channels
    interval = g.mem_interval
    offset = g.mem_offset
    earliest = t + 1
    k = 0
    for i in range(g.mem_active):
        port = M[A[i]]
        size = min(port.bundle, port.left)
        latest = -1
        for _ in range(size):
            c = offset + T[k]
            if c >= channels:
                c -= channels
            start = B[c]
            if start < earliest:
                start = earliest
            B[c] = start + interval
            if start > latest:
                latest = start
            k += 1
        if track:
            port.left -= size
            if latest + g.mem_delay > port.vmax:
                port.vmax = latest + g.mem_delay
    offset += T[k]
    if offset >= channels:
        offset -= channels
    g.mem_offset = offset
    g.mem_inner += k


@kernel
def _run_segment(M, A, B, T, g, t, length, requests):
    # ``length`` cycles from ``t`` in which the same ports issue full bundles.
    period = g.mem_channels // _gcd(T[requests], g.mem_channels)
    quiet = length - period
    if quiet > 0:
        count = quiet // period
        if count * period * requests > 4 * g.mem_channels and requests < g.mem_table_size:
            _skip_periods(B, T, g, requests, period, count, t)
            t += count * period
            quiet -= count * period
            length -= count * period
            skipped = count * period
            for i in range(g.mem_active):
                port = M[A[i]]
                port.left -= skipped * port.bundle
        for j in range(quiet):
            _run_cycle(M, A, B, T, g, t + j, False)
        for i in range(g.mem_active):
            port = M[A[i]]
            port.left -= quiet * port.bundle
        t += quiet
        length -= quiet
    for j in range(length):
        _run_cycle(M, A, B, T, g, t + j, True)


@kernel
def _retire(U, H, M, A, g):
    # Ports that have issued everything complete when their last response is back.
    kept = 0
    first = INFINITY
    for i in range(g.mem_active):
        p = A[i]
        port = M[p]
        if port.left > 0:
            A[kept] = p
            kept += 1
        else:
            done = port.vmax + 1
            schedule(U, H, g, port.unit, done)
            if done < first:
                first = done
    g.mem_active = kept
    return first


@kernel
def advance(U, H, M, Q, A, B, T, g, limit):
    """Run all cycles up to ``limit``, or up to the first completion created on the way."""
    t = g.mem_now
    while True:
        if g.mem_active == 0:
            if g.mem_pending == 0 or M[Q[0]].start > limit:
                break
            t = max(t, M[Q[0]].start)
        if t > limit:
            break
        while g.mem_pending > 0 and M[Q[0]].start <= t:
            _activate(A, g, _pop_pending(M, Q, g))
        length = limit - t + 1
        if g.mem_pending > 0:
            length = min(length, M[Q[0]].start - t)
        requests = 0
        for i in range(g.mem_active):
            port = M[A[i]]
            requests += port.bundle
            length = min(length, port.left // port.bundle)
        if length == 0:
            _run_cycle(M, A, B, T, g, t, True)
            length = 1
        else:
            _run_segment(M, A, B, T, g, t, length, requests)
        t += length
        limit = min(limit, _retire(U, H, M, A, g))
    g.mem_now = max(g.mem_now, t)
