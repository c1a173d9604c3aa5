"""Rules of shape operators: indices of dims grow by the two dims of the block."""

from __future__ import annotations

from stepsim.graph.functions.addresses import pack_cols, pack_rows
from stepsim.graph.ops.flat_map.cutting import unpack_cols, unpack_rows
from stepsim.graph.ops.flat_map.flat_maps import FlatMap, flat_map
from stepsim.graph.ops.memory.onchip import streamify
from stepsim.graph.ops.shape.chunks import MaskedReshape, Reshape, reshape
from stepsim.graph.ops.shape.levels import Flatten, Promote, Unsqueeze, Zip
from stepsim.graph.ops.shape.references import RepeatRef, TakeLast
from stepsim.graph.ops.shape.repeats import ExpandRef, Repeat
from stepsim.graph.ops.sources import Broadcast, Consume, Print
from stepsim.graph.rewrites.downtile.blocks import Block, Refusal
from stepsim.graph.rewrites.downtile.site import Rewrite, rule
from stepsim.graph.stream import Stream
from stepsim.graph.types import Tile


@rule(Consume, Print, Broadcast, Promote, Zip)
def same(work: Rewrite, op: Consume) -> None:
    """The operator does not depend on the dims."""
    work.take_over(op)


@rule(Flatten)
def flatten_rule(work: Rewrite, op: Flatten) -> None:
    """Shift dims outwards."""
    more = work.gained(op.inputs[0])
    work.take_over(op, lo=op.lo + more, hi=op.hi + more)


@rule(Unsqueeze)
def unsqueeze_rule(work: Rewrite, op: Unsqueeze) -> None:
    """Shift a dim outwards."""
    work.take_over(op, dim=op.dim + work.gained(op.inputs[0]))


@rule(Reshape, MaskedReshape)
def reshape_rule(work: Rewrite, op: Reshape) -> None:
    """Shift a dim outwards; if it is padded, all pieces of a chunk are padded together."""
    (x,) = op.inputs
    block = work.block(x)
    if block is None:
        return work.take_over(op)
    if isinstance(op, MaskedReshape):
        raise Refusal("marks padding of tiles that are cut; leave out mask=True")
    pieces = work.new(x)
    if op.chunk == 1 and op.add_outer:
        return work.put(op.outputs[0], pieces.promote(label=op.label).unsqueeze(2), block)
    if op.dim > 0 or (op.pad is None and not op.add_outer):
        return work.take_over(op, dim=op.dim + 2)
    flat = pieces.flatten(0, 2)
    made = reshape(
        flat, op.chunk * block.count, pad=op.pad, add_outer=op.add_outer,
        write_back=op.write_back, label=op.label,
    ).reshape(block.cols)  # fmt: skip
    made = made.reshape(block.rows, dim=1)
    return work.put(op.outputs[0], made, block)


@rule(Repeat)
def repeat_rule(work: Rewrite, op: Repeat) -> None:
    """Blocks are repeated from a buffer."""
    (x,) = op.inputs
    block = work.block(x)
    if block is None:
        return work.take_over(op)
    made = work.new(x).bufferize(2).streamify(repeat=list(op.counts), label=op.label)
    return work.put(op.outputs[0], made, block)


@rule(ExpandRef)
def expand_rule(work: Rewrite, op: ExpandRef) -> None:
    """A block is read from a buffer for every element of the reference."""
    x, ref = op.inputs
    block = work.block(x)
    if block is None:
        return work.take_over(op, [work.new(x), work.once(ref)])
    made = streamify(work.new(x).bufferize(2), work.once(ref), label=op.label)
    return work.put(op.outputs[0], made, block)


@rule(RepeatRef)
def repeat_ref_rule(work: Rewrite, op: RepeatRef) -> None:
    """Like :func:`expand_rule`; inner dims of the reference are merged with those of its block."""
    x, ref = op.inputs
    block = work.block(x)
    if block is None:
        return work.take_over(op, rank=op.rank + work.gained(ref))
    raise Refusal("repeats blocks by a reference; use unsqueeze(0) and expand(ref)")


@rule(TakeLast)
def take_last_rule(work: Rewrite, op: TakeLast) -> None:
    """For single scalars only; with tiles, a dim of blocks has no single last element."""
    if work.block(op.inputs[0]) is None:
        return work.take_over(op)
    raise Refusal("takes the last of tiles that are cut; accumulate with fn.last, or store all")


