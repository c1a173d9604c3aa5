"""Numeric kernels of the functions of ``st.fn``, with the rules for padding.

A function of the user's own brings its kernel along (``Function.kernel``): arrays in, array out.
How many rows of a result are valid depends on the unit that a function uses (``map_unit``), as in
the timing model; columns become padding only where the rows of a transposed operand are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stepsim.functional.network import Node
from stepsim.functional.values import Array, TileValue
from stepsim.graph.accumulation import Init
from stepsim.graph.functions import Function
from stepsim.graph.limits import MAX_VALUE

__all__ = ["accumulate", "first_tile", "initial", "map_tiles", "multiply"]


def multiply(fn: Function, a: TileValue, b: TileValue, node: Node) -> TileValue:
    """``a @ b`` or ``a @ b.T`` over the unpadded part of the inner size, not rounded yet."""
    inner, outer, columns = (
        (b.width, b.valid, b.cols) if fn.transposed else (b.valid, b.width, b.rows)
    )
    if a.cols != columns:
        node.fail(f"inner sizes differ: {a!r} and {b!r}{' transposed' if fn.transposed else ''}")
    k = min(a.width, inner)
    right = b.data[:, :k].T if fn.transposed else b.data[:k]
    with np.errstate(all="ignore"):
        data = a.data[:, :k] @ right if fn.kernel is None else fn.kernel(a.data, b.data)
    return _finished(data, a.valid, outer)


def map_tiles(fn: Function, tiles: Sequence[TileValue], node: Node) -> TileValue:
    """Result of a map function, rounded to the scalar type of the output."""
    if fn.map_unit == "CacheWriteAddrGen":
        return _write_address(tiles[0].value, tiles[1].value, fn.stride or 0, node)
    if fn.map_unit == "SetOffset":
        return _set_offset(tiles[0], tiles[1].value, node)
    if fn.map_unit == "RowWiseAppend":
        return _append(tiles[0], tiles[1], node)
    if fn.map_unit == "Matmul":
        out = multiply(fn, tiles[0], tiles[1], node)
    else:
        with np.errstate(all="ignore"):
            out = _elementwise(_kernel(fn, node)(*(t.data for t in tiles)), tiles)
    return TileValue(node.rounded(out.data), out.valid, out.width)


def _write_address(index: int, length: int, stride: int, node: Node) -> TileValue:
    if length < 1:
        node.fail(f"a request of length {length} has no last tile", "lengths must be at least 1")
    return TileValue.integer(first_tile(index, length, stride, node) + length - 1)


def first_tile(index: int, length: int, stride: int, node: Node) -> int:
    """Index of the first of the tiles of a request; fails when the last one has none."""
    if index * stride + length > MAX_VALUE:
        node.fail(
            f"the tiles of request {index}, of {stride} tiles each, pass tile 2**63 - 1",
            "check the index and the stride",
        )
    return index * stride


def _kernel(fn: Function, node: Node) -> Callable[..., Array]:
    if fn.kernel is None:
        node.fail(f"function {fn} has no numeric kernel", "give Function a kernel=")
    return fn.kernel


def _elementwise(out: Array, tiles: Sequence[TileValue]) -> TileValue:
    """Valid rows are those of the operand that has the rows, the larger of two; columns are
    padding where they are in any operand."""
    rows = [t.valid for t in tiles if t.rows == out.shape[0]] or [out.shape[0]]
    cols = [t.width for t in tiles if t.cols == out.shape[1]] or [out.shape[1]]
    return _finished(out, max(rows), min(cols))


def _finished(data: Array, valid: int, width: int) -> TileValue:
    """Put zeros into padding columns."""
    if width < data.shape[1]:
        data = data.copy()
        data[:, width:] = 0
    return TileValue(data, valid, width)


def _set_offset(tile: TileValue, valid: int, node: Node) -> TileValue:
    if valid > tile.rows:
        node.fail(f"{valid} valid rows do not fit a tile of {tile.rows} rows")
    return TileValue(tile.data, valid, tile.width)


def _append(tile: TileValue, row: TileValue, node: Node) -> TileValue:
    last = tile.valid + row.rows
    if last > tile.rows:
        node.fail(f"no room for another row: {tile.valid} of {tile.rows} rows are valid")
    data = tile.data.copy()
    data[tile.valid : last] = node.rounded(row.data)
    return TileValue(data, last, tile.width)


def initial(init: Init, unit: str | None) -> TileValue:
    """The state before the first element."""
    shape = (init.rows, init.cols)
    if unit == "SignalReqAllRead":
        return TileValue.integer(0)
    data = np.ones(shape, np.float32) if init.kind == "one" else np.zeros(shape, np.float32)
    return TileValue.of(data)


def accumulate(fn: Function, state: TileValue, x: TileValue, node: Node) -> TileValue:
    """New state after ``x``, not rounded yet. Padding of ``x`` contributes nothing to add and mul;
    packing keeps it."""
    if fn.accum_unit == "SignalReqAllRead":
        return TileValue.integer(1)
    if fn.accum_unit in ("RetileRow", "RetileCol"):
        return _packed(fn, state, x, node)
    with np.errstate(all="ignore"):
        kernel: Any = _kernel(fn, node)
        try:
            data = kernel(state.data, x.unpadded(1.0 if fn.accum_unit == "Mul" else 0.0))
        except ValueError:
            node.fail(f"{state!r} and {x!r} cannot be broadcast")
    return TileValue.of(data)


def _packed(fn: Function, state: TileValue, x: TileValue, node: Node) -> TileValue:
    rows = fn.accum_unit == "RetileRow"
    if rows and 0 < x.valid < x.rows:
        node.fail(
            f"a tile with {x.valid} of {x.rows} valid rows cannot be packed, its padding would "
            "come to lie between rows",
            "drop the padding first",
        )
    if state.rows + state.cols == 0:
        # A state of 0x0 takes the other side of its first tile.
        return x
    if (state.cols != x.cols) if rows else (state.rows != x.rows):
        node.fail(f"{x!r} does not fit the pack {state!r}")
    data = np.concatenate((state.data, x.data), axis=0 if rows else 1)
    if rows:
        return TileValue(data, state.valid + x.valid, min(state.width, x.width))
    return TileValue(data, x.valid, state.width + x.width)
