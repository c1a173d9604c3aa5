"""Tiles and order of loops for a pipeline of stages: the pass ``stream_tokens``."""

from __future__ import annotations

from math import gcd

from stepsim.arguments import is_whole, shown
from stepsim.design.operators.graph import Op, OperatorGraph
from stepsim.design.operators.structured import concat_ends
from stepsim.design.passes.loops.stream_order import (
    Heads,
    passes_tokens,
    stream_orders,
    streamed_dims,
)
from stepsim.design.passes.loops.tiling import permute, tile
from stepsim.errors import CompileError
from stepsim.typed import typed


@typed
def stream_tokens(
    graph: OperatorGraph, size: int = 64, rows: int = 8, heads: Heads = "inside"
) -> OperatorGraph:
    """Tile and order all loops so that tokens, or rows of the cache, pass the block as a stream.

    Rows of a cache are moved whole. Dims of size 1 have been folded.

    Parameters
    ----------
    size : tile of every dim but that of the tokens: the largest divisor up to it.
    rows : tokens of a tile, likewise.
    heads : see :func:`stepsim.design.passes.loops.stream_order.stream_orders`.

    Raises
    ------
    CompileError : ``size`` or ``rows`` is not a number from 1, no operator works on tokens, or
        there is no such order of heads.
    """
    if heads not in ("outside", "inside"):
        raise CompileError(f"stream_tokens: heads is {shown(heads)}; use 'outside' or 'inside'")
    for name, value in (("size", size), ("rows", rows)):
        if not is_whole(value) or value < 1:
            raise CompileError(f"stream_tokens: {name} is {shown(value)}; use an int from 1")
    dims = streamed_dims(graph) if passes_tokens(graph) else {}
    tiles = {op.name: _tiles(op, dims.get(op.name)) for op in tile(graph, rows).ops}
    return permute(tile(graph, size, tiles), orders=stream_orders(graph, heads))


def _tiles(op: Op, dim: str | None) -> dict[str, int]:
    """Whole rows of a cache; of a stream the rows that the operator has."""
    if op.kind == "concat":
        along = op.attributes["dim"]
        return {
            name: (gcd(*concat_ends(op)) if name == along else size)
            for name, size in op.sizes.items()
        }
    if dim is None or op.tiling is None:
        return {}
    return {dim: op.tiling.tile[dim]}
