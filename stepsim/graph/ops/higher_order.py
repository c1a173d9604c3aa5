"""Higher-order operators: map, accum, map-accum, scan (STeP paper, table 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from stepsim.arguments import shown
from stepsim.errors import ArgError, DTypeError, LoweringError
from stepsim.graph.accumulation import Init, accum_result, is_dynamic, map_accum_init
from stepsim.graph.dims import Dim, cardinality
from stepsim.graph.functions import Function, append_row, set_offset
from stepsim.graph.handle import Padding, SplitPadding, blurred
from stepsim.graph.operator import Bindings, Output, Site
from stepsim.graph.ops.compute import (
    Compute,
    check_function,
    fifo_bytes,
    infer,
    matmul_buffers,
    same_sizes,
)
from stepsim.graph.sizes import Size
from stepsim.graph.types import Buffer, ElementType, Tile, TupleType
from stepsim.plugins import usable

if TYPE_CHECKING:
    from stepsim.graph.metrics import Accounting
    from stepsim.graph.stream import Stream

__all__ = ["Accum", "Map", "MapAccum", "Scan", "accum", "map_", "map_accum", "scan"]


@dataclass(eq=False, kw_only=True)
class Map(Compute):
    """Applies a function to the elements of one or two streams."""

    name: ClassVar[str] = "map"
    charges_compute: ClassVar[bool] = True
    fn: Function
    compute_bw: int | None
    write_back: bool

    @property
    def unit_kind(self) -> str:  # type: ignore[override]
        return "UnaryMap" if len(self.inputs) == 1 else "BinaryMap"

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        params: dict[str, Any] = {"bw": self.unit_bw(), "wb": self.write_back}
        unit = self.fn.map_unit
        self._check_offered()
        if self.fn.arity == 1:
            return params | {"fn": unit}
        if unit == "Matmul" and any(is_dynamic(t) for t in self.operands()):
            unit = "DynMatmul"
        params["fn"] = [unit, self.fn.transposed]
        if self.fn.stride is not None:
            params["stride"] = self.fn.stride
        return params | self.result_width()

    def _check_offered(self) -> None:
        """Refuse sizes other than those that the engine has compiled under the function's name."""
        mine = self.fn
        if mine.sizes is None:
            return
        for plugin in usable("stepsim.functions"):
            other = plugin.loaded
            if not isinstance(other, Function) or other.map_unit != mine.map_unit:
                continue
            if (other.sizes, other.constant_cycles) != (mine.sizes, mine.constant_cycles):
                raise LoweringError(
                    f"{self.title()}: function {mine.name} is not the '{mine.map_unit}' of package "
                    f"{plugin.package}, whose sizes= the engine would use; give it another name "
                    f"({self.source})"
                )
            return

    def memory(self, account: Accounting) -> Size:
        matmul = self.fn.map_unit == "Matmul" and len(self.inputs) == 2
        out = account.type_bytes(self.outputs[0].type)
        if account.by_paper:
            total = matmul_buffers(self, account, in_bytes=True) if matmul else 0
            return total + (fifo_bytes(account, *self.inputs) + out if account.count_fifos else 0)
        if not account.count_fifos:
            return 0
        if account.counting == "published2":
            return matmul_buffers(self, account, in_bytes=False) + out if matmul else 0
        return fifo_bytes(account, *self.inputs) + out


@dataclass(eq=False, kw_only=True)
class _Reduction(Compute):
    """Keeps one state tile while the ``rank`` inner dims pass."""

    fn: Function
    rank: int
    init: Init
    compute_bw: int | None
    write_back: bool

    def unit_fn(self) -> Any:
        """The function, in the vocabulary of the engine."""
        return self.fn.accum_unit

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        out = self.outputs[0].type
        assert isinstance(out, Tile)
        return {
            "fn": self.unit_fn(),
            "bw": self.unit_bw(),
            "rank": self.rank,
            "init": [self.init.rows, self.init.cols],
            "bpe": out.dtype.element_bytes,
            "wb": self.write_back,
        }


@dataclass(eq=False, kw_only=True)
class Accum(_Reduction):
    """Reduces the ``rank`` inner dims with a function."""

    name: ClassVar[str] = "accum"
    unit_kind: ClassVar[str] = "Accum"

    @property
    def charges_compute(self) -> bool:  # type: ignore[override]
        return self.fn.cost is not None

    def memory(self, account: Accounting) -> Size:
        total = account.type_bytes(self.outputs[0].type)
        if account.count_fifos and account.counting != "published2":
            total += account.type_bytes(self.inputs[0].type)
        return total


@dataclass(eq=False, kw_only=True)
class Scan(Accum):
    """Like accum, but shows the state after every element."""

    name: ClassVar[str] = "scan"
    unit_kind: ClassVar[str] = "Scan"


