"""Readers, writers and printers of the hardware level (docs/hardware.md, units).

Entries lie in the order of their use, each with a stop word behind it, so that they do not begin
at multiples of a request's bytes.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.hardware.fifos import has, head, put, room, take
from stepsim.kernels.hardware.layout import Acted, request, request_address


@inlined
def _stop_of(un, state, entry):
    """The stop of an entry, counted from 1: how many innermost dims it ends.

    `times` is the number of dims, whose sizes are listed from `table` on, innermost first.
    """
    stop = 0
    left = entry
    while stop < un.times:
        size = state.lists[un.table + stop]
        if left % size != 0:
            break
        left //= size
        stop += 1
    return stop


@kernel
def step_reader(un, state):
    """Request the next block; drop or use the block at the head of the responses.

    An entry is there with the block of its first byte. The last block is never requested.
    """
    if state.globals[0].cycle < un.start:
        return Acted.NOTHING  # its alarm rings
    requests = state.lists[un.out0 + 1]
    acted = Acted.NOTHING
    if un.byte + un.block < un.entry * un.length and room(state, requests):
        put(state, requests, request(un.port, un.origin + un.byte, 0))
        un.byte += un.block
        acted = Acted.WORKED
    responses = state.lists[un.in0]
    if has(state, responses):
        end = request_address(head(state, responses)) - un.origin + un.block
        if end < un.entry * un.count:
            take(state, responses)
            acted = Acted.WORKED
        else:
            target = state.lists[un.out0]
            if un.count < un.length and room(state, target):
                un.count += 1
                put(state, target, _stop_of(un, state, un.count))
                un.fired += 1
                if un.first < 0:
                    un.first = state.globals[0].cycle
                un.latest = state.globals[0].cycle
                if end < un.entry * un.count:
                    take(state, responses)
                acted = Acted.WORKED
    return acted


@inlined
def _finish(un, state, stop):
    """Count a message that a sink takes; the run may end with it."""
    un.fired += 1
    if un.first < 0:
        un.first = state.globals[0].cycle
    un.latest = state.globals[0].cycle
    if stop == un.final:
        state.globals[0].sinks -= 1
        un.final = -1


@kernel
def step_writer(un, state):
    """Write the blocks that begin before the next entry, then take a tile; writes are posted."""
    if un.byte + un.block < un.entry * un.count:
        requests = state.lists[un.out0]
        if not room(state, requests):
            return Acted.NOTHING
        put(state, requests, request(un.port, un.origin + un.byte, 1))
        un.byte += un.block
        return Acted.WORKED
    source = state.lists[un.in0]
    if not has(state, source):
        return Acted.NOTHING
    un.count += 1
    _finish(un, state, take(state, source))
    return Acted.WORKED


@kernel
def step_printer(un, state):
    """Take a tile."""
    source = state.lists[un.in0]
    if not has(state, source):
        return Acted.NOTHING
    _finish(un, state, take(state, source))
    return Acted.WORKED


@kernel
def step_source(un, state):
    """Put the next message, if there is room and it is its time.

    The messages are listed from `table` on, behind them the cycles from which each may be put.
    """
    if un.count == un.length:
        return Acted.NOTHING
    g = state.globals[0]
    due = state.lists[un.table + un.length + un.count]
    if due > g.cycle:
        un.alarm = due
        g.alarm = min(g.alarm, due)
        return Acted.NOTHING
    target = state.lists[un.out0]
    if not room(state, target):
        return Acted.NOTHING
    put(state, target, state.lists[un.table + un.count])
    un.count += 1
    return Acted.WORKED


@kernel
def step_sink(un, state):
    """Take a message in the cycles `start`, `start` + `period`, ... if there is one."""
    source = state.lists[un.in0]
    if not has(state, source):
        return Acted.NOTHING
    g = state.globals[0]
    due = un.start
    if g.cycle > due:
        due += (g.cycle - un.start + un.period - 1) // un.period * un.period
    if due > g.cycle:
        un.alarm = due
        g.alarm = min(g.alarm, due)
        return Acted.NOTHING
    _finish(un, state, take(state, source))
    return Acted.WORKED
