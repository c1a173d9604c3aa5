"""Rules of matrix products: which pieces are multiplied, in which order, and where sums are
kept."""

from __future__ import annotations

from typing import Any

from stepsim.graph.accumulation import Init
from stepsim.graph.functions.function import Function
from stepsim.graph.ops.higher_order.group_results import accum_buffer
from stepsim.graph.ops.higher_order.maps import Map
from stepsim.graph.ops.higher_order.reductions import MapAccum, map_accum
from stepsim.graph.ops.shape.levels import zip_
from stepsim.graph.rewrites.downtile.blocks import Refusal
from stepsim.graph.rewrites.downtile.site import Rewrite
from stepsim.graph.stream import Stream


def is_product(fn: Function) -> bool:
    """Whether a function is a product of two matrices."""
    return fn.transposes is not None


class _Operands:
    """The pieces of both operands: ``m`` down, ``n`` across, ``k`` to be summed over."""

    def __init__(self, work: Rewrite, op: Map | MapAccum) -> None:
        assert op.fn.transposes is not None
        self.work = work
        self.first, self.second = op.inputs
        self.a_turned, self.b_turned = op.fn.transposes
        (ta, a), (tb, b) = (work.tile(x, "operands") for x in op.inputs)
        pa, pb = work.sides.tile(ta), work.sides.tile(tb)
        inner_a = pa.rows if self.a_turned else pa.cols
        inner_b = pb.cols if self.b_turned else pb.rows
        if inner_a != inner_b:
            raise Refusal(
                f"multiplies pieces of {pa.rows}x{pa.cols} by {pb.rows}x{pb.cols}, whose inner "
                "sides differ; choose hardware tiles of as many rows as columns"
            )
        self.m, self.k = (a.cols, a.rows) if self.a_turned else (a.rows, a.cols)
        self.n = b.rows if self.b_turned else b.cols

    def pieces(self, x: Stream) -> Stream:
        """The new stream of an operand; single scalars get the two dims of their one piece."""
        made = self.work.new(x)
        return made if self.work.block(x) is not None else made.unsqueeze(0).unsqueeze(0)

    @property
    def a_steps(self) -> tuple[int, int]:
        """Steps of m and k in a block of the first operand."""
        return (1, self.m) if self.a_turned else (self.k, 1)

    @property
    def b_steps(self) -> tuple[int, int]:
        """Steps of n and k in a block of the second operand."""
        return (self.k, 1) if self.b_turned else (1, self.n)

    def sums_inside(self) -> tuple[Stream, Stream]:
        """Both operands in the order ``m, n, k``.

        A row of the first operand is read again for each column of the result, and the block of the
        second for each row, as in the hardware.
        """
        a, b = self.pieces(self.first), self.pieces(self.second)
        m, n, k = self.m, self.n, self.k
        if self.a_turned and m > 1 and k > 1:
            step_m, step_k = self.a_steps
            a = self.work.reordered(a, 2, (m, n, k), (step_m, 0, step_k))
        else:
            if self.a_turned:
                a = _as(a, m, k)
            a = a.unsqueeze(1) if n == 1 else a.bufferize(1).streamify(repeat=n)
        if (self.b_turned or n == 1 or k == 1) and m == 1:
            b = (b if self.b_turned else _as(b, n, k)).unsqueeze(2)
        elif self.b_turned:
            b = b.bufferize(2).streamify(repeat=m)
        else:
            step_n, step_k = self.b_steps
            b = self.work.reordered(b, 2, (m, n, k), (0, step_n, step_k))
        return a, b

    def sums_outside(self) -> tuple[Stream, Stream]:
        """Both operands in the order ``k, m, n``, for sums of whole blocks."""
        a, b = self.pieces(self.first), self.pieces(self.second)
        shape = (self.k, self.m, self.n)
        step_m, step_k = self.a_steps
        a = self.work.reordered(a, 2, shape, (step_k, step_m, 0))
        step_n, step_k = self.b_steps
        b = self.work.reordered(b, 2, shape, (step_k, 0, step_n))
        return a, b


def _as(x: Stream, rows: int, cols: int) -> Stream:
    """A block with one row or column, viewed as ``rows x cols`` in the same order."""
    if x.dim(1) == rows and x.dim(0) == cols:
        return x
    x = x.flatten(0, 1)
    return x.unsqueeze(1) if rows == 1 else x.unsqueeze(0)


def _finish(work: Rewrite, op: Map | MapAccum, made: Stream) -> None:
    """Return sums ``[.., m, n]`` as the result."""
    out = op.outputs[0]
    block = work.sides.of(out.type)
    work.put(out, made.flatten(0, 2) if block is None else made, block)


def product(work: Rewrite, op: Map) -> None:
    """A map of products: every result piece is the sum of ``k`` products of pieces."""
    a, b = _Operands(work, op).sums_inside()
    made = map_accum(
        op.fn, a, b, 1, compute_bw=op.compute_bw, write_back=op.write_back, label=op.label
    )
    _finish(work, op, made)


def _start(work: Rewrite, op: MapAccum) -> Init | None:
    """The state of a piece."""
    (init,) = op.inits
    if init.is_empty:
        return None
    tile = work.sides.tile(op.results()[0])
    return Init(init.kind, int(tile.rows), int(tile.cols), init.dtype, init.value)


def summed_product(work: Rewrite, op: MapAccum) -> None:
    """Products that are summed over outer dims as well.

    There is one sum if each is of one element; otherwise the sums of a block are kept in a buffer
    and ``k`` is moved outside, so that the places of the buffer are updated in turn and no FLOP is
    counted twice.
    """
    operands = _Operands(work, op)
    (init,) = op.inits
    if not init.is_empty and init.value != 0:
        raise Refusal(f"starts its sums from {init}; there is a rule for zeros only")
    outer = op.inputs[0].shape[len(op.inputs[0].shape) - op.rank :]
    options: dict[str, Any] = {
        "compute_bw": op.compute_bw,
        "write_back": op.write_back,
        "label": op.label,
    }
    start = _start(work, op)
    if all(d.is_one() for d in outer):
        a, b = operands.sums_inside()
        made = map_accum(op.fn, a, b, 1, start, **options)
        made = made.flatten(1, 1 + op.rank)
    elif operands.m == operands.n == 1:
        a, b = operands.sums_inside()
        made = map_accum(op.fn, a, b, op.rank + 3, start, **options)
        made = made.unsqueeze(0).unsqueeze(0)
    else:
        a, b = operands.sums_outside()
        pairs = zip_(a, b, label=op.label)
        made = accum_buffer(pairs, op.fn, op.rank + 3, 2, start, **options).streamify()
    _finish(work, op, made)
