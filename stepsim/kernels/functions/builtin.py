"""The functions of the STeP paper (section 4.3)."""

from __future__ import annotations

from typing import Final

from stepsim.kernels.functions.declaration import TileFunction
from stepsim.kernels.functions.tiles import area, fill_tile, pack
from stepsim.kernels.jit import inlined
from stepsim.kernels.layout import MAX_ADDRESS, MAX_TILE_SIDE, Abort
from stepsim.kernels.queues import abort

__all__: list[str] = []

SILU: Final = TileFunction("Silu")
EXP: Final = TileFunction("Exp")
ROW_SUM: Final = TileFunction("RowWiseSum")
MATMUL: Final = TileFunction("Matmul")
DYN_MATMUL: Final = TileFunction("DynMatmul")
ADD: Final = TileFunction("Add")
MUL: Final = TileFunction("Mul")
DIV: Final = TileFunction("Div")
APPEND_ROW: Final = TileFunction("RowWiseAppend", constant_cycles=True)
SET_OFFSET: Final = TileFunction("SetOffset", constant_cycles=True)
WRITE_ADDRESS: Final = TileFunction("CacheWriteAddrGen", constant_cycles=True)
RETILE_ROW: Final = TileFunction("RetileRow", constant_cycles=True)
RETILE_COL: Final = TileFunction("RetileCol", constant_cycles=True)
SIGNAL: Final = TileFunction("SignalReqAllRead", constant_cycles=True)


@SILU.use("unary")
def silu(un, its, x, y):
    fill_tile(y, x.rows, x.cols, x.off, x.bits)
    return 8 * area(x.rows, x.cols)


@EXP.use("unary")
def exp(un, its, x, y):
    fill_tile(y, x.rows, x.cols, x.off, x.bits)
    return 4 * area(x.rows, x.cols)


@ROW_SUM.use("unary")
def row_sum(un, its, x, y):
    flops = area(x.rows, x.cols)
    fill_tile(y, x.rows, 1, x.off, x.bits)
    return flops


@inlined
def _product(un, its, x1, x2, y):
    # Fill y with the shape of x1 @ x2; FLOPs, or -1 after a failure. Operands are equally wide
    # unless the width of the result is given.
    if its.transposed != 0:
        inner = x2.cols
        n = x2.rows
    else:
        inner = x2.rows
        n = x2.cols
    if x1.cols != inner:
        abort(un, Abort.INNER_DIMS, x1.cols, inner)
        return -1
    if its.result_bits == 0 and x1.bits != x2.bits:
        abort(un, Abort.ELEMENT_WIDTH, x1.bits, x2.bits)
        return -1
    flops = 2 * area(x1.rows, x1.cols) * n
    fill_tile(y, x1.rows, n, x1.off, x1.bits if its.result_bits == 0 else its.result_bits)
    return flops


@DYN_MATMUL.use("binary")
@MATMUL.use("binary")
def matmul(un, its, x1, x2, y):
    return _product(un, its, x1, x2, y)


@inlined
def _add_product(un, its, x1, x2, state, y, empty):
    # y = state + x1 @ x2; the addition is free.
    flops = _product(un, its, x1, x2, y)
    if flops < 0:
        return -1
    if not empty and (state.rows != y.rows or state.cols != y.cols):
        abort(un, Abort.ACC_SHAPE, pack(state.rows, state.cols), pack(y.rows, y.cols))
        return -1
    y.rd = its.write_back
    return flops


@MATMUL.use("map_accumulate")
def matmul_accumulate(un, its, x1, x2, state, y):
    return _add_product(un, its, x1, x2, state, y, False)


@DYN_MATMUL.use("map_accumulate")
def dynamic_matmul_accumulate(un, its, x1, x2, state, y):
    empty = state.rows == 0 or state.cols == 0
    return _add_product(un, its, x1, x2, state, y, empty)


@inlined
def _broadcast_side(a, b):
    # Common length of two sides, or -1.
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    return -1


