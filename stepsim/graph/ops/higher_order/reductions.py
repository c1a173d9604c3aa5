"""Accum and map-accum: reductions of inner dims with a function (STeP paper, table 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from stepsim.frozen import NamedTuple, keyword_record
from stepsim.graph.accumulation import Init, Inits, accum_result, inits_of
from stepsim.graph.functions.function import Function, accumulating, on_whole_numbers
from stepsim.graph.functions.inference import operand_tiles
from stepsim.graph.handle import Padding, SplitPadding
from stepsim.graph.operator import Bindings, Output, Site
from stepsim.graph.ops.higher_order.compute import (
    Compute,
    check_function,
    infer,
    matmul_buffers,
    setting_of,
)
from stepsim.graph.ops.higher_order.operands import element_of, no_buffers, padding_of, spread
from stepsim.graph.sizes.shapes import cardinality
from stepsim.graph.sizes.sizes import Size
from stepsim.graph.types import Tile

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream


@keyword_record
class Reduction(Compute):
    """Keeps one or several state tiles over the ``rank`` inner dims."""

    fn: Function
    rank: int
    init: Init | tuple[Init, ...]
    compute_bw: int | None
    write_back: bool

    @property
    def inits(self) -> tuple[Init, ...]:
        return self.init if isinstance(self.init, tuple) else (self.init,)

    @property
    def function(self) -> Function:
        applied = accumulating(super().function, len(self.operands()))
        assert applied is not None
        return applied

    @property
    def charges_compute(self) -> bool:  # type: ignore[override]
        return bool(self.function.flops)

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {
            "fn": self.record(),
            "bw": self.stated_bw(),
            "rank": self.rank,
            "init": [
                [init.rows, init.cols, out.dtype.element_bytes]
                for init, out in zip(self.inits, self.results(), strict=True)
            ],
            "wb": self.write_back,
        }


@keyword_record
class Accum(Reduction):
    """Reduces the ``rank`` inner dims with a function."""

    name: ClassVar[str] = "accum"
    unit_kind: ClassVar[str] = "Accum"

    def memory(self, accounting: Accounting) -> Size:
        total = accounting.type_bytes(self.outputs[0].type)
        if accounting.count_fifos and accounting.counting != "published2":
            total += accounting.type_bytes(self.inputs[0].type)
        return total


@keyword_record
class MapAccum(Reduction):
    """Applies a function to two streams and accumulates the results."""

    name: ClassVar[str] = "map_accum"
    unit_kind: ClassVar[str] = "BinaryMapAccum"

    def memory(self, accounting: Accounting) -> Size:
        out = accounting.type_bytes(self.outputs[0].type)
        first = accounting.type_bytes(self.inputs[0].type)
        if accounting.by_paper:
            fifos = 3 * first if accounting.count_fifos else 0
            return matmul_buffers(self, accounting, in_bytes=True) + out + fifos
        if not accounting.count_fifos:
            return out
        if accounting.counting == "published2":
            return matmul_buffers(self, accounting, in_bytes=False) + out
        return 3 * first


def accum(
    x: Stream,
    fn: Function,
    rank: int,
    init: Inits | None = None,
    *,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Reduce the inner dims of a stream with a function.

    Accum of the STeP paper (table 6). The state starts from ``init``, by default that of the
    function, and is sent when a group ends. There are three kinds of functions: one with states
    takes the states and the element; one with one more operand than the element has folds, and its
    first operand is the state (``fn.add``, ``fn.max``); and the results of one that takes all
    members of a tuple are added up (``fn.matmul`` of a zip).

    Shape
    -----
    ``x.shape`` without its ``rank`` inner dims. The tile is the state, or a tuple of the states:
    for elementwise functions it is that of the input, for packing it has the rows (or columns) of
    all reduced dims, which may be dynamic.

    Parameters
    ----------
    x : stream of tiles, or of tuples of tiles.
    fn : a function that accumulates, such as ``fn.add`` or ``fn.pack_rows``, or one with states.
    rank : number of inner dims to reduce, from 1; they may be dynamic or ragged.
    init : initial state, of ``fn.zero``, ``fn.one``, ``fn.full``, ``fn.neg_infinity`` or
        ``fn.empty``, or a tuple of them; by default that of the function: zeros, ones for
        ``fn.mul``, minus infinity for ``fn.max``. Functions of ``st.function`` need it, unless
        their results are added up.
    compute_bw : FLOPs per cycle; by default that of the program.
    write_back : whether results go to on-chip memory; a packed tile stays where its last part was.
    label : name in reports and messages.

    Fires
    -----
    Once for each element: ``max(load, compute)`` cycles as in :func:`map`, with ``write_back`` plus
    the store of the initial state at the last one of a group. Packing computes in 0 cycles.

    FLOPs
    -----
    Those of the function for each element; packing has none.

    Memory
    ------
    One tile of each state; a ragged side counts with its bound.

    Raises
    ------
    ArgError : ``fn`` does not accumulate such elements, or is a user function without ``init``.
    RankError : ``rank`` is not within 1 and the rank of ``x``.
    DTypeError : the states do not fit the tiles.
    DimError : the sides of states and tiles are not known to fit.

    Example
    -------
    >>> with st.Program("sums", compute_bw=64) as program:
    ...     x = st.linear_load(np.arange(6, dtype="f4").reshape(2, 3), tile=(1, 1))  # [2, 3]
    ...     sums = st.accum(x, st.fn.add, rank=1)
    ...     out = st.linear_store(sums, "out")
    >>> sums
    Stream[2] of Tile[1x1 f32] <- add#1
    >>> print(run_functional(program).stored["out"].ravel())
    [ 3. 12.]
    """
    options = (compute_bw, write_back)
    site, made, found = reduced("accum", (x,), fn, rank, init, options, label)
    shape = x.shape[: len(x.shape) - made["rank"]]
    outs = found.outs
    if any(d.is_ragged for d in x.shape[len(shape) :]):
        outs = tuple(_uneven(site, found.tiles, out, cardinality(shape)) for out in outs)
    return site.add(Accum(**made), [Output(shape, element_of(outs), None, found.padding)])[0]


