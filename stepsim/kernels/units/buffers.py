"""Bufferize, Streamify, DynStreamify: on-chip buffers are blocks of the slot arena.

Every buffered tile carries its level inside the buffer, so a linear read only replays it. Unit
outer dims are accepted, and a buffer of one tile is read with its own rank as level.
"""

from __future__ import annotations

from stepsim.kernels.arena import allocate, copy_payload, free_block
from stepsim.kernels.jit import kernel
from stepsim.kernels.layout import Abort, Payload, Status
from stepsim.kernels.queues import (
    abort,
    await_token,
    block_on_input,
    closure,
    closure_ends,
    emit,
    emit_copy,
    has_token,
    head,
    room,
    take,
    work,
)

__all__ = ["step_bufferize", "step_dyn_streamify", "step_streamify"]

_DONE = int(Status.DONE)
_NO_SPACE = int(Status.NO_SPACE)
_TILE = int(Payload.TILE)
_BUFFER = int(Payload.BUFFER)
_PAYLOAD = int(Abort.PAYLOAD)
_OPEN = int(Abort.BUFFER_OPEN)
_RAGGED = int(Abort.BUFFER_RAGGED)
_LEVEL = int(Abort.LEVEL_NOT_ALLOWED)


@kernel
def _shape_block(S, block, count, rank):
    """Give every tile the level of its place in a rectangular buffer; False when it is not one.

    Dim ``k`` is the number of stops of at least ``k`` up to the first one above ``k``; the product
    of the dims must be the number of tiles. New levels wait in ``stamp``, which buffered tiles do
    not use, because the old ones are still read.
    """
    for i in range(count):
        S[block + 1 + i].stamp = 0
    span = 1
    for k in range(rank):
        dim = 0
        for i in range(count):
            level = S[block + 1 + i].level
            if level >= k:
                dim += 1
            if level > k:
                break
        span *= dim
        i = span - 1
        while i < count:
            S[block + 1 + i].stamp = k + 1
            i += span
    for i in range(count):
        S[block + 1 + i].level = S[block + 1 + i].stamp
    return span == count


@kernel
def _grow_block(un, S, F, g):
    # ``a`` block, ``b`` elements, ``c`` order; False when the arena is full.
    order = un.c + 1
    fresh = allocate(S, F, g, order)
    if fresh < 0:
        return False
    for i in range(un.b):
        copy_payload(S[un.a + 1 + i], S[fresh + 1 + i])
        S[fresh + 1 + i].level = S[un.a + 1 + i].level
    if un.a >= 0:
        free_block(S, F, un.a, un.c)
    un.a = fresh
    un.c = order
    return True


@kernel
def step_bufferize(un, C, S, P, W, g, F):
    """Parameter: rank. ``a`` is -1 and ``c`` 0 when no block is held (set by lowering)."""
    rank = P[un.par]
    c = P[un.in0]
    d = P[un.out0]
    ch = C[c]
    out = C[d]
    while True:
        if un.pc == 0:
            if not has_token(ch):
                if ch.closed != 0:
                    if un.b > 0:
                        closure_ends(un, ch, g)
                        return abort(un, _OPEN, un.b, rank)
                    closure_ends(un, ch, g)
                    return _DONE
                return block_on_input(un, ch, c)
            if (un.a < 0 or un.b + 1 >= (1 << un.c)) and not _grow_block(un, S, F, g):
                return _NO_SPACE
            x = head(un, ch, S)
            if x.kind != _TILE:
                return abort(un, _PAYLOAD, x.kind, _TILE)
            un.fires += 1
            cell = S[un.a + 1 + un.b]
            copy_payload(x, cell)
            cell.level = x.level if x.level < rank else rank
            un.b += 1
            level = x.level
            take(un, ch, S, F, W, g)
            if level < rank:
                work(un, 1)
                continue
            if not _shape_block(S, un.a, un.b, rank):
                return abort(un, _RAGGED, un.b, rank)
            un.d = level - rank
            un.pc = 1
        status = room(un, out, d, S, F, g)
        if status != 0:
            return status
        header = S[un.a]
        header.rows = un.b
        header.off = 1
        header.level = un.c
        token = emit(un, out, S, W, g, 0, un.d)
        token.kind = _BUFFER
        token.value = un.a
        token.rows = 0
        token.cols = 0
        token.off = 0
        token.bits = 0
        token.rd = 0
        un.a = -1
        un.b = 0
        un.c = 0
        un.pc = 0


@kernel
def step_streamify(un, C, S, P, W, g, F):
    """Parameters: rank, number of factors, factors (innermost last; run from the back, in turn).

    ``a`` element, ``b`` read of the current factor, ``d`` factor.
    """
    par = un.par
    rank = P[par]
    factors = P[par + 1]
    c = P[un.in0]
    d = P[un.out0]
    ch = C[c]
    out = C[d]
    turns = factors if factors > 0 else 1
    while True:
        status = await_token(un, ch, c, g)
        if status != 0:
            return status
        buffer = head(un, ch, S)
        if buffer.kind != _BUFFER:
            return abort(un, _PAYLOAD, buffer.kind, _BUFFER)
        block = buffer.value
        count = S[block].rows
        while un.d < turns:
            reads = P[par + 1 + factors - un.d] if factors > 0 else 1
            while un.b < reads:
                while un.a < count:
                    status = room(un, out, d, S, F, g)
                    if status != 0:
                        return status
                    cell = S[block + 1 + un.a]
                    level = cell.level
                    if level == rank:
                        if factors == 0:
                            level = rank + buffer.level
                        elif un.b == reads - 1:
                            level = rank + buffer.level + 1 + un.d
                    un.fires += 1
                    emit_copy(un, out, S, W, g, 0, level, cell)
                    work(un, 1)
                    un.a += 1
                un.a = 0
                un.b += 1
            un.b = 0
            un.d += 1
        un.d = 0
        take(un, ch, S, F, W, g)


@kernel
def step_dyn_streamify(un, C, S, P, W, g, F):
    """Parameters: rank, highest repeated rank. Inputs: buffers, reference (level in ``b``)."""
    rank = P[un.par]
    repeat_rank = P[un.par + 1]
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
        buffer = head(un, ch, S)
        if buffer.kind != _BUFFER:
            return abort(un, _PAYLOAD, buffer.kind, _BUFFER)
        if un.pc == 0:
            if not has_token(ref):
                if ref.closed == 0:
                    return block_on_input(un, ref, r)
                if buffer.level == 0:
                    closure_ends(un, ref, g)
                    return _DONE
                closure(un, ref, g)
                take(un, ch, S, F, W, g)
                continue
            y = head(un, ref, S)
            un.b = y.level
            take(un, ref, S, F, W, g)
            if buffer.level == 0 and un.b > 0:
                return abort(un, _LEVEL, un.b, 0)
            un.a = 0
            un.pc = 1
        block = buffer.value
        count = S[block].rows
        while un.a < count:
            status = room(un, out, d, S, F, g)
            if status != 0:
                return status
            cell = S[block + 1 + un.a]
            level = cell.level
            if level == rank:
                level += un.b
            un.fires += 1
            emit_copy(un, out, S, W, g, 0, level, cell)
            work(un, 1)
            un.a += 1
        un.pc = 0
        if buffer.level > 0 and un.b >= repeat_rank + 1:
            take(un, ch, S, F, W, g)
