"""Whole transfers that share ports, as bytes: one port after the other, or all at once.

``ports``: a transfer takes its ports one after the other, each for its bytes at the port's rate; it
asks for the next port when it gets one. ``shares``: it takes all of them at once, at the rates that
are max-min fair among the transfers under way.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stepsim.kernels.build.by_reference import by_reference
from stepsim.kernels.build.entry_point import cached_entry
from stepsim.kernels.build.jit import apart, inlined
from stepsim.kernels.noc.heap import drop_event, push_event

_JOIN: Final = 1e-9  # cycles within which transfers start together
_LEFT: Final = 1e-6  # bytes that are as good as none


class ByteTraffic(NamedTuple):
    """Transfers on a network, and what became of them. Times are cycles.

    Attributes
    ----------
    words : number of transfers.
    ready, left : of every transfer: first cycle, bytes. [transfers] Written.
    begin : first place of each path in ``path``, and the end of the last. [transfers + 1]
    path : ports: source, links, sink.
    rate : bytes per cycle of every port. [ports]
    waiting, delay : of every transfer: others that it waits for, cycles after them. [transfers]
    child_begin, child : transfers that wait for a transfer.
    times, numbers : heap of events.
    start, end : of every transfer. [transfers] Written.
    waited : cycles that transfers waited for each port. [ports] Written by ``ports``.
    place : next port of every transfer, or its place among those under way. [transfers]
    share : rate of every transfer. [transfers]
    free : of every port: when it is free, or the rate that is left. [ports]
    users, head : of every port: transfers without a rate, the first of them. [ports]
    owner, later : of every place of ``path``: its transfer, and the next user of the port.
    active, touched : transfers under way, and ports that they use.
    """

    words: Any
    ready: Any
    left: Any
    begin: Any
    path: Any
    rate: Any
    waiting: Any
    delay: Any
    child_begin: Any
    child: Any
    times: Any
    numbers: Any
    start: Any
    end: Any
    waited: Any
    place: Any
    share: Any
    free: Any
    users: Any
    head: Any
    owner: Any
    later: Any
    active: Any
    touched: Any


_INT: Final = np.dtype(np.int64)
_REAL: Final = np.dtype(np.float64)
_LAYOUT: Final = ByteTraffic(
    words=_INT, ready=_REAL, left=_REAL, begin=_INT, path=_INT, rate=_REAL, waiting=_INT,
    delay=_INT, child_begin=_INT, child=_INT, times=_REAL, numbers=_INT, start=_REAL, end=_REAL,
    waited=_REAL,
    place=_INT, share=_REAL, free=_REAL, users=_INT, head=_INT, owner=_INT, later=_INT,
    active=_INT, touched=_INT,
)  # fmt: skip


def new_byte_traffic(
    ready: Any, nbytes: Any, begin: Any, path: Any, rate: Any, waiting: Any, delay: Any,
    child_begin: Any, child: Any,
) -> ByteTraffic:  # fmt: skip
    """Transfers before the first cycle; ``ready``, ``nbytes`` and ``rate`` are of float64."""
    count, ports = len(ready), len(rate)

    def whole(size: int) -> Any:
        return np.zeros(size, np.int64)

    def real(size: int) -> Any:
        return np.zeros(size)

    return ByteTraffic(
        np.array([count], np.int64), ready.copy(), nbytes.copy(), begin, path, rate,
        waiting.copy(), delay, child_begin, child,
        times=real(count), numbers=whole(count), start=np.full(count, -1.0),
        end=np.full(count, -1.0), waited=real(ports), place=whole(count), share=real(count),
        free=real(ports), users=whole(ports), head=np.full(ports, -1, np.int64),
        owner=np.repeat(np.arange(count), np.diff(begin)), later=whole(len(path)),
        active=whole(count), touched=whole(ports),
    )  # fmt: skip


@inlined
def _begin(state):
    # Those that wait for no other are the first events.
    size = 0
    for i in range(state.words[0]):
        if state.waiting[i] == 0:
            size = push_event(state.times, state.numbers, size, state.ready[i], i)
    return size


@inlined
def _release(state, i, size):
    # Those that waited for the transfer alone become ready.
    for at in range(state.child_begin[i], state.child_begin[i + 1]):
        other = state.child[at]
        ready = state.end[i] + state.delay[other]
        if ready > state.ready[other]:
            state.ready[other] = ready
        state.waiting[other] -= 1
        if state.waiting[other] == 0:
            size = push_event(state.times, state.numbers, size, state.ready[other], other)
    return size


@apart
def _run_ports(state):
    size = _begin(state)
    done = 0
    while size > 0:
        time = state.times[0]
        i = state.numbers[0]
        size = drop_event(state.times, state.numbers, size)
        at = state.begin[i] + state.place[i]
        port = state.path[at]
        go = max(time, state.free[port])
        end = go + state.left[i] / state.rate[port]
        state.free[port] = end
        state.waited[port] += go - time
        if state.place[i] == 0:
            state.start[i] = go
        state.place[i] += 1
        done += 1
        if at + 1 < state.begin[i + 1]:
            size = push_event(state.times, state.numbers, size, go, i)
        else:
            state.end[i] = end
            size = _release(state, i, size)
    return done


@inlined
def _share_out(state, count):
    # Max-min fair rates: the port with the least rate for each of its users comes first.
    touched = 0
    for k in range(count):
        i = state.active[k]
        state.share[i] = -1.0
        for at in range(state.begin[i], state.begin[i + 1]):
            port = state.path[at]
            if state.users[port] == 0:
                state.touched[touched] = port
                touched += 1
                state.free[port] = state.rate[port]
                state.head[port] = -1
            state.users[port] += 1
            state.later[at] = state.head[port]
            state.head[port] = at
    shared = 0
    while shared < count:
        least = np.inf
        narrow = -1
        kept = 0
        for k in range(touched):
            port = state.touched[k]
            users = state.users[port]
            if users > 0:
                state.touched[kept] = port
                kept += 1
                share = state.free[port] / users
                if share < least:
                    least = share
                    narrow = port
        touched = kept
        place = state.head[narrow]
        while place >= 0:
            i = state.owner[place]
            if state.share[i] < 0:
                state.share[i] = least
                shared += 1
                for at in range(state.begin[i], state.begin[i + 1]):
                    port = state.path[at]
                    state.users[port] -= 1
                    # Rounding must not make less than nothing of what is left.
                    state.free[port] = max(0.0, state.free[port] - least)
            place = state.later[place]


@apart
def _run_shares(state):
    size = _begin(state)
    count = 0
    done = 0
    now = 0.0
    while count > 0 or size > 0:
        if count == 0:
            now = max(now, state.times[0])
        while size > 0 and state.times[0] <= now + _JOIN:
            i = state.numbers[0]
            size = drop_event(state.times, state.numbers, size)
            state.start[i] = max(state.ready[i], now)
            state.active[count] = i
            count += 1
        _share_out(state, count)
        done += 1
        soon = np.inf
        for k in range(count):
            i = state.active[k]
            soon = min(soon, state.left[i] / state.share[i])
        step = soon
        if size > 0:
            step = min(soon, state.times[0] - now)
        kept = 0
        before = now
        now += step
        for k in range(count):
            i = state.active[k]
            # The first to finish has finished, whatever rounding leaves of it.
            is_first = step == soon and state.left[i] / state.share[i] == soon
            state.left[i] -= state.share[i] * step
            if is_first or state.left[i] <= _LEFT:
                state.end[i] = before + step
                size = _release(state, i, size)
            else:
                state.active[kept] = i
                kept += 1
        count = kept
    return done


def _ports_entry(traffic):
    """One port after the other, until every transfer is done; the number of events."""
    return _run_ports(by_reference(traffic))


def _shares_entry(traffic):
    """All ports at once, until every transfer is done; the number of solutions for the rates."""
    return _run_shares(by_reference(traffic))


run_ports: Any = cached_entry(_ports_entry, _LAYOUT, what="engine of networks, whole transfers")
run_shares: Any = cached_entry(_shares_entry, _LAYOUT, what="engine of networks, model flow")
