"""Synchronous FIFOs: what a unit sees is the state at the start of the cycle.

Changes of a cycle are collected and made at its end, so that the order in which units are looked at
does not matter. A FIFO that is full at the start of a cycle takes nothing in it, and what is put in
a cycle can be taken in the next one at the earliest.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined
from stepsim.kernels.hardware.layout import EVENT_WORDS, Event


@inlined
def record(state, event, place, message):
    """Record an event of this cycle."""
    g = state.globals[0]
    if g.tracing != 0:
        at = g.events
        state.events[at] = g.cycle
        state.events[at + 1] = (event << 32) | place
        state.events[at + 2] = message
        g.events = at + EVENT_WORDS


@inlined
def has(state, f):
    """Whether a message can be taken."""
    fifo = state.fifos[f]
    if fifo.held == 0:
        return False
    if fifo.latency > 1:
        stamps = len(state.rings) >> 1
        if state.rings[stamps + fifo.ring + fifo.head] > state.globals[0].cycle:
            state.globals[0].late = 1
            return False
    return True


@inlined
def room(state, f):
    """Whether a message can be put."""
    fifo = state.fifos[f]
    return fifo.held < fifo.depth


@inlined
def head(state, f):
    """The message that can be taken."""
    fifo = state.fifos[f]
    return state.rings[fifo.ring + fifo.head]


@inlined
def _change(state, f, put):
    g = state.globals[0]
    state.work[2 * len(state.units) + g.changes] = 2 * f + put
    g.changes += 1


@inlined
def put(state, f, message):
    """Put a message; there is room."""
    g = state.globals[0]
    fifo = state.fifos[f]
    place = fifo.head + fifo.held
    if place >= fifo.depth:
        place -= fifo.depth
    state.rings[fifo.ring + place] = message
    if fifo.latency > 1:
        stamps = len(state.rings) >> 1
        state.rings[stamps + fifo.ring + place] = g.cycle + fifo.latency
    if fifo.puts == 0:
        fifo.first = g.cycle
    fifo.puts += 1
    _change(state, f, 1)
    record(state, Event.PUT, f, message)


@inlined
def take(state, f):
    """Take the head, which is there, and return it."""
    fifo = state.fifos[f]
    message = state.rings[fifo.ring + fifo.head]
    fifo.gets += 1
    _change(state, f, 0)
    record(state, Event.GET, f, message)
    return message


@inlined
def wake(state, u):
    """Look at a unit in the next cycle."""
    g = state.globals[0]
    un = state.units[u]
    if un.woken <= g.cycle:
        un.woken = g.cycle + 1
        state.work[(1 - g.side) * len(state.units) + g.woken] = u
        g.woken += 1


@inlined
def commit(state):
    """Make the changes of the cycle, and wake the units on the other side."""
    g = state.globals[0]
    for i in range(g.changes):
        change = state.work[2 * len(state.units) + i]
        fifo = state.fifos[change >> 1]
        fifo.area += fifo.held * (g.cycle + 1 - fifo.since)
        fifo.since = g.cycle + 1
        if change & 1:
            fifo.held += 1
            if fifo.reader >= 0:
                wake(state, fifo.reader)
        else:
            fifo.held -= 1
            fifo.head += 1
            if fifo.head == fifo.depth:
                fifo.head = 0
            if fifo.writer >= 0:
                wake(state, fifo.writer)
    # One that came and one that left in the same cycle were never there together.
    for i in range(g.changes):
        fifo = state.fifos[state.work[2 * len(state.units) + i] >> 1]
        fifo.most = max(fifo.most, fifo.held)
    g.changes = 0