def _uneven(site: Site, tiles: Sequence[Tile], out: Tile, span: Size) -> Tile:
    """Types of results of groups of different lengths, whose sums of sides are known at run
    time."""
    old = [side for tile in tiles for side in (tile.rows, tile.cols)]
    why = f"results of {site.title}"
    sides = [s.counted_anew(span, why) if s in old else s for s in (out.rows, out.cols)]
    return Tile(out.dtype, *sides)


def _states(site: Site, out: Tile, span: Size) -> Tile:
    """States of tiles of different sizes, broadcasting those of one row or column."""
    sides = [
        site.owner.namer.ragged("r", f"sizes of {site.title}", bound=side.most, span=span)
        if side.is_ragged
        else side
        for side in (out.rows, out.cols)
    ]
    return Tile(out.dtype, *sides)


class Made(TypedDict):
    """The checked arguments of an accumulation."""

    fn: Function
    rank: int
    init: Init | tuple[Init, ...]
    compute_bw: int | None
    write_back: bool


class Found(NamedTuple):
    """The checked operands and results of an accumulation."""

    tiles: list[Tile]
    outs: tuple[Tile, ...]
    padding: Padding | SplitPadding | None


def reduced(
    name: str,
    xs: tuple[Stream, ...],
    fn: Function,
    rank: int,
    init: Inits | None,
    options: tuple[int | None, bool],
    label: str | None,
    beside: Sequence[tuple[str, Stream]] = (),
    *,
    from_zero: bool = False,
) -> tuple[Site, Made, Found]:
    """Check the arguments of an accumulation; streams ``beside`` its elements are also inputs.

    ``from_zero``: ``fn`` is not a user's function, and starts from zeros.
    """
    roles = [role for role, _ in beside]
    given_roles = ["in", *roles] if len(xs) == 1 else ()
    site = Site(name, (*xs, *(s for _, s in beside)), label, given_roles, fn)
    types, owners = spread(site, xs)
    if isinstance(fn, Function):
        fn = on_whole_numbers(fn, types)
    applied = accumulating(fn, len(types)) if isinstance(fn, Function) else None
    compute_bw = check_function(site, fn, options[0], applied, _place(fn, name, len(types)))
    assert applied is not None
    write_back = site.flag("write_back", options[1])
    # The results of a function without states that takes all tiles of an element are added up.
    start_known = from_zero or fn.standard or len(types) == fn.arity
    given: tuple[Init, ...] | None = infer(site, lambda: inits_of(applied, init, start_known))
    no_buffers(site, *site.inputs)
    rank = site.rank_at_least(xs[0], rank)
    if len(xs) > 1:
        site.same_dims(xs[0].shape, xs[1].shape, "in1", "in2")
    tiles: list[Tile] = infer(site, lambda: operand_tiles(applied, types))
    setting = setting_of(site, xs[0])
    outs, starts = infer(site, lambda: accum_result(applied, tiles, xs[0], rank, given, setting))
    left = xs[0].shape if name == "scan" else xs[0].shape[: len(xs[0].shape) - rank]
    if applied.shape.broadcast:
        outs = tuple(_states(site, out, cardinality(left)) for out in outs)
    made: Made = {
        "fn": fn, "rank": rank, "init": starts[0] if len(starts) == 1 else starts,
        "compute_bw": compute_bw, "write_back": write_back,
    }  # fmt: skip
    padding = xs[0].padding if fn.packs is not None else padding_of(applied, owners, tiles, outs)
    return site, made, Found(tiles, outs, padding)


