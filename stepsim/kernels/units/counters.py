"""Units that make numbers: counters, and addresses of a view inside a chosen slab.

A burst leaves at one clock; only free slots of the output limit its rate.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined
from stepsim.kernels.declaration import declare
from stepsim.kernels.layout import MAX_ADDRESS, Abort, Payload, Status
from stepsim.kernels.queues import abort, await_token, emit, head, room, take
from stepsim.kernels.walks import walk_level, walk_place


@inlined
def _send_number(un, state, c, level, value, bits, rd):
    token = emit(un, state, c, 0, level)
    token.kind = Payload.TILE
    token.rows = 1
    token.cols = 1
    token.off = 1
    token.bits = bits
    token.rd = rd
    token.value = value


COUNTER, _counter = declare(
    "counter",
    inputs=("*reference",),
    outputs=("out",),
    parameters=("count", "top_level"),
    words=("position", "level", "started"),
)


@COUNTER
def step_counter(un, state):
    """0 to ``count - 1``, once, or once for every token of a reference of stop ``level``."""
    its = _counter(un, state)
    while True:
        if un.pc == 0:
            if un.nin > 0:
                c = state.parameters[its.reference]
                status = await_token(un, state, c)
                if status != 0:
                    return status
                un.level = head(un, state, c).level
                take(un, state, c)
            elif un.started != 0:
                return Status.DONE
            un.started = 1
            un.position = 0
            un.pc = 1
        while un.position < its.count:
            status = room(un, state, its.out)
            if status != 0:
                return status
            last = un.position == its.count - 1
            un.fires += 1
            level = its.top_level + un.level if last else 0
            _send_number(un, state, its.out, level, un.position, 64, 0)
            un.position += 1
        un.pc = 0


LENGTH_COUNTER, _length_counter = declare(
    "length_counter",
    inputs=("lengths",),
    outputs=("out",),
    words=("position", "length", "level", "bits", "lies_on_chip"),
)


@LENGTH_COUNTER
def step_length_counter(un, state):
    """FlatmapCounter: 0 to ``length - 1`` for every length, as wide and where the length is."""
    its = _length_counter(un, state)
    while True:
        if un.pc == 0:
            status = await_token(un, state, its.lengths)
            if status != 0:
                return status
            x = head(un, state, its.lengths)
            if x.kind != Payload.TILE:
                return abort(un, Abort.PAYLOAD, x.kind, Payload.TILE)
            un.length = x.value
            un.level = x.level
            un.bits = x.bits
            un.lies_on_chip = x.rd
            un.fires += 1
            take(un, state, its.lengths)
            if un.length <= 0:
                return abort(un, Abort.EMPTY_INNER, un.length, 0)
            un.position = 0
            un.pc = 1
        while un.position < un.length:
            status = room(un, state, its.out)
            if status != 0:
                return status
            level = un.level + 1 if un.position == un.length - 1 else 0
            _send_number(un, state, its.out, level, un.position, un.bits, un.lies_on_chip)
            un.position += 1
        un.pc = 0


VIEW_ADDRESSES, _view_addresses = declare(
    "view_addresses",
    inputs=("slabs",),
    outputs=("out",),
    parameters=("base", "slab", "tiles", "dim_count", "*walk"),
    words=("position", "first", "level"),
)


@VIEW_ADDRESSES
def step_view_addresses(un, state):
    """DynAddrGen: a walk of ``tiles`` inside slab e, from a one-hot selector or an integer."""
    its = _view_addresses(un, state)
    shared = state.globals[0]
    while True:
        if un.pc == 0:
            status = await_token(un, state, its.slabs)
            if status != 0:
                return status
            x = head(un, state, its.slabs)
            chosen = x.value
            un.level = x.level
            if x.kind == Payload.SELECTOR:
                entry = state.parameters[shared.selectors + x.value]
                if state.parameters[entry] != 1:
                    return abort(un, Abort.NOT_ONE_HOT, state.parameters[entry], 0)
                chosen = state.parameters[entry + 1]
            elif x.kind != Payload.TILE:
                return abort(un, Abort.PAYLOAD, x.kind, Payload.TILE)
            if chosen > (MAX_ADDRESS - its.base) // its.slab - 1:
                return abort(un, Abort.ADDRESS_RANGE, chosen, its.slab)
            un.first = its.base + chosen * its.slab
            un.fires += 1
            take(un, state, its.slabs)
            un.position = 0
            un.pc = 1
        while un.position < its.tiles:
            status = room(un, state, its.out)
            if status != 0:
                return status
            level = walk_level(state, un.position, its.walk, its.dim_count)
            if un.position == its.tiles - 1:
                level = its.dim_count + un.level
            inside = walk_place(state, un.position, its.walk, its.dim_count) % its.slab
            _send_number(un, state, its.out, level, un.first + inside, 64, 0)
            un.position += 1
        un.pc = 0
