"""Rules of memory operators: loads, stores, buffers, and accesses by address."""

from __future__ import annotations

from stepsim.graph.ops.flat_map.flat_maps import flat_map
from stepsim.graph.ops.flat_map.numbers import view_addresses
from stepsim.graph.ops.memory.linear_loads import LinearLoad, linear_load
from stepsim.graph.ops.memory.offchip import LinearStore, linear_store
from stepsim.graph.ops.memory.onchip import Bufferize, Streamify, bufferize, streamify
from stepsim.graph.ops.memory.random_access import (
    RandomLoad,
    RandomStore,
    random_load,
    random_store,
)
from stepsim.graph.rewrites.downtile.blocks import Block, Refusal
from stepsim.graph.rewrites.downtile.site import Rewrite, buffer_of, rule
from stepsim.graph.stream import Stream
from stepsim.graph.types import TensorSpec, Tile


def _grid_columns(tensor: TensorSpec, tile: Tile) -> int:
    """Tiles across in the grid of a tensor."""
    return tensor.shape[-1] // int(tile.cols)


@rule(LinearLoad)
def load(work: Rewrite, op: LinearLoad) -> None:
    """The walk over logical tiles with two inner dims over the pieces of each."""
    pieces = work.sides.block(op.tile)
    tile = work.sides.tile(op.tile)
    across = _grid_columns(op.tensor, op.tile)
    walk = _split_walk(op.shape, op.stride, across, pieces)
    steps = [
        (stride // across) * pieces.rows * across * pieces.cols + (stride % across) * pieces.cols
        for _, stride in walk
    ]
    block = work.sides.of(op.outputs[0].type)
    shape = [count for count, _ in walk]
    inner = [(pieces.rows, across * pieces.cols), (pieces.cols, 1)]
    if op.transposed:
        inner.reverse()
    if block is not None:
        shape += [count for count, _ in inner]
        steps += [step for _, step in inner]
    ref, trigger = None, op.trigger_rank
    if op.inputs:
        ref = work.new(op.inputs[0])
        trigger += work.gained(op.inputs[0])
    made = linear_load(
        op.tensor, (int(tile.rows), int(tile.cols)), shape=shape, stride=steps, ref=ref,
        trigger_rank=trigger, transposed=op.transposed, bypass=op.bypass, base=op.base,
        par_dispatch=op.par_dispatch, label=op.label,
    )  # fmt: skip
    work.put(op.outputs[0], _joined(made, op, walk, block), block)


def _split_walk(
    shape: tuple[int, ...], stride: tuple[int, ...], across: int, pieces: Block
) -> list[tuple[int, int]]:
    """The walk in dims that never cross from one row of tiles into the next.

    A step of logical tiles has a row part and a column part; with several rows of pieces in a tile
    the two are scaled by different factors.
    """
    walk = list(zip(shape, stride, strict=True))
    if pieces.rows == 1 or sum((s % across) * (n - 1) for n, s in walk) < across:
        return walk
    found = []
    for count, step in walk:
        own = step % across
        if step < across and own and across % own == 0 and own * (count - 1) >= across:
            turn = across // own
            if count % turn == 0:
                found += [(count // turn, across), (turn, own)]
                continue
        found.append((count, step))
    if sum((s % across) * (n - 1) for n, s in found) < across:
        return found
    raise Refusal(
        f"walks {list(shape)} by {list(stride)} over rows of {across} tiles and crosses from one "
        "row of tiles into the next within a dim; give the rows a separate dim"
    )


def _joined(
    made: Stream, op: LinearLoad, walk: list[tuple[int, int]], block: Block | None
) -> Stream:
    """Merge dims that were split for the walk."""
    gained = 0 if block is None else 2
    at = gained
    dims = list(walk)
    for count in reversed(op.shape):
        inner, _ = dims.pop()
        if inner != count:
            outer, _ = dims.pop()
            assert inner * outer == count
            made = made.flatten(at, at + 1)
        at += 1
    return made


@rule(LinearStore)
def store(work: Rewrite, op: LinearStore) -> None:
    """The pieces in order; the store knows how many form a tile."""
    (old,) = op.inputs
    work.tile(old, "tiles")
    linear_store(
        work.new(old), op.tensor_name, base=op.base, par_dispatch=op.par_dispatch,
        blocks=op.blocks or work.block(old) is not None, label=op.label,
    )  # fmt: skip


@rule(Bufferize)
def hold(work: Rewrite, op: Bufferize) -> None:
    """Buffers with the pieces of each tile inside."""
    (old,) = op.inputs
    made = bufferize(
        work.new(old), op.rank + work.gained(old), buffers=2 if op.buffers == 2 else 1,
        label=op.label,
    )  # fmt: skip
    work.put(op.outputs[0], made, None)


@rule(Streamify)
def read(work: Rewrite, op: Streamify) -> None:
    """The same reads, with each tile as its pieces."""
    x = op.inputs[0]
    block = work.sides.of(buffer_of(x).tile)
    shape, stride = op.shape, op.stride
    if shape is not None and stride is not None and block is not None:
        shape = (*shape, block.rows, block.cols)
        stride = (*(s * block.count for s in stride), block.cols, 1)
    if len(op.inputs) == 2:
        made = streamify(
            work.new(x), work.once(op.inputs[1]), shape=shape, stride=stride, label=op.label
        )
    else:
        made = streamify(
            work.new(x), repeat=list(op.repeat), shape=shape, stride=stride, label=op.label
        )
    work.put(op.outputs[0], made, block)


def _pieces_at(work: Rewrite, old: Stream, tile: Tile) -> tuple[Stream, tuple[int, int]]:
    """The index of every piece for the indices of tiles, and the block for numbering: pieces tile
    by tile."""
    pieces = work.sides.block(tile)
    x = work.new(old)
    if pieces.count == 1:
        return x.unsqueeze(0).unsqueeze(0), (1, 1)
    spread = view_addresses((pieces.rows, pieces.cols), (pieces.cols, 1), slab=pieces.count)
    return flat_map(x, spread), (pieces.rows, pieces.cols)


def _within(outer: tuple[int, int], inner: tuple[int, int]) -> tuple[int, int]:
    """The block of an access, refusing one that already has a block, as after an earlier
    downtile."""
    if outer != (1, 1) and inner != (1, 1):
        raise Refusal("has pieces of pieces; downtile the original to the smaller size")
    return outer if inner == (1, 1) else inner


@rule(RandomLoad)
def load_by_address(work: Rewrite, op: RandomLoad) -> None:
    """Every address becomes those of the pieces."""
    block = work.sides.of(op.outputs[0].type)
    if block is None:
        return work.take_over(op)
    tile = work.sides.tile(op.tile)
    index, inside = _pieces_at(work, op.inputs[0], op.tile)
    made = random_load(
        index, op.tensor, (int(tile.rows), int(tile.cols)), block=_within(op.block, inside),
        base=op.base, par_dispatch=op.par_dispatch, label=op.label,
    )  # fmt: skip
    work.put(op.outputs[0], made, block)
    return None


@rule(RandomStore)
def store_by_address(work: Rewrite, op: RandomStore) -> None:
    """Every piece is written to its address; the acknowledgment of a tile is that of its last
    piece."""
    address, data = op.inputs
    block = work.block(data)
    if block is None:
        return work.take_over(op)
    index, inside = _pieces_at(work, address, op.tile)
    made = random_store(
        index, work.new(data), op.tensor, block=_within(op.block, inside), base=op.base,
        par_dispatch=op.par_dispatch, ack=op.ack, depth=op.buffer_depth, label=op.label,
    )  # fmt: skip
    last = made.flatten(0, 1).take_last().flatten(0, 1)
    work.put(op.outputs[0], last, None)
    return None
