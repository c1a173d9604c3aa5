"""Cycles and result shapes of the functions that map-like units apply (STeP paper, section 4.3).

Each helper fills the result token ``y`` (shape, valid rows, element width) and answers the compute
cycles ``ceil(flops / bw)``, or -1 after it has marked the unit as failed. Padding rows are computed
like valid ones.
"""

from __future__ import annotations

import numpy as np

from stepsim.kernels.jit import kernel
from stepsim.kernels.layout import INFINITY, MAX_TILE_SIDE, Abort, Fn, Payload
from stepsim.kernels.queues import abort

__all__ = [
    "accumulate",
    "binary",
    "ceil_div",
    "load_cycles",
    "map_accumulate",
    "tile_bytes",
    "unary",
]

_TILE = int(Payload.TILE)
_SILU = int(Fn.SILU)
_EXP = int(Fn.EXP)
_MATMUL = int(Fn.MATMUL)
_DYN_MATMUL = int(Fn.DYN_MATMUL)
_ELEMENTWISE = int(Fn.ELEMENTWISE)
_APPEND_ROW = int(Fn.APPEND_ROW)
_SET_OFFSET = int(Fn.SET_OFFSET)
_RETILE_ROW = int(Fn.RETILE_ROW)
_RETILE_COL = int(Fn.RETILE_COL)
_PAYLOAD = int(Abort.PAYLOAD)
_INNER_DIMS = int(Abort.INNER_DIMS)
_ELEMENT_WIDTH = int(Abort.ELEMENT_WIDTH)
_NOT_BROADCASTABLE = int(Abort.NOT_BROADCASTABLE)
_NO_ROOM = int(Abort.NO_ROOM)
_TOO_LARGE = int(Abort.TILE_TOO_LARGE)
_ACC_SHAPE = int(Abort.ACC_SHAPE)
_PARTLY_VALID = int(Abort.PARTLY_VALID)
_OFFSET_RANGE = int(Abort.OFFSET_RANGE)
_TOO_MUCH_WORK = int(Abort.TOO_MUCH_WORK)


@kernel
def ceil_div(a, b):
    """Ceiling division of non-negative numbers, ``b > 0``."""
    return (a + b - 1) // b


@kernel
def _area(rows, cols):
    # The fields are 32 bits wide; the product is not.
    return np.int64(rows) * np.int64(cols)


@kernel
def tile_bytes(x):
    # Elements narrower than a byte are packed over the whole tile.
    return ceil_div(_area(x.rows, x.cols) * x.bits, 8)


@kernel
def load_cycles(x, bandwidth):
    """Cycles to read ``x`` from on-chip memory; 0 when it comes by FIFO."""
    if x.rd == 0:
        return 0
    return ceil_div(tile_bytes(x), bandwidth)


@kernel
def _pack(rows, cols):
    # A shape in one number, for the message of an abort.
    return _area(rows, 2 * MAX_TILE_SIDE) + cols


@kernel
def _shape(y, rows, cols, off, bits):
    y.kind = _TILE
    y.rows = rows
    y.cols = cols
    y.off = off
    y.bits = bits
    y.value = 0


@kernel
def _cost(un, flops, bw):
    un.flops += flops
    if un.flops >= INFINITY:
        abort(un, _TOO_MUCH_WORK, un.fires, 0)
        return -1
    if bw <= 0:
        return 0
    return ceil_div(flops, bw)


@kernel
def unary(un, fn, bw, x, y):
    """y = f(x)."""
    if x.kind != _TILE:
        abort(un, _PAYLOAD, x.kind, 0)
        return -1
    area = _area(x.rows, x.cols)
    if fn == _SILU:
        _shape(y, x.rows, x.cols, x.off, x.bits)
        return _cost(un, 8 * area, bw)
    if fn == _EXP:
        _shape(y, x.rows, x.cols, x.off, x.bits)
        return _cost(un, 4 * area, bw)
    _shape(y, x.rows, 1, x.off, x.bits)
    return _cost(un, area, bw)


@kernel
def _product(un, transposed, result_bits, x1, x2, y):
    # Fill y with the shape of x1 @ x2; FLOPs, or -1 after a failure. Operands are equally wide
    # unless the width of the result is given.
    if transposed != 0:
        inner = x2.cols
        n = x2.rows
    else:
        inner = x2.rows
        n = x2.cols
    if x1.cols != inner:
        abort(un, _INNER_DIMS, x1.cols, inner)
        return -1
    if result_bits == 0 and x1.bits != x2.bits:
        abort(un, _ELEMENT_WIDTH, x1.bits, x2.bits)
        return -1
    _shape(y, x1.rows, n, x1.off, x1.bits if result_bits == 0 else result_bits)
    return 2 * _area(x1.rows, x1.cols) * n


