"""flat_map: every element becomes a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stepsim.functional.kernels import first_tile
from stepsim.functional.network import Node, Steps
from stepsim.functional.registry import evaluates
from stepsim.functional.values import Selection, TileValue, Token
from stepsim.graph.levels import stop_levels
from stepsim.graph.ops.flat_map import FlatMap

__all__: list[str] = []

_Rule = Callable[[dict[str, Any], Node, Token], None]


def _retile(params: dict[str, Any], node: Node, token: Token) -> None:
    """Rows or columns of a tile. A tile without a valid row is never dropped: its stop is kept."""
    tile: TileValue = token.payload
    by_row = params["split_row"]
    count = tile.rows if by_row else tile.cols
    if params["filter"] and 0 < tile.valid < count:
        count = tile.valid
    if count == 0:
        node.fail("a tile without rows makes an empty inner dim, which has no stop token")
    for i in range(count):
        if by_row:
            piece = TileValue(tile.data[i : i + 1], int(i < tile.valid), tile.width)
        else:
            # A column is laid out as a row: what is valid of it are the first ``valid`` scalars.
            piece = TileValue(tile.data[:, i : i + 1].T, int(i < tile.width), tile.valid)
        node.emit(piece, token.level if i == count - 1 else 0)


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


def _emit(params: dict[str, Any], node: Node, token: Token) -> None:
    """The pieces that the function's kernel makes of a tile, in row-major order over ``dims``.

    Without a kernel the scalars of the tile, row-major, are cut into the pieces.
    """
    op = node.operator
    assert isinstance(op, FlatMap)
    tile: TileValue = token.payload
    sides = {"rows": tile.rows, "cols": tile.cols, "valid": tile.valid}
    dims = [sides[d] if isinstance(d, str) else int(d) for d in params["dims"]]
    shape = tuple(sides[t] if isinstance(t, str) else int(t) for t in params["tile"])
    levels = stop_levels(dims)
    if not levels:
        node.fail(f"{op.fn} makes an empty inner dim of {tile!r}, which has no stop token")
    if op.fn.kernel is not None:
        pieces = [np.asarray(p) for p in op.fn.kernel(tile.data, tile.valid)]
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


_RULES: dict[str, _Rule] = {
    "RetileStreamify": _retile,
    "ExpertAddrGen": _expert_addresses,
    "FilterLastTile": _last_tile,
    "FlatMap": _emit,
}


@evaluates(FlatMap)
def _flat_map(op: FlatMap, node: Node) -> Steps:
    params = dict(op.fn.params)
    if op.fn.unit_kind == "CacheReadAddrGen":
        yield from _cache_read(params, node)
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
