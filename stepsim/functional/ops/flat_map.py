"""flat_map: every element becomes a stream."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stepsim.functional.kernels import first_tile
from stepsim.functional.network import Node, Steps
from stepsim.functional.registry import evaluates
from stepsim.functional.values import Array, Selection, TileValue, Token
from stepsim.graph import MAX_LENGTH, FlatMap, StreamFunction, piece_size, stop_levels

_Rule = Callable[[dict[str, Any], Node, Token], None]


def _retile(params: dict[str, Any], node: Node, token: Token) -> None:
    """Rows or columns of a tile. A tile without a valid row is never dropped: its stop is kept."""
    tile: TileValue = token.payload
    by_row = params["split_row"]
    if "chunk" in params:
        _retile_chunks(params, node, tile, token.level)
        return
    count = tile.rows if by_row else tile.cols
    if params["filter"] and 0 < tile.valid < count:
        count = tile.valid
    if count == 0:
        node.fail("a tile without rows makes an empty inner dim, which has no stop token")
    for i in range(count):
        if by_row:
            piece = TileValue(tile.data[i : i + 1], int(i < tile.valid), tile.width)
        else:
            # A column is laid out as a row: its first ``valid`` scalars are valid.
            piece = TileValue(tile.data[:, i : i + 1].T, int(i < tile.width), tile.valid)
        node.emit(piece, token.level if i == count - 1 else 0)


def _retile_chunks(params: dict[str, Any], node: Node, tile: TileValue, level: int) -> None:
    """Pieces of several rows or columns; with the filter, only up to the piece with the last valid
    row."""
    by_row, chunk = params["split_row"], params["chunk"]
    count = tile.rows if by_row else tile.cols
    if count == 0:
        node.fail("a tile without rows or columns makes an empty inner dim")
    if by_row and params["filter"] and tile.valid > 0:
        count = min(count, -(-tile.valid // chunk) * chunk)
    for first in range(0, count, chunk):
        if by_row:
            data = tile.data[first : first + chunk]
            valid = min(max(tile.valid - first, 0), len(data))
            piece = TileValue(data, valid, tile.width)
        else:
            data = tile.data[:, first : first + chunk]
            width = min(max(tile.width - first, 0), data.shape[1])
            piece = TileValue(data, tile.valid, width)
        node.emit(piece, level if first + chunk >= count else 0)


def _expert_addresses(params: dict[str, Any], node: Node, token: Token) -> None:
    chosen: Selection = token.payload
    if len(chosen.indices) != 1:
        node.fail(f"a selector has {len(chosen.indices)} set entries; addresses need exactly one")
    n = params["n"]
    for j in range(n):
        address = TileValue.integer(params["base"] + chosen.indices[0] * n + j)
        node.emit(address, 2 if j == n - 1 else 1)


def _last_tile(params: dict[str, Any], node: Node, token: Token) -> None:
    length = _length(node, token)
    for i in range(length):
        last = i == length - 1
        node.emit(Selection((0 if last else 1,), 2), token.level + 1 if last else 0)


def _length(node: Node, token: Token) -> int:
    length: int = token.payload.value
    if length < 1:
        node.fail(
            f"a length of {length} makes an empty inner dim, which has no stop token",
            "lengths must be at least 1",
        )
    return length


def _emit(params: dict[str, Any], node: Node, token: Token, *lengths: int) -> None:
    """The pieces that the function's kernel makes of a tile, in row-major order over ``dims``.

    Without a kernel the scalars of the tile, row-major, are cut into the pieces.
    """
    op = node.operator
    assert isinstance(op, FlatMap)
    tile: TileValue = token.payload
    sides = {"rows": tile.rows, "cols": tile.cols, "valid": tile.valid}
    if lengths:
        sides["length"] = lengths[0]
    if lengths and lengths[0] > MAX_LENGTH:
        node.fail(
            f"a size of {lengths[0]} asks for more than {MAX_LENGTH} pieces along one dim",
            "cut the tile into fewer pieces",
        )
    dims, shape = (
        tuple(int(piece_size(d).at(sides)) if isinstance(d, str) else int(d) for d in params[name])
        for name in ("dims", "tile")
    )
    if 0 in dims:
        node.fail(f"{op.fn} makes an empty inner dim of {tile!r}, which has no stop token")
    levels = stop_levels(dims)
    if op.fn.kernel is not None:
        pieces = _made(op.fn, node, tile, lengths)
    elif len(levels) * shape[0] * shape[1] == tile.data.size:
        pieces = list(tile.data.reshape(-1, *shape))
    else:
        node.fail(
            f"{len(levels)} pieces of {shape[0]}x{shape[1]} do not make up {tile!r}",
            "pass kernel= to fn.emit",
        )
    if len(pieces) != len(levels) or any(p.shape != shape for p in pieces):
        found = sorted({p.shape for p in pieces})
        node.fail(
            f"the kernel of {op.fn} made {len(pieces)} pieces of sizes {found}, expected "
            f"{len(levels)} of {shape}"
        )
    outermost = len(dims) - 1  # pieces of several elements join along it
    for number, (piece, level) in enumerate(zip(pieces, levels, strict=True)):
        last = number == len(pieces) - 1
        level = outermost + token.level if last else min(level, outermost)
        node.emit(TileValue.of(node.rounded(piece)), level)


def _made(fn: StreamFunction, node: Node, tile: TileValue, lengths: Sequence[int]) -> list[Array]:
    """The arrays that the user's kernel returns."""
    assert fn.kernel is not None
    try:
        return [np.asarray(piece) for piece in fn.kernel(tile.data, tile.valid, *lengths)]
    except Exception as error:
        node.fail(
            f"the kernel of {fn} raised {type(error).__name__} ({error}) for {tile!r}",
            "it returns a list of arrays",
        )