@rule(FlatMap)
def flat_map_rule(work: Rewrite, op: FlatMap) -> None:
    """Tiles cut into rows or columns; functions of integers and selectors as they are."""
    x, out = op.inputs[0], op.outputs[0]
    if all(work.sides.of(s.type) is None for s in (*op.inputs, out)):
        return work.take_over(op)
    params = dict(op.fn.params)
    if op.fn.unit_kind != "RetileStreamify":
        raise Refusal(
            f"applies '{op.fn}' to tiles that are cut; there is a rule for unpacking only"
        )
    tile, block = work.tile(x, "elements")
    kind = out.type
    assert isinstance(kind, Tile)
    if not params["split_row"] and "chunk" not in params:
        raise Refusal("cuts tiles into single columns; use fn.unpack_cols(chunk=16)")
    if params.get("filter") and x.padding is not None:
        return _valid_rows(work, op, block)
    if params["split_row"]:
        return _rows(work, op, tile, block)
    return _cols(work, op, tile, block)


def _rows(work: Rewrite, op: FlatMap, tile: Tile, block: Block) -> None:
    """``[.., D, r, c]`` to ``[.., D * pieces, r', c]``."""
    out = op.outputs[0]
    kind = out.type
    assert isinstance(kind, Tile)
    goal = work.sides.of(kind)
    each, big = int(work.sides.tile(kind).rows), int(work.sides.tile(tile).rows)
    pieces = _pieces(work, op)
    if big % each:
        raise Refusal(f"cuts pieces of {big} rows into pieces of {each}")
    down = int(kind.rows) // each
    if big > each:
        chunk = None if each == 1 else each
        pieces = flat_map(pieces, unpack_rows(chunk=chunk), label=op.label).reshape(big // each)
        if block.cols > 1:
            pieces = work.reordered(pieces, 2, (big // each, block.cols), (1, big // each))
        else:
            pieces = pieces.flatten(0, 1).unsqueeze(0)
        pieces = pieces.flatten(1, 2)
    made = pieces.reshape(down, dim=1).flatten(2, 3)
    work.put(out, made.flatten(0, 2) if goal is None else made, goal)


def _cols(work: Rewrite, op: FlatMap, tile: Tile, block: Block) -> None:
    """``[.., D, r, c]`` to ``[.., D * pieces, r, c']``."""
    out = op.outputs[0]
    kind = out.type
    assert isinstance(kind, Tile)
    goal = work.sides.of(kind)
    each, big = int(work.sides.tile(kind).cols), int(work.sides.tile(tile).cols)
    if big % each:
        raise Refusal(f"cuts pieces of {big} columns into pieces of {each}")
    across, cols = int(kind.cols) // each, block.cols * (big // each)
    pieces = _pieces(work, op)
    if each < big:
        pieces = flat_map(pieces, unpack_cols(chunk=each), label=op.label)
    made = pieces.reshape(across)
    if block.rows > 1:
        many = cols // across
        walk = (many, block.rows, across), (across, cols, 1)
        made = work.reordered(made, 3, *walk)
    else:
        made = made.flatten(1, 2).unsqueeze(1)
    made = made.flatten(2, 3)
    work.put(out, made.flatten(0, 2) if goal is None else made, goal)


def _pieces(work: Rewrite, op: FlatMap) -> Stream:
    x = op.inputs[0]
    made = work.new(x)
    return made if work.block(x) is not None else made.unsqueeze(0).unsqueeze(0)


def _valid_rows(work: Rewrite, op: FlatMap, block: Block) -> None:
    """Rows without padding, whose number is known only at run time.

    The pieces of a tile are collected in a buffer, split into rows there, and these into pieces.
    """
    out = op.outputs[0]
    kind = out.type
    assert isinstance(kind, Tile)
    if dict(op.fn.params).get("chunk", 1) != 1:
        raise Refusal("drops padding from chunks of rows; unpack single rows")
    pieces = _pieces(work, op)
    wide = pieces.accum(pack_cols, 1)
    if block.rows == 1:
        wide = wide.flatten(0, 1)
    else:
        # Pieces that are only padding have no row to carry a stop, so all rows are packed again.
        wide = flat_map(wide, unpack_rows()).accum(pack_rows, 1)
    rows = flat_map(wide, unpack_rows(drop_padding=True), label=op.label)
    if rows.shape != out.shape:
        rows = rows.assume_shape(*out.shape)
    goal = work.sides.of(kind)
    if goal is None:
        return work.put(out, rows, None)
    rows = rows.unsqueeze(0)
    if goal.cols > 1:
        rows = flat_map(rows, unpack_cols(chunk=int(work.sides.tile(kind).cols)))
    return work.put(out, rows.unsqueeze(1), goal)
