"""Sizes of tiles and what they cost to read (STeP paper, section 4.3)."""

from __future__ import annotations

import numpy as np

from stepsim.kernels.build.jit import inlined
from stepsim.kernels.layout import MAX_TILE_SIDE, TUPLE_RD, Payload


@inlined
def ceil_div(a, b):
    """Ceiling division of non-negative numbers, ``b > 0``."""
    return (a + b - 1) // b


@inlined
def area(rows, cols):
    """Elements of a tile. The fields of a token are 32 bits wide; the product is not."""
    return np.int64(rows) * np.int64(cols)


@inlined
def tile_bytes(x):
    # Elements narrower than a byte are packed over the whole tile.
    return ceil_div(area(x.rows, x.cols) * x.bits, 8)


@inlined
def load_cycles(x, bandwidth):
    """Cycles to read ``x`` from on-chip memory; 0 when it comes by FIFO."""
    if x.rd == 0:
        return 0
    return ceil_div(tile_bytes(x), bandwidth)


@inlined
def tuple_load(state, x):
    """Cycles to read the members of a tuple one after the other."""
    header = state.slots[x.value]
    if x.rd == TUPLE_RD:
        return header.rel
    return header.hrel if x.rd != 0 else np.int64(0)


@inlined
def token_load(state, x):
    """Cycles to read what a token of any kind carries."""
    if x.kind != Payload.TUPLE:
        return load_cycles(x, state.globals[0].onchip)
    return tuple_load(state, x)


@inlined
def token_bytes(state, x):
    """Bytes of what a token of any kind carries; those of a tuple are the sum of its members'."""
    if x.kind != Payload.TUPLE:
        return tile_bytes(x)
    return state.slots[x.value].pub


@inlined
def pack(rows, cols):
    """A shape in one number, for the message of an abort."""
    return area(rows, 2 * MAX_TILE_SIDE) + cols


@inlined
def fill_tile(y, rows, cols, valid, element_bits):
    """Make ``y`` a tile; whether it lies in memory stays as it is."""
    y.kind = Payload.TILE
    y.rows = rows
    y.cols = cols
    y.off = valid
    y.bits = element_bits
    y.value = 0


@inlined
def shape_key(x):
    """Kind, sides and element width of a tile in one number; that of a tile is never 0."""
    sides = (np.int64(x.rows) << 21) | np.int64(x.cols)
    return (((sides << 14) | np.int64(x.bits)) << 3) | np.int64(x.kind)
