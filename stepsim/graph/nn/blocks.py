"""Queries paired with blocks of keys and values, which are streams or are read from off chip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepsim.errors import ArgError, RankError
from stepsim.graph.handle import StreamHandle
from stepsim.graph.nn.layer import Layer, Tensor
from stepsim.graph.nn.masks import Sight, grid, position_mask
from stepsim.graph.ops.flat_map.flat_maps import cache_read_addresses, flat_map
from stepsim.graph.ops.memory.random_access import random_load
from stepsim.graph.ops.sources import metadata
from stepsim.graph.sizes.limits import TILE_SIDE
from stepsim.graph.sizes.shapes import format_dims
from stepsim.graph.stream import Stream
from stepsim.graph.types import TensorSpec, as_spec


@dataclass(frozen=True)
class Blocks:
    """Streams of one shape that pair a query tile with each block of its keys.

    Attributes
    ----------
    query, number : index of the query tile in its sequence, and of the block in the tensor; None
        if no mask needs them.
    keys, count : keys of a block, and blocks of one head.
    """

    q: Stream
    k: Stream
    v: Stream
    query: Stream | None
    number: Stream | None
    keys: int
    count: int


def blocks_of(
    layer: Layer,
    q: Stream,
    keys: Mapping[str, Stream | Tensor],
    kv_tile: int | None,
    sight: Sight,
) -> Blocks:
    """Query tiles with blocks of two named operands, which are both streams or both tensors."""
    names, (k, v) = " and ".join(keys), keys.values()
    streams = [isinstance(x, StreamHandle) for x in (k, v)]
    layer.require(
        streams[0] == streams[1], ArgError, f"{names} must both be streams, or both tensors"
    )
    if streams[0]:
        layer.require(
            kv_tile is None, ArgError, "kv_tile has no effect on streams, whose tiles are given",
            "leave kv_tile out",
        )  # fmt: skip
        return _streamed(layer, q, tuple(keys), k, v, sight)  # type: ignore[arg-type]
    layer.require(
        kv_tile is not None, ArgError, "kv_tile is missing: the keys of a block",
        f"pass kv_tile=, as {names} are read from off chip",
    )  # fmt: skip
    tile = layer.number(TILE_SIDE, "kv_tile", kv_tile)
    return _read(layer, q, tuple(keys), k, v, tile, sight)  # type: ignore[arg-type]


def masked(layer: Layer, scores: Stream, blocks: Blocks, sight: Sight, rows: int) -> Stream:
    """Scores, masked for keys that a query does not see."""
    if sight.all:
        return scores
    assert blocks.query is not None
    assert blocks.number is not None
    mask = position_mask(sight, rows // sight.stacked, blocks.keys, blocks.count)
    return layer.map("mask", mask, scores, blocks.query, blocks.number)


def _streamed(
    layer: Layer, q: Stream, names: tuple[str, ...], k: Stream, v: Stream, sight: Sight
) -> Blocks:
    """Blocks as streams of the shape of the queries plus one dim."""
    keys = layer.rows(names[0], k)
    layer.columns(names[1], v)
    layer.require(
        k.rank == q.rank + 1,
        RankError,
        f"{names[0]} is {format_dims(k.shape)}, expected the dims of q {format_dims(q.shape)} and "
        "one inner dim of blocks",
        "repeat() or streamify() the keys for every query tile",
    )
    layer.site.same_dims(k.shape[:-1], q.shape, names[0], "q", base=1)
    layer.site.same_dims(k.shape, v.shape, *names)
    layer.require(
        sight.causal or not sight.inside, ArgError, "heads_inside has no effect on streams of all "
        "keys without causal=True", "leave heads_inside out",
    )  # fmt: skip
    query = number = None
    count = 1
    if not sight.all:
        dims = layer.constant_dims(names[0], k, "a causal mask needs the position of every block")
        count = dims[-1]
        rows = layer.rows("q", q) // sight.stacked
        walked = sight.tiles - 1
        sight.check(layer, dims[walked] * rows, count * keys)
        query = metadata(grid(dims, walked), label=layer.part("query_tile"))
        number = metadata(grid(dims, -1), label=layer.part("key_block"))
    return Blocks(layer.spread("queries", q, k), k, v, query, number, keys, count)


def _read(
    layer: Layer, q: Stream, names: tuple[str, ...], k: Tensor, v: Tensor, tile: int, sight: Sight
) -> Blocks:
    """Blocks read from tensors ``[heads, L, d]``, only those that a query tile sees."""
    (key, (heads, length, width)), (value, others) = (
        _of_heads(layer, role, t) for role, t in zip(names, (k, v), strict=True)
    )
    rows = layer.rows("q", q)
    layer.require(
        others[:2] == (heads, length),
        ArgError,
        f"{names[0]} is {key} and {names[1]} is {value}; both need the same heads and keys",
    )
    layer.require(
        length % tile == 0, ArgError, f"kv_tile {tile} does not divide the {length} keys of {key}"
    )
    dims = layer.constant_dims("q", q, "the blocks of every query tile are read from off chip")
    if heads > 1:
        layer.require(
            len(dims) >= 2 and dims[sight.heads] % heads == 0,
            ArgError,
            f"q is {format_dims(q.shape)}; its {'inner' if sight.inside else 'second inner'}most "
            f"dim counts query heads, a multiple of the {heads} heads of {names[0]}",
        )
        head = grid(dims, sight.heads) // (dims[sight.heads] // heads)
    else:
        head = np.zeros(dims, np.int64)
    count = length // tile
    if sight.all:
        return _every_block(layer, q, (key, value), heads, dims, tile, sight)
    at_once = rows // sight.stacked
    tiles, index = dims[sight.tiles], grid(dims, sight.tiles)
    sight.check(layer, tiles * at_once, length)
    begin, lengths = sight.blocks(tiles, at_once, tile, count)
    numbers, _ = block_ranges(layer, head * count + begin[index], lengths[index])
    query = metadata(index, label=layer.part("query_tile"))
    return Blocks(
        layer.spread("queries", q, numbers),
        random_load(numbers, key, (tile, width), label=layer.part("load_k")),
        random_load(numbers, value, (tile, others[2]), label=layer.part("load_v")),
        layer.spread("query_tiles", query, numbers),
        numbers,
        tile,
        count,
    )


def block_ranges(layer: Layer, first: Any, lengths: Any) -> tuple[Stream, Stream]:
    """Addresses ``first`` to ``first + length - 1`` in a ragged inner dim, and its lengths."""
    starts = metadata(first, label=layer.part("first_block"))
    sizes = metadata(lengths, label=layer.part("blocks"))
    layer.site.owner.length_of(sizes, total=int(lengths.sum()), bound=int(lengths.max()))
    ranges = flat_map(starts, cache_read_addresses(1), sizes, label=layer.part("block_addresses"))
    return ranges, sizes


def _every_block(
    layer: Layer, q: Stream, tensors: tuple[TensorSpec, TensorSpec], heads: int,
    dims: tuple[int, ...], tile: int, sight: Sight,
) -> Blocks:  # fmt: skip
    """All blocks, along a walk that is repeated by query heads of a group and by query tiles."""
    count = tensors[0].shape[-2] // tile
    shape, stride = [*dims, count], [0] * len(dims) + [1]
    at = len(dims) + sight.heads
    if heads > 1:
        shape[at : at + 1] = [heads, dims[at] // heads]
        stride[at : at + 1] = [count, 0]
    loaded = []
    for role, tensor in zip(("k", "v"), tensors, strict=True):
        x = layer.walk(f"load_{role}", tensor, (tile, tensor.shape[-1]), shape, stride)
        inner = len(shape) - at - 2
        loaded.append(x.flatten(inner, inner + 1, label=layer.part(role)) if heads > 1 else x)
    k, v = loaded
    return Blocks(layer.spread("queries", q, k), k, v, None, None, tile, count)


def _of_heads(layer: Layer, role: str, tensor: Tensor) -> tuple[TensorSpec, tuple[int, int, int]]:
    """A tensor, and its heads, keys and columns."""
    given = as_spec(tensor)
    layer.require(
        len(given.shape) in (2, 3),
        ArgError,
        f"{role} is {given}, expected [heads, keys, columns] or [keys, columns]",
    )
    heads = given.shape[0] if len(given.shape) == 3 else 1
    return given, (heads, given.shape[-2], given.shape[-1])
