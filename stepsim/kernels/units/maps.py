"""UnaryMap, BinaryMap, Zip: one result per token; inputs are freed once it is accepted.

Inputs are looked at before there is room for the result, for a pair that does not fit is an error
even if there never will be: a deadlock must not hide it. A unit that finds no room looks again when
it is woken, and does not count its work twice.
"""

from __future__ import annotations

from stepsim.kernels.arena import allocate, copy_payload, retain
from stepsim.kernels.functions import binary, ceil_div, load_cycles, tile_bytes, unary
from stepsim.kernels.jit import kernel
from stepsim.kernels.layout import Abort, Fn, Payload, Status
from stepsim.kernels.queues import (
    abort,
    await_token,
    block_on_input,
    closure_ends,
    emit_move,
    has_token,
    head,
    room,
    take,
    work,
)

__all__ = ["ready_pair", "step_binary_map", "step_unary_map", "step_zip"]

_DONE = int(Status.DONE)
_FAILED = int(Status.FAILED)
_NO_SPACE = int(Status.NO_SPACE)
_TUPLE = int(Payload.TUPLE)
_LAST_UNARY = int(Fn.ROW_SUM)
_ONE_CLOSED = int(Abort.ONE_INPUT_CLOSED)
_LEVELS = int(Abort.LEVELS_DIFFER)
_PAYLOAD = int(Abort.PAYLOAD)


@kernel
def ready_pair(un, C, S, c1, c2, g):
    """Status of a firing that needs one token of each of two inputs; 0 when both are there."""
    ch1 = C[c1]
    ch2 = C[c2]
    got1 = has_token(ch1)
    if not got1 and ch1.closed == 0:
        return block_on_input(un, ch1, c1)
    got2 = has_token(ch2)
    if not got2 and ch2.closed == 0:
        return block_on_input(un, ch2, c2)
    if got1 and got2:
        return 0
    if not got1 and not got2:
        closure_ends(un, ch1, g)
        closure_ends(un, ch2, g)
        return _DONE
    if got1:
        head(un, ch1, S)
        closure_ends(un, ch2, g)
        return abort(un, _ONE_CLOSED, c2, c1)
    closure_ends(un, ch1, g)
    head(un, ch2, S)
    return abort(un, _ONE_CLOSED, c1, c2)


@kernel
def step_unary_map(un, C, S, P, W, g, F):
    """Parameters: fn, bw, wb, transposed, result bits. A tuple feeds a two-operand function."""
    par = un.par
    fn = P[par]
    bw = P[par + 1]
    wb = P[par + 2]
    c = P[un.in0]
    d = P[un.out0]
    ch = C[c]
    out = C[d]
    y = S[un.hand]
    while True:
        status = await_token(un, ch, c, g)
        if status != 0:
            return status
        x = head(un, ch, S)
        spent = un.flops
        if x.kind == _TUPLE:
            x1 = S[x.value + 1]
            x2 = S[x.value + 2]
            cycles = binary(un, fn, P[par + 3], 0, P[par + 4], bw, x1, x2, y)
            load = load_cycles(x1, g.onchip) + load_cycles(x2, g.onchip)
        elif fn > _LAST_UNARY:
            return abort(un, _PAYLOAD, x.kind, _TUPLE)
        else:
            cycles = unary(un, fn, bw, x, y)
            load = load_cycles(x, g.onchip)
        if cycles < 0:
            return _FAILED
        status = room(un, out, d, S, F, g)
        if status != 0:
            un.flops = spent
            return status
        if load > cycles:
            cycles = load
        if wb != 0:
            cycles = max(cycles, ceil_div(tile_bytes(y), g.onchip))
        y.rd = wb
        un.fires += 1
        work(un, cycles)
        emit_move(un, out, S, W, g, 0, x.level, y)
        take(un, ch, S, F, W, g)


@kernel
def step_binary_map(un, C, S, P, W, g, F):
    """Parameters: fn, bw, wb, transposed, stride, result bits."""
    par = un.par
    fn = P[par]
    bw = P[par + 1]
    wb = P[par + 2]
    transposed = P[par + 3]
    stride = P[par + 4]
    result_bits = P[par + 5]
    c1 = P[un.in0]
    c2 = P[un.in0 + 1]
    d = P[un.out0]
    ch1 = C[c1]
    ch2 = C[c2]
    out = C[d]
    y = S[un.hand]
    while True:
        status = ready_pair(un, C, S, c1, c2, g)
        if status != 0:
            return status
        x1 = head(un, ch1, S)
        x2 = head(un, ch2, S)
        if x1.level != x2.level:
            return abort(un, _LEVELS, x1.level, x2.level)
        spent = un.flops
        cycles = binary(un, fn, transposed, stride, result_bits, bw, x1, x2, y)
        if cycles < 0:
            return _FAILED
        status = room(un, out, d, S, F, g)
        if status != 0:
            un.flops = spent
            return status
        cycles = max(cycles, load_cycles(x1, g.onchip) + load_cycles(x2, g.onchip))
        if wb != 0:
            cycles = max(cycles, ceil_div(tile_bytes(y), g.onchip))
        y.rd = wb
        un.fires += 1
        work(un, cycles)
        emit_move(un, out, S, W, g, 0, x1.level, y)
        take(un, ch1, S, F, W, g)
        take(un, ch2, S, F, W, g)


@kernel
def step_zip(un, C, S, P, W, g, F):
    """Pairs of tokens of equal level; costs nothing."""
    c1 = P[un.in0]
    c2 = P[un.in0 + 1]
    d = P[un.out0]
    ch1 = C[c1]
    ch2 = C[c2]
    out = C[d]
    y = S[un.hand]
    while True:
        status = ready_pair(un, C, S, c1, c2, g)
        if status != 0:
            return status
        x1 = head(un, ch1, S)
        x2 = head(un, ch2, S)
        if x1.level != x2.level:
            return abort(un, _LEVELS, x1.level, x2.level)
        status = room(un, out, d, S, F, g)
        if status != 0:
            return status
        first = allocate(S, F, g, 2)
        if first < 0:
            return _NO_SPACE
        header = S[first]
        header.rows = 2
        header.off = 1
        header.level = 2
        copy_payload(x1, S[first + 1])
        copy_payload(x2, S[first + 2])
        retain(S, x1)
        retain(S, x2)
        y.kind = _TUPLE
        y.value = first
        y.rows = 0
        y.cols = 0
        y.off = 0
        y.bits = 0
        y.rd = 0
        un.fires += 1
        emit_move(un, out, S, W, g, 0, x1.level, y)
        take(un, ch1, S, F, W, g)
        take(un, ch2, S, F, W, g)
