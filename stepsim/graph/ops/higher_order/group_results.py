"""Reductions whose output is not just their state: row statistics, accumulations in a buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from stepsim.arguments import shown
from stepsim.errors import ArgError, DTypeError, KindError, RankError
from stepsim.frozen import keyword_record
from stepsim.graph.accumulation import Init
from stepsim.graph.functions.function import Function
from stepsim.graph.functions.polynomial import Polynomial
from stepsim.graph.functions.shape import Shape
from stepsim.graph.operator import Bindings, Output
from stepsim.graph.ops.higher_order.compute import flops_over
from stepsim.graph.ops.higher_order.reductions import Reduction, reduced
from stepsim.graph.ops.higher_order.scans import sized_states
from stepsim.graph.sizes.limits import COUNT
from stepsim.graph.sizes.shapes import cardinality, format_dims
from stepsim.graph.sizes.sizes import Size
from stepsim.graph.types import Buffer, Tile

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream


def _sums(weight: int) -> Function:
    shape = Shape.parse("row_stat", "m 1; m n -> m 1")
    return Function("row_stat", shape, Polynomial.of("m", "n", times=weight))


def _finish(weight: int) -> Function:
    shape = Shape.parse("row_stat", "m 1 -> m 1")
    return Function("row_stat", shape, Polynomial.of("m", times=weight))


_STATS: Final = {"mean": (_sums(1), _finish(1)), "var": (_sums(3), _finish(4))}
"""The work of a statistic for every element, and for the last one of a group."""


@keyword_record
class RowStat(Reduction):
    """Mean or variance of the rows of all tiles of a group."""

    name: ClassVar[str] = "row_stat"
    unit_kind: ClassVar[str] = "AccumRowStat"
    stat: str
    count: int | None

    def flops(self) -> Size:
        sums, finish = _STATS[self.stat]
        (x,), (out,) = self.operands(), self.results()
        parts = [
            flops_over(sums, [out, x], [out], self.inputs[0].cardinality()),
            flops_over(finish, [out], [out], self.outputs[0].cardinality()),
        ]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else self.program.flops_of(self)

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        (out,) = self.results()
        finish = _STATS[self.stat][1].record((out.dtype,), (out.dtype,))
        return super().unit_params(bindings) | {"finish": finish}

    def memory(self, accounting: Accounting) -> Size:
        sums = 1 if self.stat == "mean" else 2
        held = accounting.type_bytes(self.outputs[0].type) * sums
        return held + (accounting.type_bytes(self.inputs[0].type) if accounting.count_fifos else 0)


def row_stat(
    x: Stream,
    stat: str,
    rank: int,
    count: int | None = None,
    *,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Mean or variance of each row, over the columns and the ``rank`` inner dims.

    AccumRowStat of the public simulator of 2026. The variance divides by the number of scalars n,
    not by n - 1. Padding columns do not count; rows that are padding in the last tile of a group
    are padding in the result.

    Shape
    -----
    ``in.shape`` without its ``rank`` inner dims; tiles of ``rows x cols`` become ``rows x 1``.

    Parameters
    ----------
    x : stream of tiles to compute with.
    stat : ``"mean"`` or ``"var"``.
    rank : inner dims that are reduced.
    count : scalars of a row to divide by; None: their number in each group of the run.
    compute_bw : FLOPs per cycle; by default that of the program.
    write_back : whether results go to on-chip memory; each is stored.
    label : name in reports and messages.

    Fires
    -----
    Per element ``max(load, ceil(m*n / compute_bw))`` cycles, three times the FLOPs for a variance;
    the last of a group takes ``ceil(m / compute_bw)`` more (``4*m`` for a variance) and at least
    the store of the result, with ``write_back``.

    FLOPs
    -----
    ``m*n`` per element and ``m`` per group for a mean, ``3*m*n`` and ``4*m`` for a variance.

    Memory
    ------
    One result for each sum (two for a variance), and one element.

    Raises
    ------
    ArgError : there is no such statistic, or count is not an int from 1.
    DTypeError : ``x`` carries no tiles to compute with.

    Example
    -------
    >>> with st.Program(compute_bw=64) as p:
    ...     x = st.linear_load(np.ones((8, 8), np.float32), (4, 8))
    ...     x.row_stat("var", 1).consume()
    >>> p.metrics().flops
    224
    """
    sums = _STATS[stat][0] if isinstance(stat, str) and stat in _STATS else _STATS["mean"][0]
    options = (compute_bw, write_back)
    site, made, found = reduced("row_stat", (x,), sums, rank, None, options, label, from_zero=True)
    site.require(
        isinstance(stat, str) and stat in _STATS, ArgError,
        f"stat must be one of {', '.join(map(repr, _STATS))}, found {shown(stat)}",
    )  # fmt: skip
    if count is not None:
        count = site.number(COUNT, "count", count)
    shape = x.shape[: len(x.shape) - made["rank"]]
    (out,) = found.outs
    if any(d.is_ragged for d in x.shape[len(shape) :]):
        out = out.counted_anew(cardinality(shape), f"results of {site.title}")
    op = RowStat(**made, stat=stat, count=count)
    return site.add(op, [Output(shape, out, None, found.padding)])[0]


