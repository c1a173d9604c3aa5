"""Accesses of ports that share a memory: what the models with contention have in common.

A port has at most one access. An access waits among the *pending* until the cycle in which its
first bundle is taken, issues one bundle per cycle while its port is *active*, and completes when
its last response is back. Nothing holds up the issue of bundles, so that the cycles in which a port
begins, comes to its last, short bundle, and ends are known beforehand: ``due`` is the next of them.
From one such cycle of any port to the next, the same ports issue as many requests in every cycle.
Cycles in which no port is active change nothing and are not visited.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.calendar import schedule


@inlined
def enter(state, port, clock, requests):
    """Enter an access; ``pending`` is a heap of ports by starting cycle."""
    shared = state.globals[0]
    record = state.ports[port]
    record.due = clock + 1
    record.left = requests
    record.vmax = -1
    shared.memory_requests += requests
    push_port(state, state.pending, shared.memory_pending, port)
    shared.memory_pending += 1


@inlined
def push_port(state, heap, count, port):
    """Add a port to a heap of ``count`` ports by their cycle ``due``."""
    i = count
    due = state.ports[port].due
    while i > 0:
        up = (i - 1) >> 1
        if state.ports[heap[up]].due <= due:
            break
        heap[i] = heap[up]
        i = up
    heap[i] = port


@inlined
def pop_port(state, heap, count):
    """Remove and return the port that is due first, of ``count > 0`` ports."""
    port = heap[0]
    n = count - 1
    last = heap[n]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and state.ports[heap[child + 1]].due < state.ports[heap[child]].due:
            child += 1
        if state.ports[last].due <= state.ports[heap[child]].due:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = last
    return port


@inlined
def first_cycle(state, t, limit):
    """The first cycle from ``t`` on in which a port issues; after ``limit`` when there is none."""
    shared = state.globals[0]
    if shared.memory_active > 0:
        return t
    if shared.memory_pending == 0:
        return limit + 1
    return max(t, state.ports[state.pending[0]].due)


@inlined
def one_begins(state, t):
    """Whether the access of a pending port begins by cycle ``t``."""
    return state.globals[0].memory_pending > 0 and state.ports[state.pending[0]].due <= t


@inlined
def next_to_begin(state):
    """Take the port whose access begins first from the pending."""
    shared = state.globals[0]
    p = pop_port(state, state.pending, shared.memory_pending)
    shared.memory_pending -= 1
    return p


@inlined
def end_of_segment(state, limit, due):
    """The next cycle in which what ports issue changes, ``limit + 1`` at most; ``due`` is the
    first one in which an active port does."""
    until = min(limit + 1, due)
    if state.globals[0].memory_pending > 0:
        until = min(until, state.ports[state.pending[0]].due)
    return until


@inlined
def begin(state, p, t):
    """Port ``p`` issues from cycle ``t`` on: full bundles, and then one with what is left."""
    port = state.ports[p]
    whole = port.left // port.bundle if port.bundle > 1 else port.left
    if whole > 0:
        port.issues = port.bundle
        port.left -= whole * port.bundle
        port.due = t + whole
    else:
        port.issues = port.left
        port.left = 0
        port.due = t + 1


@inlined
def activate(state, p):
    """Enter port ``p`` into a list of active ports in poll order: by number, which reads have
    first."""
    shared = state.globals[0]
    i = shared.memory_active
    while i > 0 and state.active[i - 1] > p:
        state.active[i] = state.active[i - 1]
        i -= 1
    state.active[i] = p
    shared.memory_active += 1


@inlined
def go_on(state, p):
    """Port ``p`` has issued its full bundles; the last one follows."""
    port = state.ports[p]
    port.issues = port.left
    port.left = 0
    port.due += 1


@inlined
def complete(state, p, response):
    """The last response of an access came; the clock at which its unit goes on."""
    done = response + 1
    schedule(state, state.ports[p].unit, done)
    return done


@kernel
def gcd(a, b):
    """Greatest common divisor."""
    while b != 0:
        a, b = b, a % b
    return a