def _counter(params: dict[str, Any], node: Node, token: Token) -> None:
    length = _length(node, token)
    for i in range(length):
        node.emit(TileValue.integer(i), token.level + 1 if i == length - 1 else 0)


def _view_addresses(params: dict[str, Any], node: Node, token: Token) -> None:
    chosen, slab = token.payload, params["slab"]
    if isinstance(chosen, Selection):
        if len(chosen.indices) != 1:
            node.fail(
                f"a selector has {len(chosen.indices)} set entries; addresses need exactly one"
            )
        number = chosen.indices[0]
    else:
        number = chosen.value
    base = params["base"]
    first = first_tile(number, slab + base, slab, node) + base
    levels = stop_levels(params["shape"])
    levels[-1] += token.level
    steps = itertools.product(*(range(q) for q in params["shape"]))
    for step, level in zip(steps, levels, strict=True):
        place = sum(i * s for i, s in zip(step, params["stride"], strict=True))
        node.emit(TileValue.integer(first + place % slab), level)


_RULES: dict[str, _Rule] = {
    "RetileStreamify": _retile,
    "ExpertAddrGen": _expert_addresses,
    "FilterLastTile": _last_tile,
    "FlatMap": _emit,
    "FlatmapCounter": _counter,
    "DynAddrGen": _view_addresses,
}


@evaluates(FlatMap)
def _flat_map(op: FlatMap, node: Node) -> Steps:
    params = dict(op.fn.params)
    if op.fn.unit_kind == "CacheReadAddrGen":
        yield from _cache_read(params, node)
        return
    if op.fn.unit_kind == "FlatMap" and op.fn.arity == 2:
        while (both := (yield from node.pair(*node.inputs))) is not None:
            _emit(params, node, both[0], both[1].payload.value)
        return
    rule = _RULES.get(op.fn.unit_kind)
    if rule is None:
        node.fail(f"stream function {op.fn} has no rule for values")
    while (token := (yield from node.inputs[0].take())) is not None:
        rule(params, node, token)


def _cache_read(params: dict[str, Any], node: Node) -> Steps:
    while (both := (yield from node.pair(*node.inputs))) is not None:
        index, length = both
        count = _length(node, length)
        first = first_tile(index.payload.value, count, params["stride"], node)
        for i in range(count):
            address = TileValue.integer(first + i)
            node.emit(address, length.level + 1 if i == count - 1 else 0)
