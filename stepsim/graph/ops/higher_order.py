"""Higher-order operators: map, accum, map-accum, scan (STeP paper, table 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from stepsim.errors import ArgError, DTypeError
from stepsim.graph.dims import Dim
from stepsim.graph.functions import (
    Function,
    Init,
    accum_result,
    append_row,
    is_dynamic,
    map_accum_init,
    set_offset,
)
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
        if self.fn.arity == 1:
            return params | {"fn": unit}
        if unit == "Matmul" and any(is_dynamic(t) for t in self.operands()):
            unit = "DynMatmul"
        params["fn"] = [unit, self.fn.transposed]
        if self.fn.stride is not None:
            params["stride"] = self.fn.stride
        return params | self.result_width()

    def memory(self, account: Accounting) -> Size:
        matmul = self.fn.map_unit == "Matmul" and len(self.inputs) == 2
        out = account.type_bytes(self.outputs[0].type) if account.count_fifos else 0
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
    check_function(site, fn, compute_bw, usable, "a map")
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
    site, out, start, padding = _reduction("accum", x, fn, rank, init, compute_bw, label)
    op = Accum(fn=fn, rank=rank, init=start, compute_bw=compute_bw, write_back=write_back)
    return site.add(op, [Output(x.shape[: len(x.shape) - rank], out, None, padding)])[0]


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
    site, out, start, _ = _reduction("scan", x, fn, rank, init, compute_bw, label)
    op = Scan(fn=fn, rank=rank, init=start, compute_bw=compute_bw, write_back=write_back)
    if fn.accum_unit in ("RetileRow", "RetileCol"):
        side = "rows" if fn.accum_unit == "RetileRow" else "cols"
        out = Tile(out.dtype, *_growing(site, x, out, side))
    return site.add(op, [Output(x.shape, out, None, blurred(x.padding))])[0]


def _growing(site: Site, x: Stream, out: Tile, side: str) -> tuple[Dim, Dim]:
    """Tiles that grow with every element: a ragged side bounded by the full pack."""
    full = out.rows if side == "rows" else out.cols
    grown = site.owner.namer.ragged(
        "r", f"{side} of {site.title}", bound=full.bound, span=x.elements()
    )
    return (grown, out.cols) if side == "rows" else (out.rows, grown)


def _reduction(
    name: str,
    x: Stream,
    fn: Function,
    rank: int,
    init: Init | None,
    compute_bw: int | None,
    label: str | None,
) -> tuple[Site, Tile, Init, Padding | SplitPadding | None]:
    site = Site(name, (x,), label, ("in",))
    usable = isinstance(fn, Function) and fn.accum_unit is not None and fn.accum_unit != "Matmul"
    where = "an accumulation; use map_accum for matmuls" if fn is not None else name
    check_function(site, fn, compute_bw, usable, where)
    _no_buffers(site, x)
    site.require_type(isinstance(x.type, Tile), "in", x, "tiles")
    site.rank_at_least(x, rank)
    out, start = infer(
        site, lambda: accum_result(fn, x, rank, init, site.owner.namer, same_sizes(site))
    )
    padding = x.padding if fn.accum_unit in ("RetileRow", "RetileCol") else None
    return site, out, start, padding


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
    check_function(site, fn, compute_bw, usable, "a map-accumulate; use matmul or matmul_t")
    _no_buffers(site, a, b)
    site.rank_at_least(a, rank)
    site.same_dims(a.shape, b.shape, "in1", "in2")
    out: Tile = infer(site, lambda: fn.result((a.type, b.type), same_sizes(site)))
    start: Init = infer(site, lambda: map_accum_init(out, init))
    if start.dtype is not None and start.dtype is not out.dtype:
        site.fail(DTypeError, f"the state is {start.dtype}, the products are {out}")
    op = MapAccum(fn=fn, rank=rank, init=start, compute_bw=compute_bw, write_back=write_back)
    shape = a.shape[: len(a.shape) - rank]
    return site.add(op, [Output(shape, out, None, _padding(fn, (a,), out))])[0]
