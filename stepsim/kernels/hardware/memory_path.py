"""Between ports and DRAM: arbiter, admission, reordering, distribution (docs/hardware.md, rules).

Reads in flight are a FIFO in the order in which they were admitted. What returns is looked up in a
table by its place there, and leaves in that order.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.dram.address import locate
from stepsim.kernels.dram.channel import REFUSED, next_clock, returned, send, tick
from stepsim.kernels.hardware.fifos import has, head, put, record, room, take
from stepsim.kernels.hardware.layout import (
    ADDRESS_BITS,
    NEVER,
    Acted,
    Event,
    Policy,
    request_address,
    request_port,
    request_slot,
    request_write,
    with_slot,
    without_slot,
)


@inlined
def _may_be_served(state, port):
    """Whether a port can take what it asks for: the second FIFO of its responses is not full."""
    g = state.globals[0]
    second = state.lists[g.requests + g.ports + port]
    return second < 0 or room(state, second)


@kernel
def step_arbiter(un, state):
    """Grant one request per cycle.

    By the rotating policy the first port that asks, from the pointer on, has the turn, and loses it
    if it cannot be served.
    """
    g = state.globals[0]
    target = state.lists[un.out0]
    asked = -1
    served = False
    for i in range(g.ports):
        port = g.pointer + i
        if port >= g.ports:
            port -= g.ports
        if has(state, state.lists[g.requests + port]):
            served = room(state, target) and _may_be_served(state, port)
            if served or asked < 0:
                asked = port
            if served or g.policy != Policy.FAIR:
                break
    if asked < 0:
        return Acted.NOTHING
    if served or g.policy == Policy.ROTATING:
        g.pointer = asked + 1 if asked + 1 < g.ports else 0
    if not served:
        record(state, Event.REFUSED, asked, 0)
        return Acted.SPUN
    put(state, target, take(state, state.lists[g.requests + asked]))
    return Acted.WORKED


@kernel
def step_admission(un, state):
    """Let a request through; a read only if there is room among those in flight."""
    source = state.lists[un.in0]
    target = state.lists[un.out0]
    if not (has(state, source) and room(state, target)):
        return Acted.NOTHING
    message = head(state, source)
    if request_write(message) == 0:
        f = state.globals[0].flight
        if not room(state, f):
            return Acted.NOTHING
        flight = state.fifos[f]
        place = flight.head + flight.held
        if place >= flight.depth:
            place -= flight.depth
        message = with_slot(message, place)
        put(state, f, message)
    take(state, source)
    put(state, target, message)
    return Acted.WORKED


@kernel
def step_table(un, state):
    """Let the oldest read in flight go on once it is in the table; take a returned one into it."""
    g = state.globals[0]
    source = state.lists[un.in0]
    target = state.lists[un.out0]
    tabled = g.tabled
    acted = Acted.NOTHING
    if has(state, g.flight) and room(state, target):
        place = g.table + state.fifos[g.flight].head
        if state.words[place] != 0:
            state.words[place] = 0
            g.tabled -= 1
            put(state, target, without_slot(take(state, g.flight)))
            acted = Acted.WORKED
    if has(state, source) and tabled < g.places:
        state.words[g.table + request_slot(take(state, source))] = 1
        g.tabled += 1
        acted = Acted.WORKED
    return acted


@kernel
def step_deal(un, state):
    """Move a response to the FIFO of its port; if that is full, all wait."""
    source = state.lists[un.in0]
    if not has(state, source):
        return Acted.NOTHING
    target = state.lists[un.out0 + request_port(head(state, source))]
    if not room(state, target):
        return Acted.NOTHING
    put(state, target, take(state, source))
    return Acted.WORKED


@inlined
def _due_cycle(g, clock):
    """The cycle in which a clock of the DRAM is ticked."""
    if clock >= NEVER:
        return NEVER
    return (clock * g.down + g.up - 1) // g.up


@kernel
def step_memory(state):
    """Offer a request to the DRAM, tick it, and take a returned read out, in this order.

    A clock is left out if its tick would do nothing.
    """
    g = state.globals[0]
    acted = Acted.NOTHING
    if g.cycle == 0:
        return acted
    before = (g.cycle - 1) * g.up // g.down
    now = g.cycle * g.up // g.down
    if has(state, g.send):
        message = head(state, g.send)
        write = request_write(message)
        address = request_address(message) | (request_port(message) << ADDRESS_BITS)
        channel = locate(state.dram, address)
        if send(state.dram, channel, before, address, write, message) != REFUSED:
            take(state, g.send)
            record(state, Event.SEND, 0, message)
            if write != 0:
                g.writes += 1
            else:
                g.reads += 1
            state.words[g.channel_due + channel] = next_clock(state.dram, channel)
            g.due = min(g.due, _due_cycle(g, state.words[g.channel_due + channel]))
            acted = Acted.WORKED
    if g.due <= g.cycle:
        first = NEVER
        for channel in range(g.channels):
            clock = state.words[g.channel_due + channel]
            while clock <= now:
                tick(state.dram, channel, clock)
                message = returned(state.dram, channel, clock)
                if message >= 0:
                    place = g.returned_head + g.returned_held
                    if place >= g.returned_size:
                        place -= g.returned_size
                    state.words[g.returned + place] = message
                    g.returned_held += 1
                    record(state, Event.RETURN, 0, message)
                clock = next_clock(state.dram, channel)
            state.words[g.channel_due + channel] = clock
            first = min(first, clock)
        g.due = _due_cycle(g, first)
        acted = Acted.WORKED
    if g.returned_held > 0 and room(state, g.pop):
        put(state, g.pop, state.words[g.returned + g.returned_head])
        g.returned_held -= 1
        g.returned_head += 1
        if g.returned_head == g.returned_size:
            g.returned_head = 0
        acted = Acted.WORKED
    return acted