@kernel
def _broadcast_side(a, b):
    # Common length of two sides, or -1.
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    return -1


@kernel
def binary(un, fn, transposed, stride, result_bits, bw, x1, x2, y):
    """y = f(x1, x2)."""
    if x1.kind != _TILE or x2.kind != _TILE:
        abort(un, _PAYLOAD, x1.kind, x2.kind)
        return -1
    if fn == _MATMUL or fn == _DYN_MATMUL:
        flops = _product(un, transposed, result_bits, x1, x2, y)
        if flops < 0:
            return -1
        return _cost(un, flops, bw)
    if fn == _ELEMENTWISE:
        rows = _broadcast_side(x1.rows, x2.rows)
        cols = _broadcast_side(x1.cols, x2.cols)
        if rows < 0 or cols < 0:
            abort(un, _NOT_BROADCASTABLE, _pack(x1.rows, x1.cols), _pack(x2.rows, x2.cols))
            return -1
        if x1.rows == x2.rows:
            off = max(x1.off, x2.off)
        elif x1.rows == 1:
            off = x2.off
        else:
            off = x1.off
        _shape(y, rows, cols, off, x1.bits)
        return _cost(un, _area(rows, cols), bw)
    if fn == _APPEND_ROW:
        if x1.cols != x2.cols:
            abort(un, _INNER_DIMS, x1.cols, x2.cols)
            return -1
        if x1.off + x2.rows > x1.rows:
            abort(un, _NO_ROOM, x1.off, x1.rows)
            return -1
        _shape(y, x1.rows, x1.cols, x1.off + x2.rows, x1.bits)
        return 1
    if fn == _SET_OFFSET:
        if x2.value < 0 or x2.value > x1.rows:
            abort(un, _OFFSET_RANGE, x2.value, x1.rows)
            return -1
        _shape(y, x1.rows, x1.cols, x2.value, x1.bits)
        return 1
    _shape(y, 1, 1, 1, 64)
    y.value = x1.value * stride + x2.value
    return 1


@kernel
def accumulate(un, fn, bw, x, acc, y, wb):
    """y = g(x, acc); ``rd`` of the result included."""
    if x.kind != _TILE:
        abort(un, _PAYLOAD, x.kind, 0)
        return -1
    if fn == _ELEMENTWISE:
        rows = _broadcast_side(x.rows, acc.rows)
        cols = _broadcast_side(x.cols, acc.cols)
        if rows < 0 or cols < 0:
            abort(un, _NOT_BROADCASTABLE, _pack(x.rows, x.cols), _pack(acc.rows, acc.cols))
            return -1
        _shape(y, rows, cols, rows, x.bits)
        y.rd = wb
        return _cost(un, _area(rows, cols), bw)
    if fn == _RETILE_ROW:
        # A state of 0x0 takes the columns of its first tile.
        if x.cols != acc.cols and acc.rows + acc.cols > 0:
            abort(un, _INNER_DIMS, x.cols, acc.cols)
            return -1
        if x.off > 0 and x.off < x.rows:
            abort(un, _PARTLY_VALID, x.off, x.rows)
            return -1
        if acc.rows + x.rows > MAX_TILE_SIDE:
            abort(un, _TOO_LARGE, acc.rows + x.rows, MAX_TILE_SIDE)
            return -1
        _shape(y, acc.rows + x.rows, x.cols, acc.off + x.off, x.bits)
        y.rd = x.rd
        return 0
    if fn == _RETILE_COL:
        # A state without columns takes the rows of its first tile.
        if x.rows != acc.rows and acc.cols > 0:
            abort(un, _INNER_DIMS, x.rows, acc.rows)
            return -1
        if acc.cols + x.cols > MAX_TILE_SIDE:
            abort(un, _TOO_LARGE, acc.cols + x.cols, MAX_TILE_SIDE)
            return -1
        _shape(y, x.rows, acc.cols + x.cols, x.off, x.bits)
        y.rd = x.rd
        return 0
    _shape(y, 1, 1, 1, 64)
    y.value = 1
    y.rd = wb
    return 1


@kernel
def map_accumulate(un, fn, transposed, result_bits, bw, x1, x2, acc, y, wb):
    """y = acc + x1 @ x2; the addition is free."""
    if x1.kind != _TILE or x2.kind != _TILE:
        abort(un, _PAYLOAD, x1.kind, x2.kind)
        return -1
    flops = _product(un, transposed, result_bits, x1, x2, y)
    if flops < 0:
        return -1
    empty = fn == _DYN_MATMUL and (acc.rows == 0 or acc.cols == 0)
    if not empty and (acc.rows != y.rows or acc.cols != y.cols):
        abort(un, _ACC_SHAPE, _pack(acc.rows, acc.cols), _pack(y.rows, y.cols))
        return -1
    y.rd = wb
    return _cost(un, flops, bw)
