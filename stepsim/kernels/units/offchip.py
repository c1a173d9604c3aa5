"""Off-chip operators: one tile at a time through a port (STeP paper, sections 3.2.1 and 4.3).

An access is asked for by answering ``WAIT_MEMORY`` with the number of requests in ``need``; the
engine hands it to the memory model and steps the unit again, with both clocks at the completion,
when all responses are back. ``pc`` says what comes next.
"""

from __future__ import annotations

from stepsim.kernels.functions import ceil_div
from stepsim.kernels.jit import kernel
from stepsim.kernels.layout import Abort, Payload, Status
from stepsim.kernels.queues import (
    abort,
    await_token,
    emit,
    head,
    room,
    take,
)
from stepsim.kernels.units.maps import ready_pair

__all__ = ["step_load", "step_random_load", "step_random_store", "step_store"]

_DONE = int(Status.DONE)
_WAIT_MEMORY = int(Status.WAIT_MEMORY)
_TILE = int(Payload.TILE)
_ACK = int(Payload.ACK)
_SHAPE = int(Abort.TILE_SHAPE)
_WIDTH = int(Abort.ELEMENT_WIDTH)
_PAYLOAD = int(Abort.PAYLOAD)


@kernel
def _tile_requests(rows, cols, bits, request_bytes):
    """Requests of one tile; every row is rounded up on its own."""
    return rows * ceil_div(cols * bits, 8 * request_bytes)


@kernel
def _access(un, rows, cols, bits, g):
    # Ask for one tile; False when it needs no request.
    n = _tile_requests(rows, cols, bits, g.request_bytes)
    un.need = n
    un.requests += n
    un.traffic += ceil_div(rows * cols * bits, 8)
    return n > 0


@kernel
def _send_tile(un, out, S, W, g, level, rows, cols, bits):
    token = emit(un, out, S, W, g, 0, level)
    token.kind = _TILE
    token.rows = rows
    token.cols = cols
    token.off = rows
    token.bits = bits
    token.rd = 1
    token.value = 0


@kernel
def _view_level(index, P, dims, ndims):
    """Number of trailing view dims that end with tile ``index``."""
    span = 1
    level = 0
    k = ndims - 1
    while k >= 0:
        span *= P[dims + k]
        if (index + 1) % span != 0:
            break
        level += 1
        k -= 1
    return level


@kernel
def step_load(un, C, S, P, W, g, F):
    """Linear load, driven by a reference stream when there is an input.

    Parameters: tile rows, cols, element bits, highest level, tiles per view, number of view dims,
    view dims. ``a`` tile of the view, ``b`` level of the reference. Resume points: 0 next view,
    1 next tile, 2 tile arrived.
    """
    par = un.par
    rows = P[par]
    cols = P[par + 1]
    bits = P[par + 2]
    top = P[par + 3]
    tiles = P[par + 4]
    ndims = P[par + 5]
    d = P[un.out0]
    out = C[d]
    while True:
        if un.pc == 0:
            if un.nin > 0:
                c = P[un.in0]
                ch = C[c]
                status = await_token(un, ch, c, g)
                if status != 0:
                    return status
                un.b = head(un, ch, S).level
                take(un, ch, S, F, W, g)
            elif un.e != 0:
                return _DONE
            un.e = 1
            un.a = 0
            un.pc = 1
        if un.pc == 1:
            if un.a >= tiles:
                un.pc = 0
                continue
            un.fires += 1
            un.pc = 2
            if _access(un, rows, cols, bits, g):
                return _WAIT_MEMORY
            un.a = tiles
            un.pc = 0
            continue
        status = room(un, out, d, S, F, g)
        if status != 0:
            return status
        level = _view_level(un.a, P, par + 6, ndims)
        if level == ndims:
            level = top + un.b
        _send_tile(un, out, S, W, g, level, rows, cols, bits)
        un.a += 1
        un.pc = 1


@kernel
def step_random_load(un, C, S, P, W, g, F):
    """Parameters: tile rows, cols, element bits. ``b`` level of the address."""
    par = un.par
    rows = P[par]
    cols = P[par + 1]
    bits = P[par + 2]
    c = P[un.in0]
    d = P[un.out0]
    ch = C[c]
    out = C[d]
    while True:
        if un.pc == 0:
            status = await_token(un, ch, c, g)
            if status != 0:
                return status
            un.b = head(un, ch, S).level
            un.fires += 1
            take(un, ch, S, F, W, g)
            un.pc = 1
            if _access(un, rows, cols, bits, g):
                return _WAIT_MEMORY
        status = room(un, out, d, S, F, g)
        if status != 0:
            return status
        _send_tile(un, out, S, W, g, un.b, rows, cols, bits)
        un.pc = 0


@kernel
def step_store(un, C, S, P, W, g, F):
    """Linear store. Parameters: tile rows, cols. ``b`` element bits of the run, 0 before."""
    par = un.par
    c = P[un.in0]
    ch = C[c]
    while True:
        if un.pc == 0:
            status = await_token(un, ch, c, g)
            if status != 0:
                return status
            x = head(un, ch, S)
            if x.kind != _TILE:
                return abort(un, _PAYLOAD, x.kind, _TILE)
            if x.rows != P[par] or x.cols != P[par + 1]:
                return abort(un, _SHAPE, x.rows, x.cols)
            if un.b != 0 and x.bits != un.b:
                return abort(un, _WIDTH, un.b, x.bits)
            un.b = x.bits
            un.fires += 1
            un.pc = 1
            if _access(un, P[par], P[par + 1], un.b, g):
                return _WAIT_MEMORY
        take(un, ch, S, F, W, g)
        un.pc = 0


@kernel
def step_random_store(un, C, S, P, W, g, F):
    """Parameters: tile rows, cols, ack level from the address. Inputs: address, data."""
    par = un.par
    c1 = P[un.in0]
    c2 = P[un.in0 + 1]
    d = P[un.out0]
    ch1 = C[c1]
    ch2 = C[c2]
    out = C[d]
    while True:
        if un.pc == 0:
            status = ready_pair(un, C, S, c1, c2, g)
            if status != 0:
                return status
            x1 = head(un, ch1, S)
            x2 = head(un, ch2, S)
            if x2.kind != _TILE:
                return abort(un, _PAYLOAD, x2.kind, _TILE)
            if x2.rows != P[par] or x2.cols != P[par + 1]:
                return abort(un, _SHAPE, x2.rows, x2.cols)
            un.b = x1.level if P[par + 2] != 0 else x2.level
            un.fires += 1
            un.pc = 1
            if _access(un, P[par], P[par + 1], x2.bits, g):
                return _WAIT_MEMORY
        status = room(un, out, d, S, F, g)
        if status != 0:
            return status
        token = emit(un, out, S, W, g, 0, un.b)
        token.kind = _ACK
        token.value = 0
        token.rows = 0
        token.cols = 0
        token.off = 0
        token.bits = 0
        token.rd = 0
        take(un, ch1, S, F, W, g)
        take(un, ch2, S, F, W, g)
        un.pc = 0
