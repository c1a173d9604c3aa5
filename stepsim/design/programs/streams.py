"""Streams of programs for typed streams: regrouped dims, cut and joined tiles, converters.

A token is a tile of the last two extents of an element. A converter becomes ``bufferize`` and an
affine ``streamify``: the dims of the stream inside the shared loops are its fill nest, the walk of
``streamify`` is its drain nest. Where the elements differ, tiles are cut to the largest that
divides both before the buffer, and joined behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from stepsim.design.dataflow.buffer_walks import planned, tile_of
from stepsim.graph import (
    Feedback,
    Stream,
    Tile,
    broadcast,
    bufferize,
    expand,
    feedback,
    fn,
    function,
    map as map_,
    metadata,
    partition,
    reassemble,
    selector,
    streamify,
)
from stepsim.itensor import Converter

_AWAITED = function(
    "awaited", "m n, 1 1 -> m n", values=lambda x, _: x, valid=("first", 0), kind=("tile", "tile")
)
"""A tile when a signal is there too; it costs nothing."""


def regrouped(x: Stream, dims: Sequence[int], label: str | None = None) -> Stream:
    """The same tokens in other dims; all of them constants."""
    wanted = tuple(dims) or (1,)
    if tuple(int(d) for d in x.shape) == wanted:
        return x
    if x.rank:
        x = x.flatten(0, x.rank, label=label)
    for place, size in enumerate(reversed(wanted[1:])):
        x = x.reshape(size, place, label=label)
    return x


def converted(x: Stream, by: Converter, label: str) -> Stream:
    """The tokens of the target of a converter, of the stream of its source.

    The reference to a buffer that is drained holds the only place of its FIFO, so that there are
    two buffers: this one, and the one that is filled meanwhile. A converter of one buffer takes the
    first tile of a chunk when the last of the chunk before has left. The result has the shared
    loops and those of the drain as dims.
    """
    if by.kind == "fifo":
        return x
    plan = planned(by)
    shared = [loop.trip for loop in by.shared_loops] or [1]
    x = cut(x, tile_of(by.src.element), plan.piece, label)
    for fill, walk in plan.stages:
        inner = [loop.trip for loop in fill] or [1]
        x = regrouped(x, (*shared, *inner), label)
        steps = walk or ((1, 0),)
        drained: Feedback | None = None
        if by.buffers == 1 and by.reuse > 1:
            x, drained = _held_back(x, shared, inner, label)
        held = bufferize(x, len(inner), buffers=by.buffers, label=label).with_depth(1)
        x = streamify(
            held, shape=[n for n, _ in steps], stride=[step for _, step in steps], label=label
        )
        if drained is not None:
            x, read = broadcast(x, 2, label=label)
            read = regrouped(read.accum(fn.signal, len(steps), label=label), (by.reuse,), label)
            # Behind the last chunk none is waiting.
            again, last = partition(
                read, _first(by.reuse - 1, by.reuse, label), switch_cycles=0, label=label
            )
            last.consume(label=label)
            drained.connect(again.assume_shape(by.reuse - 1))
    # A walk may read a loop of the drain nest in several dims.
    x = regrouped(x, (*shared, *(loop.trip for loop in plan.drain)), label)
    return joined(x, tile_of(by.dst.element), plan.piece, label)


def _held_back(
    x: Stream, shared: Sequence[int], inner: Sequence[int], label: str
) -> tuple[Stream, Feedback]:
    """A stream that sends a chunk for each signal of a feedback, and the first without one."""
    turns = prod(shared)
    drained = feedback(Tile.of("u64", 1, 1), [turns - 1], label=label)
    opening = metadata(np.zeros(1, np.int64), label=label)
    signals = reassemble(
        [opening, drained], _first(1, turns, label), rank=0, switch_cycles=0, label=label
    )
    free = regrouped(signals, (*shared, *(1 for _ in inner)), label)
    x, tiles = broadcast(x, 2, label=label)
    # Unlike repeat, which publishes copies late, this is one signal for each tile in its cycle.
    free = expand(free, tiles, len(inner), label=label)
    return map_(_AWAITED, x, free, label=label), drained


def _first(count: int, of: int, label: str) -> Stream:
    """Selectors of the first of two streams, so often, and then of the second."""
    early = np.arange(of) < count
    return selector(np.stack([early, ~early], axis=1).astype(np.int64), label=label)


def cut(x: Stream, tile: tuple[int, int], piece: tuple[int, int], label: str) -> Stream:
    """Tiles as pieces that divide them, row after row."""
    if tile[0] > piece[0]:
        x = x.flat_map(fn.unpack_rows(chunk=piece[0]), label=label)
    if tile[1] > piece[1]:
        # Each row piece in turn, so that its columns follow each other.
        x = x.flat_map(fn.unpack_cols(chunk=piece[1]), label=label)
    return x


def joined(x: Stream, tile: tuple[int, int], piece: tuple[int, int], label: str) -> Stream:
    """Pieces, whose loops are the innermost dims, as tiles."""
    if tile[1] > piece[1]:
        x = x.accum(fn.pack_cols, rank=1, label=label)
    if tile[0] > piece[0]:
        x = x.accum(fn.pack_rows, rank=1, label=label)
    return x
