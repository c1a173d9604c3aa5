"""UnaryMap, BinaryMap, Zip: one result per token; inputs are freed once it is accepted.

Inputs are looked at before there is room for the result, for a pair that does not fit is an error
even if there never will be: a deadlock must not hide it. A unit that finds no room looks again when
it is woken, and does not count its work twice.
"""

from __future__ import annotations

from stepsim.kernels.arena import allocate, copy_payload, retain
from stepsim.kernels.declaration import declare
from stepsim.kernels.functions.dispatch import binary, unary
from stepsim.kernels.functions.tiles import (
    ceil_div,
    load_cycles,
    tile_bytes,
    token_bytes,
    token_load,
    tuple_load,
)
from stepsim.kernels.jit import inlined, kernel
from stepsim.kernels.layout import TUPLE_RD, Abort, Payload, Status
from stepsim.kernels.queues import (
    abort,
    await_token,
    block_on_input,
    closure_ends,
    emit_move,
    has_token,
    head,
    is_closed,
    room,
    take,
    work,
)

__all__ = ["BINARY_MAP", "UNARY_MAP", "ZIP", "ready_pair"]


@kernel
def ready_pair(un, state, c1, c2):
    """Status of a firing that needs one token of each of two inputs; 0 when both are there."""
    got1 = has_token(state, c1)
    if not got1 and not is_closed(state, c1):
        return block_on_input(un, state, c1)
    got2 = has_token(state, c2)
    if not got2 and not is_closed(state, c2):
        return block_on_input(un, state, c2)
    if got1 and got2:
        return 0
    if not got1 and not got2:
        closure_ends(un, state, c1)
        closure_ends(un, state, c2)
        return Status.DONE
    if got1:
        head(un, state, c1)
        closure_ends(un, state, c2)
        return abort(un, Abort.ONE_INPUT_CLOSED, c2, c1)
    closure_ends(un, state, c1)
    head(un, state, c2)
    return abort(un, Abort.ONE_INPUT_CLOSED, c1, c2)


UNARY_MAP, _unary_map = declare(
    "unary_map",
    inputs=("data",),
    outputs=("out",),
    parameters=(
        "function",
        "operands",
        "compute_bandwidth",
        "write_back",
        "transposed",
        "stride",
        "result_bits",
    ),
    private=("result",),
)


@UNARY_MAP
def step_unary_map(un, state):
    """One operand; a tuple token feeds a function of two."""
    its = _unary_map(un, state)
    shared = state.globals[0]
    y = state.slots[its.result]
    while True:
        status = await_token(un, state, its.data)
        if status != 0:
            return status
        x = head(un, state, its.data)
        spent = un.flops
        if x.kind == Payload.TUPLE:
            x1 = state.slots[x.value + 1]
            x2 = state.slots[x.value + 2]
            cycles = binary(un, its, x1, x2, y)
            load = tuple_load(state, x)
        elif its.operands == 2:
            return abort(un, Abort.PAYLOAD, x.kind, Payload.TUPLE)
        else:
            cycles = unary(un, its, x, y)
            load = load_cycles(x, shared.onchip)
        if cycles < 0:
            return Status.FAILED
        status = room(un, state, its.out)
        if status != 0:
            un.flops = spent
            return status
        if load > cycles:
            cycles = load
        if its.write_back != 0:
            cycles = max(cycles, ceil_div(tile_bytes(y), shared.onchip))
        y.rd = its.write_back
        un.fires += 1
        work(un, cycles)
        emit_move(un, state, its.out, 0, x.level, y)
        take(un, state, its.data)


BINARY_MAP, _binary_map = declare(
    "binary_map",
    inputs=("first", "second"),
    outputs=("out",),
    parameters=(
        "function",
        "compute_bandwidth",
        "write_back",
        "transposed",
        "stride",
        "result_bits",
    ),
    private=("result",),
)


@BINARY_MAP
def step_binary_map(un, state):
    its = _binary_map(un, state)
    shared = state.globals[0]
    y = state.slots[its.result]
    while True:
        status = ready_pair(un, state, its.first, its.second)
        if status != 0:
            return status
        x1 = head(un, state, its.first)
        x2 = head(un, state, its.second)
        if x1.level != x2.level:
            return abort(un, Abort.LEVELS_DIFFER, x1.level, x2.level)
        spent = un.flops
        cycles = binary(un, its, x1, x2, y)
        if cycles < 0:
            return Status.FAILED
        status = room(un, state, its.out)
        if status != 0:
            un.flops = spent
            return status
        cycles = max(cycles, load_cycles(x1, shared.onchip) + load_cycles(x2, shared.onchip))
        if its.write_back != 0:
            cycles = max(cycles, ceil_div(tile_bytes(y), shared.onchip))
        y.rd = its.write_back
        un.fires += 1
        work(un, cycles)
        emit_move(un, state, its.out, 0, x1.level, y)
        take(un, state, its.first)
        take(un, state, its.second)


@inlined
def _load_on_chip(state, x):
    # Cycles to read ``x`` once a routing operator has written it back.
    if x.kind == Payload.TUPLE:
        return state.slots[x.value].hrel
    return ceil_div(tile_bytes(x), state.globals[0].onchip)


ZIP, _zip = declare(
    "zip",
    inputs=("first", "second"),
    outputs=("out",),
    private=("pair",),
)


@ZIP
def step_zip(un, state):
    """Pairs of tokens of equal level; costs nothing."""
    its = _zip(un, state)
    y = state.slots[its.pair]
    while True:
        status = ready_pair(un, state, its.first, its.second)
        if status != 0:
            return status
        x1 = head(un, state, its.first)
        x2 = head(un, state, its.second)
        if x1.level != x2.level:
            return abort(un, Abort.LEVELS_DIFFER, x1.level, x2.level)
        status = room(un, state, its.out)
        if status != 0:
            return status
        first = allocate(state, 2)
        if first < 0:
            return Status.NO_SPACE
        header = state.slots[first]
        header.rows = 2
        header.off = 1
        header.level = 2
        header.pub = token_bytes(state, x1) + token_bytes(state, x2)
        header.rel = token_load(state, x1) + token_load(state, x2)
        header.hrel = _load_on_chip(state, x1) + _load_on_chip(state, x2)
        copy_payload(x1, state.slots[first + 1])
        copy_payload(x2, state.slots[first + 2])
        retain(state, x1)
        retain(state, x2)
        y.kind = Payload.TUPLE
        y.value = first
        y.rows = 0
        y.cols = 0
        y.off = 0
        y.bits = 0
        y.rd = TUPLE_RD
        un.fires += 1
        emit_move(un, state, its.out, 0, x1.level, y)
        take(un, state, its.first)
        take(un, state, its.second)
