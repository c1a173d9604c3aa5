"""Maps that make or take selectors.

Selectors are numbers of lists that an image holds, so that a unit that makes them knows all it can
make: ``ids`` has one for each index, or one for each set of flags, flag i being bit i.
"""

from __future__ import annotations

import numpy as np

from stepsim.kernels.build.jit import kernel
from stepsim.kernels.declaration import declare
from stepsim.kernels.functions.tiles import ceil_div, fill_tile, token_load
from stepsim.kernels.layout import Abort, Payload, Status
from stepsim.kernels.queues import abort, emit, head, room_after, take, work
from stepsim.kernels.units.maps import ready_all

FROM_NUMBER = 0
"""The number in a 1x1 tile counts the selectors of ``ids``."""
TO_NUMBER = 1
TO_INDEX = 2
NOT = 3
AND = 4
OR = 5
XOR = 6

MOST_FLAGS = 62
"""Flags that a number holds."""

SELECTOR_MAP, _selector_map = declare(
    "selector_map",
    inputs=("*data",),
    outputs=("out",),
    parameters=("operation", "width", "cycles", "write_back", "flags", "entries", "*ids"),
    selectors=("ids",),
)


@kernel
def _flags(state, x):
    # The flags of a selector as bits.
    entry = state.parameters[state.globals[0].selectors + x.value]
    found = np.int64(0)
    for i in range(state.parameters[entry]):
        found |= np.int64(1) << state.parameters[entry + 1 + i]
    return found


@kernel
def _found(un, state, its, x, second):
    # The number that the inputs make; -1 when the unit has failed.
    wanted = Payload.TILE if its.operation == FROM_NUMBER else Payload.SELECTOR
    if x.kind != wanted:
        abort(un, Abort.PAYLOAD, x.kind, wanted)
        return -1
    if its.operation == FROM_NUMBER:
        if x.value < 0 or x.value >= its.width:
            abort(un, Abort.SELECTOR_VALUE, x.value, its.width)
            return -1
        return np.int64(x.value)
    if x.cols != its.width:
        abort(un, Abort.SELECTOR_WIDTH, x.cols, its.width)
        return -1
    if its.operation == TO_INDEX:
        entry = state.parameters[state.globals[0].selectors + x.value]
        if state.parameters[entry] != 1:
            abort(un, Abort.NOT_ONE_HOT, state.parameters[entry], 0)
            return -1
        return state.parameters[entry + 1]
    flags = _flags(state, x)
    if its.operation == NOT:
        return flags ^ ((np.int64(1) << its.width) - 1)
    if its.operation == TO_NUMBER:
        return flags
    y = state.slots[second]
    if y.kind != Payload.SELECTOR:
        abort(un, Abort.PAYLOAD, y.kind, Payload.SELECTOR)
        return -1
    if y.cols != its.width:
        abort(un, Abort.SELECTOR_WIDTH, y.cols, its.width)
        return -1
    if its.operation == AND:
        return flags & _flags(state, y)
    if its.operation == OR:
        return flags | _flags(state, y)
    return flags ^ _flags(state, y)


@SELECTOR_MAP
def step_selector_map(un, state):
    """``width`` is the number of flags of selectors that are taken, of ``ids`` where numbers are;
    ``flags`` the number of flags of selectors that are made, ``entries`` that of ``ids``.

    A map as any other: the input is freed once the result is accepted.
    """
    its = _selector_map(un, state)
    count = np.int64(un.nin)
    makes_tile = its.operation == TO_NUMBER or its.operation == TO_INDEX
    while True:
        status = ready_all(un, state, its.data, count)
        if status != 0:
            return status
        x = head(un, state, state.parameters[its.data])
        level = np.int64(x.level)
        load = token_load(state, x)
        second = np.int64(0)
        if count > 1:
            c = state.parameters[its.data + 1]
            y = head(un, state, c)
            ch = state.channels[c]
            second = ch.start + (ch.removed & ch.mask)
            if y.level != level:
                return abort(un, Abort.LEVELS_DIFFER, level, y.level)
            load += token_load(state, y)
        found = _found(un, state, its, x, second)
        if found < 0:
            return Status.FAILED
        made = np.int64(8)
        if not makes_tile:
            chosen = state.parameters[its.ids + found]
            made = its.flags
        cycles = max(load, its.cycles)
        if its.write_back != 0:
            cycles = max(cycles, ceil_div(made, state.globals[0].onchip))
        status = room_after(un, state, its.out, cycles)
        if status != 0:
            return status
        un.fires += 1
        work(un, cycles)
        token = emit(un, state, its.out, 0, level)
        if makes_tile:
            fill_tile(token, 1, 1, 1, 64)
            token.value = found
        else:
            token.kind = Payload.SELECTOR
            token.value = chosen
            token.rows = 1
            token.cols = made
            token.off = 1
            token.bits = 8
        token.rd = its.write_back
        for i in range(count):
            take(un, state, state.parameters[its.data + i])
