"""FlatMap units: one token in, a burst of tokens out; the input slot is freed before the burst."""

from __future__ import annotations

from typing import Final

from stepsim.kernels.jit import kernel
from stepsim.kernels.layout import Abort, Payload, Status
from stepsim.kernels.queues import (
    abort,
    await_token,
    block_on_input,
    closure_ends,
    emit_move,
    grab,
    has_token,
    head,
    room,
    take,
    work,
)

__all__ = [
    "SIDE_COLS",
    "SIDE_ROWS",
    "SIDE_VALID",
    "step_cache_read_addr",
    "step_expert_addr",
    "step_flat_map",
    "step_last_tile",
    "step_retile",
]

SIDE_ROWS: Final = -1
"""Stands for the rows of the input tile among the dims of a generic FlatMap."""
SIDE_COLS: Final = -2
SIDE_VALID: Final = -3

_DONE = int(Status.DONE)
_TILE = int(Payload.TILE)
_SELECTOR = int(Payload.SELECTOR)
_LEVEL = int(Abort.LEVEL_NOT_ALLOWED)
_ONE_HOT = int(Abort.NOT_ONE_HOT)
_ONE_CLOSED = int(Abort.ONE_INPUT_CLOSED)
_LEVELS = int(Abort.LEVELS_DIFFER)
_EMPTY_INNER = int(Abort.EMPTY_INNER)
_PAYLOAD = int(Abort.PAYLOAD)


@kernel
def _address(y, value):
    y.kind = _TILE
    y.rows = 1
    y.cols = 1
    y.off = 1
    y.bits = 64
    y.rd = 0
    y.value = value


@kernel
def step_retile(un, C, S, P, W, g, F):
    """RetileStreamify. Parameters: split rows, drop padding."""
    split_row = P[un.par]
    drop = P[un.par + 1]
    c = P[un.in0]
    d = P[un.out0]
    ch = C[c]
    out = C[d]
    x = S[un.hand]
    y = S[un.hand + 1]
    while True:
        if un.pc == 0:
            status = await_token(un, ch, c, g)
            if status != 0:
                return status
            if head(un, ch, S).kind != _TILE:
                return abort(un, _PAYLOAD, head(un, ch, S).kind, 0)
            grab(un, ch, S, F, W, g, x)
            un.fires += 1
            un.a = 1
            un.pc = 1
        if split_row != 0:
            pieces = x.rows
            width = x.cols
        else:
            pieces = x.cols
            width = x.rows
        while un.a <= pieces:
            status = room(un, out, d, S, F, g)
            if status != 0:
                return status
            i = un.a
            ends = drop != 0 and i == x.off
            y.kind = _TILE
            y.rows = 1
            y.cols = width
            y.off = 1 if i <= x.off else 0
            y.bits = x.bits
            y.rd = x.rd
            y.value = 0
            emit_move(un, out, S, W, g, 0, x.level if (i == pieces or ends) else 0, y)
            un.a = pieces + 1 if ends else i + 1
        un.pc = 0


@kernel
def step_expert_addr(un, C, S, P, W, g, F):
    """Parameters: tiles per expert, base."""
    tiles = P[un.par]
    start = P[un.par + 1]
    c = P[un.in0]
    d = P[un.out0]
    ch = C[c]
    out = C[d]
    y = S[un.hand]
    while True:
        if un.pc == 0:
            status = await_token(un, ch, c, g)
            if status != 0:
                return status
            x = head(un, ch, S)
            if x.kind != _SELECTOR:
                return abort(un, _PAYLOAD, x.kind, 0)
            level = x.level
            entry = P[g.selectors + x.value]
            un.fires += 1
            take(un, ch, S, F, W, g)
            if level > 0:
                return abort(un, _LEVEL, level, 0)
            if P[entry] != 1:
                return abort(un, _ONE_HOT, P[entry], 0)
            un.b = P[entry + 1]
            un.a = 0
            un.pc = 1
        while un.a < tiles:
            status = room(un, out, d, S, F, g)
            if status != 0:
                return status
            _address(y, start + un.b * tiles + un.a)
            emit_move(un, out, S, W, g, 0, 1 if un.a < tiles - 1 else 2, y)
            un.a += 1
        un.pc = 0