@dataclass(eq=False, kw_only=True)
class MapAccum(_Reduction):
    """Multiplies two streams of matrices and accumulates the products."""

    name: ClassVar[str] = "map_accum"
    unit_kind: ClassVar[str] = "BinaryMapAccum"
    charges_compute: ClassVar[bool] = True

    def unit_fn(self) -> Any:
        dynamic = self.init.kind == "empty" or any(is_dynamic(t) for t in self.operands())
        return ["DynMatmul" if dynamic else "Matmul", self.fn.transposed]

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return super().unit_params(bindings) | self.result_width()

    def memory(self, account: Accounting) -> Size:
        out = account.type_bytes(self.outputs[0].type)
        first = account.type_bytes(self.inputs[0].type)
        if account.by_paper:
            fifos = 3 * first if account.count_fifos else 0
            return matmul_buffers(self, account, in_bytes=True) + out + fifos
        if not account.count_fifos:
            return out
        if account.counting == "published2":
            return matmul_buffers(self, account, in_bytes=False) + out
        return 3 * first


def _no_buffers(site: Site, *streams: Stream) -> None:
    for role, stream in zip(site.roles, streams, strict=True):
        site.require_type(
            not isinstance(stream.type, Buffer), role, stream, "tiles, not buffers",
            "streamify the buffer first",
        )  # fmt: skip


def _padding(fn: Function, inputs: Sequence[Stream], out: Tile) -> Padding | SplitPadding | None:
    """Valid rows of a result: matmuls and unary functions keep those of the first operand.

    Elementwise functions take the larger count of the operands that are not broadcast.
    """
    if fn in (set_offset, append_row):
        return SplitPadding()
    found = [s.padding for s in inputs if not isinstance(s.type, Tile) or s.type.rows == out.rows]
    if not found or None in found:
        return None
    return found[0] if all(p == found[0] for p in found) else SplitPadding()


