"""Accesses of ports that share a memory: what the models with contention have in common.

A port has at most one access. An access waits among the *pending* until the cycle in which its
first bundle is taken, issues one bundle per cycle while its port is *active*, and completes when
its last response is back. Cycles in which no port is active change nothing and are not visited.

A model's ``advance`` goes from change to change: `activate` takes up what starts in a cycle,
`steady` tells for how many cycles the same ports issue full bundles from there on, and `retire`
completes the accesses that have issued everything.
"""

from __future__ import annotations

from stepsim.kernels.calendar import schedule
from stepsim.kernels.jit import inlined, kernel
from stepsim.kernels.layout import INFINITY

__all__ = ["activate", "enter", "gcd", "retire", "steady"]


@inlined
def enter(state, port, clock, requests):
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
def _insert(state, port):
    # Keep the active list in poll order: ports are numbered reads first, then writes.
    shared = state.globals[0]
    i = shared.memory_active
    while i > 0 and state.active[i - 1] > port:
        state.active[i] = state.active[i - 1]
        i -= 1
    state.active[i] = port
    shared.memory_active += 1


@inlined
def activate(state, t, limit):
    """The first cycle from ``t`` on in which a port issues, with the active ports made up for it.

    Nothing is to be done up to ``limit`` when that cycle lies behind it or no port is active.
    """
    shared = state.globals[0]
    if shared.memory_active == 0 and shared.memory_pending > 0:
        if state.ports[state.pending[0]].start <= limit:
            t = max(t, state.ports[state.pending[0]].start)
    if t <= limit:
        while shared.memory_pending > 0 and state.ports[state.pending[0]].start <= t:
            _insert(state, _pop_pending(state))
    return t


@inlined
def steady(state, t, limit):
    """Cycles from ``t`` to ``limit`` in which the same ports issue full bundles; 0 when a port
    issues its last, short one in ``t``."""
    shared = state.globals[0]
    length = limit - t + 1
    if shared.memory_pending > 0:
        length = min(length, state.ports[state.pending[0]].start - t)
    for i in range(shared.memory_active):
        port = state.ports[state.active[i]]
        length = min(length, port.left // port.bundle)
    return length


@inlined
def retire(state):
    """Complete what has issued everything, at its last response; the earliest completion."""
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


@kernel
def gcd(a, b):
    """Greatest common divisor."""
    while b != 0:
        a, b = b, a % b
    return a
