"""Transfers in time steps, in the float32 arithmetic of tt-npe.

In every step the transfers under way ask their ports for bytes; where a port is asked for more than
it has, each gets less by the same factor, once. Every operation on a rate is rounded to float32, in
the order of the transfers under way, since sums depend on it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stepsim.kernels.build.by_reference import by_reference
from stepsim.kernels.build.entry_point import cached_entry
from stepsim.kernels.build.jit import apart, inlined

NEVER: Final = -(1 << 60)
"""End of what a transfer waits for, where it waits for nothing."""


class SteppedTraffic(NamedTuple):
    """Transfers on a network, and what became of them. Times are cycles.

    Attributes
    ----------
    words : cycles of a step, whether transfers slow each other down, number of transfers.
    offset, total : of every transfer: first cycle, bytes. [transfers]
    base : bytes per cycle of every transfer by its packets and its source. [transfers] float32
    begin, sinks : first place of each path in ``path``, and first of its sinks. [transfers + 1]
    path : ports: source, links, sinks.
    limited : whether the sink limits a transfer; it is then one. [transfers]
    rate : bytes per cycle of every port. [ports] float32
    waiting, delay : of every transfer: others that it waits for, cycles after them. [transfers]
    child_begin, child : transfers that wait for a transfer.
    queue : transfers by falling offset and number. [transfers]
    after : end of what a transfer waits for, NEVER for nothing. [transfers]
    live : transfers under way. [transfers]
    speed : bytes per cycle of every transfer. [transfers] float32
    demand : of every port, in bytes per cycle. [ports] float32
    moved : bytes of every transfer that are there. [transfers]
    start, end : of every transfer. [transfers] Written.
    """

    words: Any
    offset: Any
    total: Any
    base: Any
    begin: Any
    sinks: Any
    path: Any
    limited: Any
    rate: Any
    waiting: Any
    delay: Any
    child_begin: Any
    child: Any
    queue: Any
    after: Any
    live: Any
    speed: Any
    demand: Any
    moved: Any
    start: Any
    end: Any


_STEP: Final = 0
_CONGESTION: Final = 1
_COUNT: Final = 2

_PATIENCE: Final = 8  # steps without a byte, after which none will ever move

_INT: Final = np.dtype(np.int64)
_SINGLE: Final = np.dtype(np.float32)
_OF_SINGLES: Final = ("base", "rate", "speed", "demand")
_LAYOUT: Final = SteppedTraffic(
    *[_SINGLE if name in _OF_SINGLES else _INT for name in SteppedTraffic._fields]
)


def new_stepped_traffic(
    offset: Any, total: Any, base: Any, begin: Any, sinks: Any, path: Any, limited: Any, rate: Any,
    waiting: Any, delay: Any, child_begin: Any, child: Any, *, step: int, congestion: bool,
) -> SteppedTraffic:  # fmt: skip
    """Transfers before the first step; ``base`` and ``rate`` are of float32."""
    count = len(offset)

    def whole() -> Any:
        return np.zeros(count, np.int64)

    return SteppedTraffic(
        np.array([step, congestion, count], np.int64),
        offset, total, base, begin, sinks, path, limited, rate,
        waiting.copy(), delay, child_begin, child,
        queue=np.lexsort((np.arange(count), offset))[::-1].astype(np.int64),
        after=np.where(waiting > 0, 0, NEVER), live=whole(), speed=base.copy(),
        demand=np.zeros(len(rate), np.float32), moved=whole(), start=offset.copy(),
        end=np.full(count, -1, np.int64),
    )  # fmt: skip


@inlined
def _activate(state, now, last, count):
    # Transfers that may start by the end of the step. Taking one moves another to its place, so
    # that later ones are taken in another order than that of their offsets.
    taken = last
    i = last
    while i >= 0 and state.offset[state.queue[i]] <= now:
        t = state.queue[i]
        if state.waiting[t] == 0 and state.after[t] <= now:
            state.live[count] = t
            count += 1
            if state.after[t] > state.start[t]:
                state.start[t] = state.after[t]
            state.queue[i] = state.queue[taken]
            state.queue[taken] = t
            taken -= 1
        i -= 1
    return taken, count


@inlined
def _slow_down(state, now, begun, step, count):
    for k in range(count):
        t = state.live[k]
        for at in range(state.begin[t], state.begin[t + 1]):
            state.demand[state.path[at]] = np.float32(0)
    for k in range(count):
        t = state.live[k]
        active = np.float32(now - max(begun, state.start[t]))
        asked = active / np.float32(step) * state.speed[t]
        for at in range(state.begin[t], state.begin[t + 1]):
            state.demand[state.path[at]] += asked
    for k in range(count):
        t = state.live[k]
        first = state.begin[t]
        after = state.sinks[t]
        factor = np.float32(np.inf)
        most = np.float32(0)
        widest = -1
        for at in range(first + 1, after):
            port = state.path[at]
            if state.demand[port] > most:
                most = state.demand[port]
                widest = port
        if widest >= 0:
            factor = state.rate[widest] / most
        port = state.path[first]
        if state.demand[port] > 0:
            factor = min(factor, state.rate[port] / state.demand[port])
        if state.limited[t] != 0:
            port = state.path[after]
            if state.demand[port] > 0:
                factor = min(factor, state.rate[port] / state.demand[port])
        if factor < np.float32(1):
            less = np.float32(1) - factor
            slower = np.float64(state.speed[t]) * (np.float64(1) - np.float64(less))
            state.speed[t] = np.float32(slower)


@inlined
def _release(state, t):
    for at in range(state.child_begin[t], state.child_begin[t + 1]):
        other = state.child[at]
        ready = state.end[t] + state.delay[other]
        if ready > state.after[other]:
            state.after[other] = ready
        state.waiting[other] -= 1


@apart
def _run(state):
    step = state.words[_STEP]
    congestion = state.words[_CONGESTION] != 0
    last = state.words[_COUNT] - 1
    now = step
    count = 0
    idle = 0
    while True:
        begun = now - step
        there = count
        last, count = _activate(state, now, last, count)
        bytes_moved = count - there
        for k in range(count):
            t = state.live[k]
            state.speed[t] = state.base[t]
        if congestion:
            _slow_down(state, now, begun, step, count)
        kept = 0
        for k in range(count):
            t = state.live[k]
            start = state.start[t]
            active = min(step, now - start)
            after = state.after[t]
            if start < begun and begun - step <= after and after < begun:
                # It could have started in the step in which the other ended.
                active = now - max(start, after)
            left = state.total[t] - state.moved[t]
            moved = min(left, np.int64(np.float32(active) * state.speed[t]))
            state.moved[t] += moved
            bytes_moved += moved
            if moved == left:
                cycles = np.float32(moved) / state.speed[t]
                whole = np.int64(cycles)
                if np.float32(whole) < cycles:
                    whole += 1
                state.end[t] = np.int64(np.float32(max(start, begun)) + np.float32(whole))
                _release(state, t)
            else:
                state.live[kept] = t
                kept += 1
        count = kept
        if count == 0 and last < 0:
            return 0
        idle = 0 if bytes_moved > 0 or count == 0 else idle + 1
        coming = state.offset[state.queue[last]] if last >= 0 else now
        if idle > _PATIENCE and coming <= now:
            return -1
        now += step
        if (count == 0 or idle > _PATIENCE) and coming > now:
            # Nothing happens before the step in which the next transfer may start.
            now += (coming - now + step - 1) // step * step


def _entry(traffic):
    """Run until every transfer has ended, 0, or until none can move another byte, -1."""
    return _run(by_reference(traffic))


run_steps: Any = cached_entry(_entry, _LAYOUT, what="engine of networks, model npe")