def map_(
    fn: Function,
    *xs: Stream,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Apply ``fn`` to one stream, or elementwise to two of the same shape."""
    site = Site("map", xs, label)
    usable = isinstance(fn, Function) and fn.map_unit is not None
    compute_bw = check_function(site, fn, compute_bw, usable, "a map")
    write_back = site.flag("write_back", write_back)
    site.require(1 <= len(xs) <= 2, ArgError, f"map takes one or two streams, found {len(xs)}")
    _no_buffers(site, *xs)
    types: list[ElementType] = []
    for x in xs:
        types += x.type.parts if isinstance(x.type, TupleType) else [x.type]
    site.require(
        len(types) == fn.arity, ArgError, f"{fn} takes {fn.arity} operands, found {len(types)}"
    )
    if len(xs) == 2:
        site.same_dims(xs[0].shape, xs[1].shape, "in1", "in2", hint=_count_hint(site, *xs))
    out: Tile = infer(site, lambda: fn.result(types, same_sizes(site)))
    op = Map(fn=fn, compute_bw=compute_bw, write_back=write_back)
    rows = xs[:1] if fn.map_unit == "Matmul" else xs
    return site.add(op, [Output(xs[0].shape, out, None, _padding(fn, rows, out))])[0]


def _count_hint(site: Site, a: Stream, b: Stream) -> str:
    """A pointed hint when both sides count what one selector output received."""
    names = [f"{s.shape[0]}" for s in (a, b)]
    where = [site.owner.provenance(s.shape[0].expr) for s in (a, b)]
    if a.shape[0] != b.shape[0] and all("output" in w or "to one expert" in w for w in where):
        return (
            f"do both count rows of the same selector output? Use program.assume_equal"
            f"({names[0]}, {names[1]}) or build both selectors from one routing()"
        )
    return ""


def accum(
    x: Stream,
    fn: Function,
    rank: int,
    init: Init | None = None,
    *,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Reduce the ``rank`` inner dims; the result type follows from ``fn`` and the reduced dims."""
    options = (compute_bw, write_back)
    site, made, out, padding = _reduction("accum", x, fn, rank, init, options, label)
    shape = x.shape[: len(x.shape) - made["rank"]]
    if any(d.is_ragged for d in x.shape[len(shape) :]):
        out = _uneven(site, x, out, cardinality(shape))
    return site.add(Accum(**made), [Output(shape, out, None, padding)])[0]


def scan(
    x: Stream,
    fn: Function,
    rank: int,
    init: Init | None = None,
    *,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Running state of ``fn``, restarted after every ``rank`` inner dims."""
    options = (compute_bw, write_back)
    site, made, out, _ = _reduction("scan", x, fn, rank, init, options, label)
    if fn.accum_unit in ("RetileRow", "RetileCol"):
        side = "rows" if fn.accum_unit == "RetileRow" else "cols"
        out = Tile(out.dtype, *_growing(site, x, out, side))
    return site.add(Scan(**made), [Output(x.shape, out, None, blurred(x.padding))])[0]


def _uneven(site: Site, x: Stream, out: Tile, span: Size) -> Tile:
    """Results of groups of different length: sides that stay sum to what only a run tells."""
    assert isinstance(x.type, Tile)
    old, why = (x.type.rows, x.type.cols), f"results of {site.title}"
    sides = [s.counted_anew(span, why) if s in old else s for s in (out.rows, out.cols)]
    return Tile(out.dtype, *sides)


def _states(site: Site, out: Tile, span: Size) -> Tile:
    """States of tiles of different sizes, of which those of one row or column are broadcast."""
    sides = [
        site.owner.namer.ragged("r", f"sizes of {site.title}", bound=side.bound, span=span)
        if side.is_ragged
        else side
        for side in (out.rows, out.cols)
    ]
    return Tile(out.dtype, *sides)


def _growing(site: Site, x: Stream, out: Tile, side: str) -> tuple[Dim, Dim]:
    """Tiles that grow with every element: a ragged side bounded by the full pack."""
    full = out.rows if side == "rows" else out.cols
    grown = site.owner.namer.ragged(
        "r", f"{side} of {site.title}", bound=full.bound, span=x.elements()
    )
    return (grown, out.cols) if side == "rows" else (out.rows, grown)


class _Made(TypedDict):
    """The arguments of an accumulation, checked."""

    fn: Function
    rank: int
    init: Init
    compute_bw: int | None
    write_back: bool


def _reduction(
    name: str,
    x: Stream,
    fn: Function,
    rank: int,
    init: Init | None,
    options: tuple[int | None, bool],
    label: str | None,
) -> tuple[Site, _Made, Tile, Padding | SplitPadding | None]:
    site = Site(name, (x,), label, ("in",))
    usable = isinstance(fn, Function) and fn.accum_unit is not None and fn.accum_unit != "Matmul"
    where = "an accumulation; use map_accum for matmuls" if fn is not None else name
    compute_bw = check_function(site, fn, options[0], usable, where)
    write_back = site.flag("write_back", options[1])
    _check_init(site, init)
    _no_buffers(site, x)
    site.require_type(isinstance(x.type, Tile), "in", x, "tiles")
    rank = site.rank_at_least(x, rank)
    out, start = infer(
        site, lambda: accum_result(fn, x, rank, init, site.owner.namer, same_sizes(site))
    )
    packs = fn.accum_unit in ("RetileRow", "RetileCol")
    if not packs:
        left = x.shape if name == "scan" else x.shape[: len(x.shape) - rank]
        out = _states(site, out, cardinality(left))
    made: _Made = {
        "fn": fn, "rank": rank, "init": start, "compute_bw": compute_bw, "write_back": write_back
    }  # fmt: skip
    return site, made, out, x.padding if packs else None


def _check_init(site: Site, init: object) -> None:
    site.require(
        init is None or isinstance(init, Init),
        ArgError,
        f"init must be a state of st.fn.zero, one or empty, found {shown(init)}",
    )


def map_accum(
    fn: Function,
    a: Stream,
    b: Stream,
    rank: int,
    init: Init | None = None,
    *,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Multiply two streams of one shape and accumulate over the ``rank`` inner dims."""
    site = Site("map_accum", (a, b), label)
    usable = isinstance(fn, Function) and fn.accum_unit == "Matmul"
    where = "a map-accumulate; use matmul or matmul_t"
    compute_bw = check_function(site, fn, compute_bw, usable, where)
    write_back = site.flag("write_back", write_back)
    _check_init(site, init)
    _no_buffers(site, a, b)
    rank = site.rank_at_least(a, rank)
    site.same_dims(a.shape, b.shape, "in1", "in2")
    out: Tile = infer(site, lambda: fn.result((a.type, b.type), same_sizes(site)))
    start: Init = infer(site, lambda: map_accum_init(out, init))
    if start.dtype is not None and start.dtype is not out.dtype:
        site.fail(DTypeError, f"the state is {start.dtype}, the products are {out}")
    op = MapAccum(fn=fn, rank=rank, init=start, compute_bw=compute_bw, write_back=write_back)
    shape = a.shape[: len(a.shape) - rank]
    if any(d.is_ragged for d in a.shape[len(shape) :]):
        out = out.counted_anew(cardinality(shape), f"results of {site.title}")
    return site.add(op, [Output(shape, out, None, _padding(fn, (a,), out))])[0]
