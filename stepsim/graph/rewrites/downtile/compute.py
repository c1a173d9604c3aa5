"""Rules of higher-order operators: maps, accumulations, row statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from stepsim.graph.accumulation import Init
from stepsim.graph.functions.function import Function
from stepsim.graph.functions.matrices import transpose as transpose_fn
from stepsim.graph.functions.polynomial import Polynomial
from stepsim.graph.functions.shape import Shape
from stepsim.graph.ops.higher_order.group_results import (
    AccumBuffer,
    RowStat,
    accum_buffer,
    row_stat,
)
from stepsim.graph.ops.higher_order.maps import Map, map_
from stepsim.graph.ops.higher_order.reductions import Accum, MapAccum, Reduction, accum
from stepsim.graph.rewrites.downtile import matrices
from stepsim.graph.rewrites.downtile.blocks import Block, Refusal
from stepsim.graph.rewrites.downtile.site import Rewrite, buffer_of, rule
from stepsim.graph.stream import Stream
from stepsim.graph.types import Tile

ELEMENTWISE: Final = frozenset(
    {
        "abs", "add", "add_const", "cast", "clamp", "cos", "dequantize", "div", "div_const", "eq",
        "exp", "floor_div_const", "full_like", "ge", "gelu", "gelu_tanh", "gt", "le", "log", "lt",
        "max", "min", "mul", "mul_const", "ne", "neg", "part", "pow", "pow2", "quantize",
        "reciprocal", "relu", "rsqrt", "sigmoid", "silu", "sin", "softplus", "sqrt", "square",
        "sub", "sub_const", "tanh", "to_integer", "where",
    }
)  # fmt: skip
"""Standard functions where a piece of the result depends on the same pieces of the operands."""

_COLUMN_BY_COLUMN: Final = frozenset({"append_row", "set_offset", "col_sum", "col_max", "col_mean"})
"""Standard functions that work on entire columns, which may therefore be processed separately."""


def _into_rows(name: str, weight: int, values: Any, start: float, padding: float) -> Function:
    """A reduction of rows that continues from the result for the previous columns."""
    return Function(
        name, Shape.parse(name, "m 1; m n -> m 1"), Polynomial.of("m", "n", times=weight),
        values=values, padding=(0.0, padding), start=start,
    )  # fmt: skip


def _add_rows(state: Any, x: Any) -> Any:
    return state + x.sum(axis=1, keepdims=True)


def _max_rows(state: Any, x: Any) -> Any:
    return np.maximum(state, x.max(axis=1, keepdims=True, initial=-np.inf))


def _row_reduction(work: Rewrite, op: Map) -> Function | None:
    """A reduction of rows as an accumulation over the pieces of a row, with the same FLOPs.

    The ``n`` scalars of a row cost ``n`` steps, including those that join two pieces, regardless of
    the number of pieces.
    """
    weights = work.program.flop_weights
    if op.fn.name == "row_sum":
        return _into_rows("row_sum_on", weights.get("row_sum", 1), _add_rows, 0.0, 0.0)
    if op.fn.name == "row_max":
        weight = weights.get("row_max", 1)
        return _into_rows("row_max_on", weight, _max_rows, -np.inf, -np.inf)
    return None


@rule(Map)
def map_rule(work: Rewrite, op: Map) -> None:
    """Elementwise functions on pieces; products, reductions and transposes by their own rules."""
    fn = op.fn
    if all(work.block(x) is None for x in op.inputs) and work.sides.of(op.outputs[0].type) is None:
        return work.take_over(op)
    if matrices.is_product(fn) and len(op.inputs) == 2:
        return matrices.product(work, op)
    if fn.standard and fn.name == "transpose":
        return _transpose(work, op)
    if fn.standard and fn.name in ("row_sum", "row_max", "row_mean"):
        return _reduce_rows(work, op)
    blocks = [work.block(x) for x in op.inputs]
    out = op.outputs[0]
    to = work.sides.of(out.type)
    whole = all(b is None or b.count == 1 for b in (to, *blocks))
    single_row = all(b is None or b.rows == 1 for b in blocks)
    if not (
        whole
        or (fn.standard and fn.name in ELEMENTWISE)
        or (fn.standard and fn.name in _COLUMN_BY_COLUMN and single_row)
    ):
        more = " of more than one row of pieces" if fn.name in _COLUMN_BY_COLUMN else ""
        raise Refusal(
            f"applies '{fn}' to tiles{more} that are cut; it is not known to work on pieces"
        )
    spread = [b for b in (to, *blocks) if b is not None]
    joint = Block(max(b.rows for b in spread), max(b.cols for b in spread))
    xs = [work.spread(x, joint) for x in op.inputs]
    made = map_(fn, *xs, compute_bw=op.compute_bw, write_back=op.write_back, label=op.label)
    work.put(out, made.flatten(0, 2) if to is None else made, to)
    return None


def _transpose(work: Rewrite, op: Map) -> None:
    (x,) = op.inputs
    block = work.block(x)
    assert block is not None
    pieces = work.new(x)
    if block.rows == 1 or block.cols == 1:
        pieces = pieces.flatten(0, 1)
        pieces = pieces.unsqueeze(1) if block.cols == 1 else pieces.unsqueeze(0)
    else:
        pieces = work.reordered(pieces, 2, (block.cols, block.rows), (1, block.cols))
    made = map_(transpose_fn, pieces, write_back=op.write_back, label=op.label)
    work.put(op.outputs[0], made, Block(block.cols, block.rows))


def _reduce_rows(work: Rewrite, op: Map) -> None:
    """Rows that span several pieces: the pieces of a row are reduced one after the other."""
    (x,) = op.inputs
    block, out = work.block(x), op.outputs[0]
    assert block is not None
    pieces = work.new(x)
    own = work.sides.of(out.type)
    options: dict[str, Any] = {
        "compute_bw": op.compute_bw, "write_back": op.write_back, "label": op.label,
    }  # fmt: skip
    fn = _row_reduction(work, op)
    if block.cols == 1:
        made = map_(op.fn, pieces, **options)
        return work.put(out, made.flatten(0, 2) if own is None else made, own)
    if fn is None:
        made = row_stat(pieces, "mean", 1, **options)
    else:
        tile = work.sides.tile(_tile(x))
        made = accum(pieces, fn, 1, _from(fn, tile), **options)
    return work.put(out, made.flatten(0, 1) if own is None else made.unsqueeze(0), own)


def _from(fn: Function, tile: Tile) -> Init:
    kind = "zero" if fn.start == 0 else "neg_infinity"
    return Init(kind, int(tile.rows), 1)


def _tile(stream: Stream) -> Tile:
    assert isinstance(stream.type, Tile)
    return stream.type


@rule(MapAccum)
def map_accum_rule(work: Rewrite, op: MapAccum) -> None:
    """Sums of products; sums of single scalars are unchanged."""
    if not matrices.is_product(op.fn):
        if all(work.block(x) is None for x in op.inputs):
            return work.take_over(op)
        raise Refusal(
            f"sums the results of '{op.fn}' of cut tiles; there is a rule for products only"
        )
    return matrices.summed_product(work, op)


@rule(Accum)
def accum_rule(work: Rewrite, op: Accum) -> None:
    """Sums of blocks in a buffer; packing by order; signals of the last piece."""
    (x,) = op.inputs
    block, out = work.block(x), op.outputs[0]
    if block is None and work.sides.of(out.type) is None:
        return work.take_over(op)
    if op.fn.packs is not None:
        return _pack(work, op)
    if op.fn.standard and op.fn.name == "signal" and block is not None:
        return work.take_over(op, rank=op.rank + 2)
    if block is None or not (op.fn.standard and op.fn.name in ELEMENTWISE):
        raise Refusal(f"accumulates with '{op.fn}', which is not known to work on pieces")
    inits = _inits(work, op)
    options: dict[str, Any] = {
        "compute_bw": op.compute_bw, "write_back": op.write_back, "label": op.label,
    }  # fmt: skip
    if block.count == 1:
        made = accum(work.new(x), op.fn, op.rank + 2, inits, **options).unsqueeze(0).unsqueeze(0)
    else:
        made = accum_buffer(work.new(x), op.fn, op.rank + 2, 2, inits, **options).streamify()
    return work.put(out, made, block)


def _inits(work: Rewrite, op: Reduction) -> Init:
    """The state of a piece."""
    if len(op.inits) > 1:
        raise Refusal(f"has {len(op.inits)} states; there is a rule for one")
    (init,) = op.inits
    tile = work.sides.tile(op.results()[0])
    if init.is_empty:
        return init
    return Init(init.kind, int(tile.rows), int(tile.cols), init.dtype, init.value)


def _pack(work: Rewrite, op: Accum) -> None:
    """Packed tiles: their pieces in the order of the result, with small ones joined."""
    (x,) = op.inputs
    by_rows = op.fn.packs == "rows"
    inner = x.shape[len(x.shape) - op.rank :]
    result = op.results()[0]
    side = result.rows if by_rows else result.cols
    goal = work.sides.block(result)
    if not all(d.is_static for d in inner):
        raise Refusal(
            f"packs {side} {op.fn.packs} whose number is known only at run time; choose a static "
            "tile, with reshape(rows, pad=0) before it"
        )
    tile, block = work.tile(x, "elements")
    packed = int(np.prod([int(d) for d in inner], dtype=np.int64))
    small = work.sides.tile(tile)
    own = int(small.rows if by_rows else small.cols)
    big = int(work.sides.tile(result).rows if by_rows else work.sides.tile(result).cols)
    if big % own:
        raise Refusal(
            f"packs pieces of {own} {op.fn.packs} into pieces of {big}; choose tiles of "
            f"{work.sides.rows if by_rows else work.sides.cols}"
        )
    pieces = work.new(x) if work.block(x) is not None else work.new(x).unsqueeze(0).unsqueeze(0)
    if op.rank > 1:
        pieces = pieces.flatten(2, 1 + op.rank)
    if by_rows:
        made = _pack_rows(work, op, pieces, block.cols, big // own)
    else:
        made = _pack_cols(work, op, pieces, packed, block, big // own)
    made_block = work.sides.of(result)
    assert goal.count
    work.put(op.outputs[0], made.flatten(0, 2) if made_block is None else made, made_block)


def _pack_rows(work: Rewrite, op: Accum, pieces: Stream, cols: int, each: int) -> Stream:
    """``[.., packed, r, c]`` to ``[.., packed * r / each, c]``."""
    made = pieces.flatten(1, 2)
    if each == 1:
        return made
    made = made.reshape(each, dim=1)
    if cols > 1:
        made = work.reordered(made, 2, (cols, each), (1, cols))
    else:
        made = made.flatten(0, 1).unsqueeze(1)
    return accum(made, op.fn, 1, compute_bw=op.compute_bw, write_back=op.write_back, label=op.label)


def _pack_cols(
    work: Rewrite, op: Accum, pieces: Stream, packed: int, block: Block, each: int
) -> Stream:
    """``[.., packed, r, c]`` to ``[.., r, packed * c / each]``."""
    rows, cols = block.rows, block.cols
    if rows == 1:
        made = pieces.flatten(1, 2).flatten(0, 1).unsqueeze(1)
    else:
        walk = (rows, packed, cols), (cols, block.count, 1)
        made = work.reordered(pieces, 3, *walk).flatten(0, 1)
    if each == 1:
        return made
    made = made.reshape(each)
    return accum(made, op.fn, 1, compute_bw=op.compute_bw, write_back=op.write_back, label=op.label)


@rule(RowStat)
def row_stat_rule(work: Rewrite, op: RowStat) -> None:
    """The pieces of each row in turn, through a buffer if there are several rows of pieces."""
    (x,) = op.inputs
    block, out = work.block(x), op.outputs[0]
    if block is None:
        return work.take_over(op)
    pieces = work.new(x)
    options: dict[str, Any] = {
        "compute_bw": op.compute_bw, "write_back": op.write_back, "label": op.label,
    }  # fmt: skip
    rank = op.rank
    if block.rows > 1:
        inner = x.shape[len(x.shape) - rank :]
        if not all(d.is_static for d in inner):
            raise Refusal("reduces rows of several pieces over a dim known only at run time")
        sizes = [int(d) for d in inner]
        steps = _row_major([*sizes, block.rows, block.cols])
        order = [len(sizes), *range(len(sizes)), len(sizes) + 1]
        every = [*sizes, block.rows, block.cols]
        pieces = work.reordered(
            pieces, rank + 2, [every[i] for i in order], [steps[i] for i in order]
        )
        made = row_stat(pieces, op.stat, rank + 1, op.count, **options)
        return work.put(out, made.unsqueeze(0), work.sides.of(out.type))
    made = row_stat(pieces, op.stat, rank + 2, op.count, **options)
    own = work.sides.of(out.type)
    return work.put(out, made if own is None else made.unsqueeze(0).unsqueeze(0), own)


def _row_major(sizes: Sequence[int]) -> list[int]:
    return [int(np.prod(sizes[i + 1 :], dtype=np.int64)) for i in range(len(sizes))]


@rule(AccumBuffer)
def accum_buffer_rule(work: Rewrite, op: AccumBuffer) -> None:
    """Each place of the buffer holds pieces."""
    (x,) = op.inputs
    block = work.block(x)
    if block is None:
        return work.take_over(op)
    if not (op.fn.standard and op.fn.name in ELEMENTWISE):
        raise Refusal(f"accumulates with '{op.fn}', which is not known to work on pieces")
    if work.sides.of(buffer_of(op.outputs[0]).tile) != block:
        raise Refusal("has states of a different size from its elements")
    made = accum_buffer(
        work.new(x), op.fn, op.rank + 2, op.kept + 2, _inits(work, op),
        compute_bw=op.compute_bw, write_back=op.write_back, label=op.label,
    )  # fmt: skip
    return work.put(op.outputs[0], made, None)
