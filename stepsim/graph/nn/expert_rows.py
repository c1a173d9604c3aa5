"""The rows of experts: packed into tiles, unpacked, and added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError
from stepsim.graph import fn
from stepsim.graph.nn.layer import Layer
from stepsim.graph.ops.flat_map.cutting import unpack_rows
from stepsim.graph.ops.flat_map.flat_maps import flat_map
from stepsim.graph.ops.routing.merging import reassemble
from stepsim.graph.ops.routing.routing_table import Routing
from stepsim.graph.ops.shape.chunks import reshape
from stepsim.graph.ops.shape.levels import flatten
from stepsim.graph.sizes.limits import TILE_SIDE
from stepsim.graph.stream import Stream


def unpacked_rows(layer: Layer, e: int, tiles: Stream) -> Stream:
    """The rows of an expert's result tiles, without padding."""
    return flat_map(tiles, unpack_rows(drop_padding=True), label=layer.part(f"unpack.{e}"))


def summed_results(layer: Layer, results: Sequence[Stream], table: Routing) -> Stream:
    """The rows of all experts in the order of the table, with the results of each row added up."""
    joined = reassemble(
        results, table.multihot(label=layer.part("collect")), label=layer.part("combine")
    )
    return layer.accum("sum", joined, fn.add, last=True)


def packed_rows(layer: Layer, e: int, rows: Stream, tile: int | str) -> Stream:
    """The rows of an expert in tiles of this many rows, or in a single tile."""
    if isinstance(tile, str):
        chunks = rows.promote(label=layer.part(f"tile.{e}"))
    else:
        split = reshape(rows, tile, pad=0, add_outer=True, label=layer.part(f"chunk.{e}"))
        chunks = flatten(split, 1, 2, label=layer.part(f"tiles.{e}"))
    return layer.accum(f"pack.{e}", chunks, fn.pack_rows)


def tensors_of_experts(layer: Layer, role: str, given: Any, experts: int) -> list[Any]:
    """One tensor for each expert."""
    listed = isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim == 3)
    layer.require(
        listed and len(given) == experts,
        ArgError,
        f"{role} must be a list of {experts} tensors, one for each expert, found {shown(given)}",
    )
    return [np.ascontiguousarray(t) if isinstance(t, np.ndarray) else t for t in given]


def rows_of_tile(layer: Layer, tile: int | str) -> int | str:
    """Rows of a tile, or ``"dynamic"``."""
    if tile == "dynamic":
        return tile
    if isinstance(tile, str):
        layer.fail(ArgError, f"tile must be an int from 1 or 'dynamic', found {shown(tile)}")
    return layer.number(TILE_SIDE, "tile", tile)
