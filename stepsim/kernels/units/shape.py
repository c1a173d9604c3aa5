"""Units that only change stop levels: Flatten, Promote, Reshape, RepeatStatic, ExpandRef."""

from __future__ import annotations

from stepsim.kernels.jit import kernel
from stepsim.kernels.layout import Abort, Status
from stepsim.kernels.queues import (
    abort,
    await_token,
    block_on_input,
    closure,
    closure_ends,
    emit_copy,
    grab,
    has_token,
    head,
    room,
    send_copy,
    send_move,
    take,
    take_token,
    work,
)

__all__ = ["step_expand_ref", "step_flatten", "step_promote", "step_repeat", "step_reshape"]

_DONE = int(Status.DONE)
_LEVEL = int(Abort.LEVEL_NOT_ALLOWED)
_REFERENCE_CLOSED = int(Abort.REFERENCE_CLOSED)
_NEEDS_PAD = int(Abort.NEEDS_PAD)


@kernel
def step_flatten(un, C, S, P, W, g, F):
    """Parameters: lo, hi."""
    lo = P[un.par]
    hi = P[un.par + 1]
    c = P[un.in0]
    d = P[un.out0]
    ch = C[c]
    out = C[d]
    x = S[un.hand]
    while True:
        if un.pc == 0:
            status = take_token(un, ch, c, S, F, W, g, x)
            if status != 0:
                return status
            if x.level > hi:
                x.level -= hi - lo
            elif x.level > lo:
                x.level = lo
            un.pc = 1
        status = send_move(un, out, d, S, F, W, g, 0, x.level, x)
        if status != 0:
            return status
        un.pc = 0


@kernel
def step_promote(un, C, S, P, W, g, F):
    """Parameter: position of the new unit dim."""
    position = P[un.par]
    c = P[un.in0]
    d = P[un.out0]
    ch = C[c]
    out = C[d]
    x = S[un.hand]
    while True:
        if un.pc == 0:
            status = take_token(un, ch, c, S, F, W, g, x)
            if status != 0:
                return status
            if x.level > 0:
                if position <= x.level:
                    x.level += 1
            elif position == 0:
                x.level = 1
            un.pc = 1
        status = send_move(un, out, d, S, F, W, g, 0, x.level, x)
        if status != 0:
            return status
        un.pc = 0


@kernel
def step_reshape(un, C, S, P, W, g, F):
    """Parameters: dim, chunk, has pad, input rank, outer.

    ``hand`` holds the token to send, ``hand + 1`` the pad. Resume points: 0 take, 1 look ahead, 2
    send, 3 send ``c`` pads of which the last has level ``d``. ``e`` is set once the input is
    closed.
    """
    par = un.par
    dim = P[par]
    chunk = P[par + 1]
    has_pad = P[par + 2]
    rank = P[par + 3]
    outer = P[par + 4]
    c = P[un.in0]
    d = P[un.out0]
    ch = C[c]
    out = C[d]
    x = S[un.hand]
    pad = S[un.hand + 1]
    while True:
        if un.pc == 0:
            if not has_token(ch):
                if ch.closed == 0:
                    return block_on_input(un, ch, c)
                if un.e != 0 or dim > 0 or un.a == 0:
                    closure_ends(un, ch, g)
                    return _DONE
                if has_pad == 0 or rank != 0:
                    closure_ends(un, ch, g)
                    return abort(un, _NEEDS_PAD, un.a, chunk)
                closure(un, ch, g)
                un.e = 1
                un.c = chunk - un.a
                un.d = 2 if outer != 0 else 1
                un.pc = 3
            else:
                head(un, ch, S)
                un.fires += 1
                grab(un, ch, S, F, W, g, x)
                un.c = 0
                un.pc = 2
                if dim > 0:
                    if x.level >= dim:
                        un.a += 1
                        if un.a == chunk:
                            un.a = 0
                            x.level += 1
                elif un.a + 1 < chunk:
                    if x.level == 0:
                        un.a += 1
                    else:
                        un.c = chunk - un.a - 1
                        un.d = x.level + 1
                        un.a = 0
                        x.level = 0
                else:
                    un.a = 0
                    if x.level > 0 or outer == 0:
                        x.level += 1
                    else:
                        un.pc = 1
        if un.pc == 1:
            if has_token(ch):
                head(un, ch, S)
                x.level = 1
            elif ch.closed == 0:
                return block_on_input(un, ch, c)
            else:
                closure(un, ch, g)
                x.level = 2
            un.pc = 2
        if un.pc == 2:
            status = send_move(un, out, d, S, F, W, g, 0, x.level, x)
            if status != 0:
                return status
            un.pc = 3
        if un.c > 0 and has_pad == 0:
            return abort(un, _NEEDS_PAD, chunk - un.c, chunk)
        while un.c > 0:
            status = send_copy(un, out, d, S, F, W, g, 0, un.d if un.c == 1 else 0, pad)
            if status != 0:
                return status
            un.c -= 1
        un.pc = 0


@kernel
def step_repeat(un, C, S, P, W, g, F):
    """RepeatStatic. Parameter: factor. Copy offsets ride on the delayed clock."""
    factor = P[un.par]
    c = P[un.in0]
    d = P[un.out0]
    ch = C[c]
    out = C[d]
    while True:
        status = await_token(un, ch, c, g)
        if status != 0:
            return status
        x = head(un, ch, S)
        while un.a < factor:
            status = room(un, out, d, S, F, g)
            if status != 0:
                return status
            level = 0 if un.a < factor - 1 else x.level + 1
            un.fires += 1
            emit_copy(un, out, S, W, g, un.clk + un.a, level, x)
            un.a += 1
        un.a = 0
        work(un, factor)
        take(un, ch, S, F, W, g)


@kernel
def step_expand_ref(un, C, S, P, W, g, F):
    """Parameter: number of inner unit dims. Inputs: data, reference."""
    rank = P[un.par]
    c = P[un.in0]
    r = P[un.in0 + 1]
    d = P[un.out0]
    ch = C[c]
    ref = C[r]
    out = C[d]
    while True:
        status = await_token(un, ch, c, g)
        if status != 0:
            return status
        x = head(un, ch, S)
        if un.pc == 0:
            if x.level == 0 and rank != 1:
                return abort(un, _LEVEL, 0, rank)
            if not has_token(ref):
                if ref.closed == 0:
                    return block_on_input(un, ref, r)
                if x.level > 0:
                    closure_ends(un, ref, g)
                    return abort(un, _REFERENCE_CLOSED, r, 0)
                closure(un, ref, g)
                take(un, ch, S, F, W, g)
                return _DONE
            y = head(un, ref, S)
            un.a = y.level
            un.fires += 1
            take(un, ref, S, F, W, g)
            if x.level == 0 and un.a > 0:
                return abort(un, _LEVEL, un.a, 0)
            un.pc = 1
        status = send_copy(un, out, d, S, F, W, g, 0, un.a, x)
        if status != 0:
            return status
        if x.level > 0 and un.a >= rank:
            take(un, ch, S, F, W, g)
        un.pc = 0