_PLACES = {
    "accum": "an accumulation",
    "accum_buffer": "an accumulation in a buffer",
    "map_accum": "a map-accumulate",
    "row_stat": "an accumulation",
    "scan": "a scan",
}


def _place(fn: object, name: str, elements: int) -> str:
    """The message if a function cannot accumulate elements of this many tiles."""
    where = _PLACES[name]
    if not isinstance(fn, Function):
        return where
    what = "single tiles" if elements == 1 else f"{elements} tiles at a time"
    if fn.shape.states:
        return f"{where} of {what}: {fn.shape.text} takes {fn.elements}"
    if fn.transposes is not None and elements == 1:
        return f"{where} of {what}; zip two streams or use map_accum for matmuls"
    return (
        f"{where} of {what}: {fn.shape.text}. It takes a state and the element, or all tiles of a "
        "pair; st.function makes one with states"
    )


def map_accum(
    fn: Function,
    a: Stream,
    b: Stream,
    rank: int,
    init: Inits | None = None,
    *,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Apply a function to two streams and accumulate over the inner dims.

    Accum of the STeP paper (table 6) with a function on a zipped stream; its simulator calls it
    BinaryMapAccum. With ``fn.matmul`` it is the inner loop of a tiled matrix product. The results
    of a function of the two elements are added up; one with states, or with one more operand, takes
    the states and both elements.

    Shape
    -----
    ``a.shape`` without its ``rank`` inner dims; the tile is the result of the function, or its
    states.

    Parameters
    ----------
    fn : a function of two tiles, such as ``fn.matmul``, ``fn.matmul_t`` or ``fn.mul``, or one with
        states.
    a : stream of first operands.
    b : stream of second operands, of the shape of ``a``.
    rank : number of inner dims to add up, from 1.
    init : initial state or states; by default zeros, or the first result if its size is dynamic.
        A function of ``st.function`` with states must be given them.
    compute_bw : FLOPs per cycle; by default that of the program.
    write_back : whether results go to on-chip memory.
    label : name in reports and messages.

    Fires
    -----
    Once for each pair: ``max(load, compute)`` cycles as in :func:`map`, with ``write_back`` plus
    the store of the initial state at the last one of a group.

    FLOPs
    -----
    Those of the function for each pair. Adding up is free for products of matrices, and one FLOP
    per scalar for others.

    Memory
    ------
    One tile of the result; for products of matrices ``16 * columns`` scalars of the first operand
    and the tile of the second as well.

    Raises
    ------
    ArgError : ``fn`` does not take two elements, or is a user function with states but without
        ``init``.
    RankError : ``rank`` is not within 1 and the rank of the inputs.
    DTypeError : the states or the tiles do not fit.
    DimError : the shapes, or the sides of the tiles, are not known to fit.

    Example
    -------
    >>> with st.Program("inner product", compute_bw=64) as program:
    ...     a = st.linear_load(np.ones((2, 6), "f4"), tile=(2, 3))  # [1, 2]
    ...     b = st.linear_load(np.ones((6, 2), "f4"), tile=(3, 2), shape=(1, 2), stride=(0, 1))
    ...     c = st.map_accum(st.fn.matmul, a, b, rank=1)
    ...     out = st.linear_store(c, "out")
    >>> c
    Stream[1] of Tile[2x2 f32] <- matmul#2
    >>> print(run_functional(program).stored["out"], program.metrics().flops)
    [[6. 6.]
     [6. 6.]] 48
    """
    options = (compute_bw, write_back)
    site, made, found = reduced("map_accum", (a, b), fn, rank, init, options, label)
    shape = a.shape[: len(a.shape) - made["rank"]]
    outs = found.outs
    if any(d.is_ragged for d in a.shape[len(shape) :]):
        why = f"results of {site.title}"
        outs = tuple(out.counted_anew(cardinality(shape), why) for out in outs)
    return site.add(MapAccum(**made), [Output(shape, element_of(outs), None, found.padding)])[0]