@kernel
def step_cache_read_addr(un, C, S, P, W, g, F):
    """Parameter: stride. The burst is spread over future cycles; the clock stands."""
    stride = P[un.par]
    c1 = P[un.in0]
    c2 = P[un.in0 + 1]
    d = P[un.out0]
    ch1 = C[c1]
    ch2 = C[c2]
    out = C[d]
    y = S[un.hand]
    while True:
        if un.pc == 0:
            if has_token(ch1):
                x = head(un, ch1, S)
                un.b = x.value
                un.c = x.level
                take(un, ch1, S, F, W, g)
                un.pc = 1
            elif ch1.closed == 0:
                return block_on_input(un, ch1, c1)
            elif has_token(ch2):
                closure_ends(un, ch1, g)
                head(un, ch2, S)
                take(un, ch2, S, F, W, g)
                return abort(un, _ONE_CLOSED, c1, c2)
            elif ch2.closed == 0:
                return block_on_input(un, ch2, c2)
            else:
                closure_ends(un, ch1, g)
                closure_ends(un, ch2, g)
                return _DONE
        if un.pc == 1:
            if not has_token(ch2):
                if ch2.closed != 0:
                    closure_ends(un, ch2, g)
                    return abort(un, _ONE_CLOSED, c2, c1)
                return block_on_input(un, ch2, c2)
            x = head(un, ch2, S)
            level = x.level
            un.d = x.value
            un.fires += 1
            take(un, ch2, S, F, W, g)
            if level != un.c:
                return abort(un, _LEVELS, un.c, level)
            if un.d <= 0:
                return abort(un, _EMPTY_INNER, un.d, 0)
            un.e = un.clk
            un.a = 0
            un.pc = 2
        while un.a < un.d:
            status = room(un, out, d, S, F, g)
            if status != 0:
                return status
            _address(y, un.b * stride + un.a)
            emit_move(un, out, S, W, g, un.e + un.a, 0 if un.a < un.d - 1 else un.c + 1, y)
            un.a += 1
        un.pc = 0


@kernel
def step_last_tile(un, C, S, P, W, g, F):
    """FilterLastTile. Parameters: id of the selector {1} of width 2, id of the selector {0}."""
    more = P[un.par]
    last = P[un.par + 1]
    c = P[un.in0]
    d = P[un.out0]
    ch = C[c]
    out = C[d]
    y = S[un.hand]
    while True:
        if un.pc == 0:
            status = await_token(un, ch, c, g)
            if status != 0:
                return status
            x = head(un, ch, S)
            un.b = x.value
            un.c = x.level
            un.fires += 1
            take(un, ch, S, F, W, g)
            if un.b <= 0:
                return abort(un, _EMPTY_INNER, un.b, 0)
            un.a = 1
            un.pc = 1
        while un.a <= un.b:
            status = room(un, out, d, S, F, g)
            if status != 0:
                return status
            ends = un.a == un.b
            y.kind = _SELECTOR
            y.rows = 1
            y.cols = 2
            y.off = 1
            y.bits = 8
            y.rd = 0
            y.value = last if ends else more
            emit_move(un, out, S, W, g, 0, un.c + 1 if ends else 0, y)
            un.a += 1
        un.pc = 0


@kernel
def _side(x, size):
    if size == SIDE_ROWS:
        return x.rows
    if size == SIDE_COLS:
        return x.cols
    if size == SIDE_VALID:
        return x.off
    return size


@kernel
def step_flat_map(un, C, S, P, W, g, F):
    """Generic FlatMap. Parameters: cycles per piece, tile rows, tile cols, number of dims, dims."""
    par = un.par
    cycles = P[par]
    ndims = P[par + 3]
    c = P[un.in0]
    d = P[un.out0]
    ch = C[c]
    out = C[d]
    x = S[un.hand]
    y = S[un.hand + 1]
    while True:
        if un.pc == 0:
            status = await_token(un, ch, c, g)
            if status != 0:
                return status
            if head(un, ch, S).kind != _TILE:
                return abort(un, _PAYLOAD, head(un, ch, S).kind, 0)
            grab(un, ch, S, F, W, g, x)
            un.fires += 1
            pieces = 1
            for k in range(ndims):
                pieces *= _side(x, P[par + 4 + k])
            if pieces <= 0:
                return abort(un, _EMPTY_INNER, pieces, 0)
            un.a = 0
            un.b = pieces
            un.pc = 1
        while un.a < un.b:
            status = room(un, out, d, S, F, g)
            if status != 0:
                return status
            level = 0
            span = 1
            k = ndims - 1
            while k > 0:
                span *= _side(x, P[par + 4 + k])
                if (un.a + 1) % span != 0:
                    break
                level += 1
                k -= 1
            if un.a == un.b - 1:
                level = ndims - 1 + x.level
            y.kind = _TILE
            y.rows = _side(x, P[par + 1])
            y.cols = _side(x, P[par + 2])
            y.off = y.rows
            y.bits = x.bits
            y.rd = x.rd
            y.value = 0
            work(un, cycles)
            emit_move(un, out, S, W, g, 0, level, y)
            un.a += 1
        un.pc = 0
