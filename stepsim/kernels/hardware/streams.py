"""Units without a memory of their own: wire, fork, map, inner sum, promote, repeat, accumulator.

Every function is one cycle of a unit of the hardware of the STeP paper's Figure 8
(docs/hardware.md, units); it returns what the unit did. All conditions are on the state at the
start of the cycle, which FIFOs keep until its end.
"""

from __future__ import annotations

from typing import Final

from stepsim.kernels.build.jit import kernel
from stepsim.kernels.hardware.fifos import has, head, put, room, take
from stepsim.kernels.hardware.layout import (
    Acted,
    reference,
    reference_number,
    reference_stop,
)

_FILL: Final = 0
_ADD: Final = 1
_DRAIN: Final = 2


@kernel
def step_wire(un, state):
    """Move one message."""
    source = state.lists[un.in0]
    target = state.lists[un.out0]
    if not (has(state, source) and room(state, target)):
        return Acted.NOTHING
    put(state, target, take(state, source))
    return Acted.WORKED


@kernel
def step_fork(un, state):
    """Copy one message into all outputs, when all have room."""
    source = state.lists[un.in0]
    if not has(state, source):
        return Acted.NOTHING
    for i in range(un.outputs):
        if not room(state, state.lists[un.out0 + i]):
            return Acted.NOTHING
    message = take(state, source)
    for i in range(un.outputs):
        put(state, state.lists[un.out0 + i], message)
    return Acted.WORKED


@kernel
def step_map(un, state):
    """One message of each input makes one; at most one firing in `times` cycles."""
    for i in range(un.inputs):
        if not has(state, state.lists[un.in0 + i]):
            return Acted.NOTHING
    target = state.lists[un.out0]
    if not room(state, target):
        return Acted.NOTHING
    g = state.globals[0]
    if un.count > g.cycle:
        return Acted.WAITS
    stop = head(state, state.lists[un.in0])
    for i in range(1, un.inputs):
        if head(state, state.lists[un.in0 + i]) != stop:
            return Acted.MISMATCH
    for i in range(un.inputs):
        take(state, state.lists[un.in0 + i])
    put(state, target, stop)
    un.count = g.cycle + un.times
    return Acted.WORKED


@kernel
def step_sum(un, state):
    """Absorb messages; one that ends the inner dims is passed on, with a stop less by them."""
    source = state.lists[un.in0]
    if not has(state, source):
        return Acted.NOTHING
    stop = head(state, source)
    if stop >= un.rank:
        target = state.lists[un.out0]
        if not room(state, target):
            return Acted.NOTHING
        put(state, target, stop - un.rank)
    take(state, source)
    return Acted.WORKED


@kernel
def step_promote(un, state):
    """A stop of `rank` or more grows by 1."""
    source = state.lists[un.in0]
    target = state.lists[un.out0]
    if not (has(state, source) and room(state, target)):
        return Acted.NOTHING
    stop = take(state, source)
    put(state, target, stop + 1 if stop >= un.rank else stop)
    return Acted.WORKED


@kernel
def step_repeat(un, state):
    """Copy the reference at the head `times` times, then spend a cycle to remove it."""
    source = state.lists[un.in0]
    if not has(state, source):
        return Acted.NOTHING
    if un.count == un.times:
        take(state, source)
        un.count = 0
        return Acted.WORKED
    target = state.lists[un.out0]
    if not room(state, target):
        return Acted.NOTHING
    message = head(state, source)
    un.count += 1
    number = reference_number(message)
    if un.count < un.times:
        put(state, target, reference(number, 0, 0))
    else:
        put(state, target, reference(number, 1, reference_stop(message) + 1))
    return Acted.WORKED


@kernel
def step_accumulator(un, state):
    """Fill the buffer with a first pass, add further passes to it, drain the sums.

    Inputs are the stream and what the buffer plays; outputs what it stores and the sums.
    """
    source = state.lists[un.in0]
    partial = state.lists[un.in0 + 1]
    stored = state.lists[un.out0]
    if un.phase == _DRAIN:
        target = state.lists[un.out0 + 1]
        if not (has(state, partial) and room(state, target)):
            return Acted.NOTHING
        stop = take(state, partial)
        if stop >= un.rank:
            stop += 2 - un.rank
            un.phase = _FILL
        put(state, target, stop)
        return Acted.WORKED
    if not (has(state, source) and room(state, stored)):
        return Acted.NOTHING
    if un.phase == _ADD:
        if not has(state, partial):
            return Acted.NOTHING
        take(state, partial)
    stop = take(state, source)
    put(state, stored, stop)
    if stop >= un.rank:
        un.phase = _DRAIN
    elif stop == 2:
        un.phase = _ADD
    return Acted.WORKED