@keyword_record
class AccumBuffer(Reduction):
    """Accumulates elementwise into the places of an on-chip buffer."""

    name: ClassVar[str] = "accum_buffer"
    unit_kind: ClassVar[str] = "AccumBuffer"
    kept: int

    def buffer(self) -> Buffer:
        kind = self.outputs[0].type
        assert isinstance(kind, Buffer)
        return kind

    def results(self) -> list[Tile]:
        return [self.buffer().tile]

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        dims = [int(dim) for dim in self.buffer().dims]
        return super().unit_params(bindings) | {"dims": dims}

    def memory(self, accounting: Accounting) -> Size:
        element = accounting.type_bytes(self.inputs[0].type) if accounting.count_fifos else 0
        return element + 2 * accounting.type_bytes(self.outputs[0].type)


def accum_buffer(
    x: Stream,
    fn: Function,
    rank: int,
    kept: int = 1,
    init: Init | None = None,
    *,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Accumulate subtensors elementwise, in a buffer of the size of one subtensor.

    AccumBuffer of the public simulator of 2026. Of the ``rank`` inner dims the ``kept`` innermost
    ones are the dims of the buffer; the others are reduced. ``streamify`` reads the buffers.

    Shape
    -----
    ``in.shape`` without its ``rank`` inner dims, of buffers of the ``kept`` innermost dims.

    Parameters
    ----------
    x : stream of tiles, or of tuples of tiles.
    fn : a function with one state, or one that folds, as in ``accum``.
    rank : inner dims that belong to a buffer, including the reduced ones.
    kept : number of them, from the innermost, that are dims of the buffer; constant.
    init : the state of each place before its first element; None: the default of ``fn``.
    compute_bw : FLOPs per cycle; None is that of the program.
    write_back : whether readers of the tiles in the buffers load them from on-chip memory.
    label : name in reports and messages.

    Fires
    -----
    Per element ``max(load of its place + load of the element, ceil(FLOPs / compute_bw) + cycles of
    fn, store of its place)`` cycles; places are loaded and stored regardless of ``write_back``.

    FLOPs
    -----
    Those of ``fn``, for every element.

    Memory
    ------
    Two buffers, one being filled and one being read, and one element.

    Raises
    ------
    ArgError : ``fn`` does not accumulate single elements, packs them, or has several states.
    RankError, KindError : ``kept`` is not from 1 to ``rank``, or such a dim is not constant.
    DTypeError : tiles have no constant size, or ``init`` has a different size from the results.

    Example
    -------
    >>> with st.Program(compute_bw=64) as p:
    ...     x = st.linear_load(np.ones((8, 16), np.float32), (4, 8))
    ...     sums = x.promote().accum_buffer(st.fn.add, 2)
    ...     sums.streamify().consume()
    >>> print(sums.type)
    Buffer[2 of Tile[4x8 f32]]
    """
    options = (compute_bw, write_back)
    site, made, found = reduced("accum_buffer", (x,), fn, rank, init, options, label)
    site.require(
        len(found.outs) == 1 and fn.packs is None, ArgError,
        f"'{fn}' {'packs tiles' if fn.packs else 'has several states'}; each place of a buffer "
        "holds one tile of one size",
    )  # fmt: skip
    rank = made["rank"]
    kept = site.number(COUNT, "kept", kept)
    site.require(kept <= rank, RankError, f"kept must be from 1 to rank = {rank}, found {kept}")
    dims = x.shape[len(x.shape) - kept :]
    site.require(
        all(d.is_static and d != 0 for d in dims),
        KindError,
        f"the dims of a buffer are constants, found {format_dims(dims)}",
        "keep fewer dims, or reshape the stream",
    )
    (out,) = found.outs
    site.require(out.is_static, DTypeError, f"a buffer holds tiles of a constant size, found {out}")
    start = made["init"]
    if not (isinstance(start, Init) and start.is_empty):
        sized_states(site, made, (out,), "each place of the buffer has a state")
    shape = x.shape[: len(x.shape) - rank]
    op = AccumBuffer(**made, kept=kept)
    return site.add(op, [Output(shape, Buffer(out, dims), None, found.padding)])[0]