@inlined
def _broadcast(un, x1, x2, y, valid):
    # A result of the common shape; one operation for each element.
    rows = _broadcast_side(x1.rows, x2.rows)
    cols = _broadcast_side(x1.cols, x2.cols)
    if rows < 0 or cols < 0:
        abort(un, Abort.NOT_BROADCASTABLE, pack(x1.rows, x1.cols), pack(x2.rows, x2.cols))
        return -1
    fill_tile(y, rows, cols, rows if valid < 0 else valid, x1.bits)
    return area(rows, cols)


@ADD.use("binary")
@MUL.use("binary")
@DIV.use("binary")
def elementwise(un, its, x1, x2, y):
    if x1.rows == x2.rows:
        valid = max(x1.off, x2.off)
    elif x1.rows == 1:
        valid = x2.off
    else:
        valid = x1.off
    return _broadcast(un, x1, x2, y, valid)


@ADD.use("accumulate")
@MUL.use("accumulate")
def accumulate_elementwise(un, its, x, state, y):
    flops = _broadcast(un, x, state, y, -1)
    y.rd = its.write_back
    return flops


@APPEND_ROW.use("binary")
def append_row(un, its, x1, x2, y):
    if x1.cols != x2.cols:
        abort(un, Abort.INNER_DIMS, x1.cols, x2.cols)
        return -1
    if x1.off + x2.rows > x1.rows:
        abort(un, Abort.NO_ROOM, x1.off, x1.rows)
        return -1
    fill_tile(y, x1.rows, x1.cols, x1.off + x2.rows, x1.bits)
    return 1


@SET_OFFSET.use("binary")
def set_offset(un, its, x1, x2, y):
    if x2.value < 0 or x2.value > x1.rows:
        abort(un, Abort.OFFSET_RANGE, x2.value, x1.rows)
        return -1
    fill_tile(y, x1.rows, x1.cols, x2.value, x1.bits)
    y.value = x1.value
    return 1


@WRITE_ADDRESS.use("binary")
def write_address(un, its, x1, x2, y):
    if x2.value < 1:
        abort(un, Abort.NO_LAST_TILE, x2.value, 0)
        return -1
    if x1.value > (MAX_ADDRESS - x2.value) // its.stride:
        abort(un, Abort.ADDRESS_RANGE, x1.value, its.stride)
        return -1
    fill_tile(y, 1, 1, 1, 64)
    # The last tile of the request. The published simulator adds the length itself, one tile too
    # far; none of its times depends on it.
    y.value = x1.value * its.stride + x2.value - 1
    return 1


@RETILE_ROW.use("accumulate")
def retile_row(un, its, x, state, y):
    # A state of 0x0 takes the columns of its first tile.
    if x.cols != state.cols and state.rows + state.cols > 0:
        abort(un, Abort.INNER_DIMS, x.cols, state.cols)
        return -1
    if x.off > 0 and x.off < x.rows:
        abort(un, Abort.PARTLY_VALID, x.off, x.rows)
        return -1
    if state.rows + x.rows > MAX_TILE_SIDE:
        abort(un, Abort.TILE_TOO_LARGE, state.rows + x.rows, MAX_TILE_SIDE)
        return -1
    fill_tile(y, state.rows + x.rows, x.cols, state.off + x.off, x.bits)
    y.rd = x.rd
    return 0


@RETILE_COL.use("accumulate")
def retile_col(un, its, x, state, y):
    # A state without columns takes the rows of its first tile.
    if x.rows != state.rows and state.cols > 0:
        abort(un, Abort.INNER_DIMS, x.rows, state.rows)
        return -1
    if state.cols + x.cols > MAX_TILE_SIDE:
        abort(un, Abort.TILE_TOO_LARGE, state.cols + x.cols, MAX_TILE_SIDE)
        return -1
    fill_tile(y, x.rows, state.cols + x.cols, x.off, x.bits)
    y.rd = x.rd
    return 0


@SIGNAL.use("accumulate")
def signal(un, its, x, state, y):
    fill_tile(y, 1, 1, 1, 64)
    y.value = 1
    y.rd = its.write_back
    return 1
