"""Shape operators: only levels change (STeP paper, table 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from stepsim.arguments import is_number, shown
from stepsim.errors import ArgError, DimError, DTypeError, KindError, LoweringError, RankError
from stepsim.graph.dims import Dim, flatten_dims, format_dims
from stepsim.graph.handle import Padding, SplitPadding, StreamHandle
from stepsim.graph.limits import COUNT, RANK
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.sizes import Size, active, product
from stepsim.graph.types import Buffer, Tile, TupleType

if TYPE_CHECKING:
    from stepsim.graph.metrics import Accounting
    from stepsim.graph.stream import Stream

__all__ = [
    "ExpandRef",
    "Flatten",
    "Promote",
    "Repeat",
    "Reshape",
    "Unsqueeze",
    "Zip",
    "expand",
    "flatten",
    "promote",
    "repeat",
    "reshape",
    "unsqueeze",
    "zip_",
]


class _Shape(Operator):
    """Two tiles of FIFO and nothing else."""

    def memory(self, account: Accounting) -> Size:
        return 2 * account.type_bytes(self.inputs[0].type) if account.count_fifos else 0


class _Copies(_Shape):
    """Holds the element that it repeats."""

    def memory(self, account: Accounting) -> Size:
        return account.type_bytes(self.outputs[0].type) * (2 if account.count_fifos else 1)


@dataclass(eq=False, kw_only=True)
class Flatten(_Shape):
    """Dims ``hi..lo`` become one."""

    name: ClassVar[str] = "flatten"
    unit_kind: ClassVar[str] = "Flatten"
    lo: int
    hi: int

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"lo": self.lo, "hi": self.hi}


@dataclass(eq=False, kw_only=True)
class Reshape(_Shape):
    """Splits dim ``dim`` into chunks; may add an outermost dim to a rank-0 stream."""

    name: ClassVar[str] = "reshape"
    unit_kind: ClassVar[str] = "Reshape"
    chunk: int
    dim: int
    pad: int | None
    add_outer: bool
    write_back: bool

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        params: dict[str, Any] = {
            "s": self.dim,
            "q": self.chunk,
            "ri": self.inputs[0].rank,
            "outer": self.add_outer,
            "wb": self.write_back,
        }
        tile = self.inputs[0].type
        if isinstance(tile, Tile):
            params["bpe"] = tile.dtype.element_bytes
            if self.pad is not None and self.chunk > 1:
                params["pad"] = [int(tile.rows), int(tile.cols)]
        return params


@dataclass(eq=False, kw_only=True)
class Promote(_Shape):
    """A new outermost dim: 1, or 0 for an empty stream."""

    name: ClassVar[str] = "promote"
    unit_kind: ClassVar[str] = "Promote"

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        if self.inputs[0].shape[0] == 0:
            # No token has to carry the level of the new dim, so that no look-ahead is needed.
            return {"p": self.inputs[0].rank}
        raise LoweringError(
            f"{self.title()}: promoting a stream of rank {self.inputs[0].rank} with a dynamic "
            f"outermost dim needs look-ahead that no unit has. Flatten to rank 0 first, or make "
            f"the outermost dim static ({self.source})"
        )


@dataclass(eq=False, kw_only=True)
class Unsqueeze(_Shape):
    """A literal 1 becomes dim ``dim``."""

    name: ClassVar[str] = "unsqueeze"
    unit_kind: ClassVar[str] = "Promote"
    dim: int

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        if self.dim > self.inputs[0].rank:
            raise LoweringError(
                f"{self.title()}: no unit can close a new outermost dim. Use promote() "
                f"({self.source})"
            )
        return {"p": self.dim}


@dataclass(eq=False, kw_only=True)
class Repeat(_Copies):
    """Every element ``count`` times, as a new innermost dim."""

    name: ClassVar[str] = "repeat"
    unit_kind: ClassVar[str] = "RepeatStatic"
    count: int

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"f": self.count}


@dataclass(eq=False, kw_only=True)
class ExpandRef(_Copies):
    """Unit dims grow to those of a reference stream."""

    name: ClassVar[str] = "expand"
    unit_kind: ClassVar[str] = "ExpandRef"
    rank: int

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"e": self.rank}


@dataclass(eq=False, kw_only=True)
class Zip(_Shape):
    """Two streams of one shape become a stream of pairs."""

    name: ClassVar[str] = "zip"
    unit_kind: ClassVar[str] = "Zip"

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {}


def flatten(x: Stream, lo: int, hi: int, *, label: str | None = None) -> Stream:
    """Replace dims ``hi..lo`` by their product (absorbing rule for ragged dims)."""
    site = Site("flatten", (x,), label, ("in",))
    lo, hi = site.number(RANK, "lo", lo), site.number(RANK, "hi", hi)
    if not 0 <= lo < hi <= x.rank:
        site.fail(
            RankError,
            f"cannot flatten dims {lo}..{hi} of {format_dims(x.shape)}",
            f"flatten needs 0 <= lo < hi <= {x.rank}",
        )
    first, last = x.rank - hi, x.rank - lo + 1
    merged = flatten_dims(
        x.shape[first:last], outermost=first == 0, why=f"{site.title} of {format_dims(x.shape)}"
    )
    shape = (*x.shape[:first], merged, *x.shape[last:])
    return site.add(Flatten(lo=lo, hi=hi), [Output.like(x, shape)])[0]


def reshape(
    x: Stream,
    chunk: int,
    dim: int = 0,
    pad: int | None = None,
    *,
    add_outer: bool = False,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Split dim ``dim`` into ``ceil(D / chunk)`` chunks.

    ``pad`` (a value, usually 0) fills the last chunk of every innermost vector with tiles that have
    no valid rows. ``add_outer`` on a rank-0 stream adds the outermost dim ``Min(1, D)`` as well.
    """
    site = Site("reshape", (x,), label, ("in",))
    chunk, dim = site.number(COUNT, "chunk", chunk), site.number(RANK, "dim", dim)
    if pad is not None and not is_number(pad):
        site.fail(ArgError, f"pad must be a number or None, found {shown(pad)}")
    if pad:
        site.fail(
            ArgError,
            f"pad is {shown(pad)}, but padding tiles hold zeros",
            "pass pad=0",
        )
    add_outer = site.flag("add_outer", add_outer)
    write_back = site.flag("write_back", write_back)
    if not 0 <= dim <= x.rank:
        site.fail(RankError, f"dim {dim} is not in {format_dims(x.shape)}", f"use 0..{x.rank}")
    site.require(
        not add_outer or (dim == 0 and x.rank == 0),
        RankError,
        f"add_outer works on rank-0 streams, found rank {x.rank}",
        "flatten the stream first",
    )
    size = x.dim(dim)
    exact = size.is_static and int(size) % chunk == 0
    if dim > 0:
        site.require(
            size.is_static,
            KindError,
            f"dim {dim} of {format_dims(x.shape)} is {size}, not a constant",
            "only dim 0 can be padded; reshape it, or flatten down to it",
        )
        site.require(
            exact,
            DimError,
            f"chunk {chunk} does not divide dim {dim} = {size} of {format_dims(x.shape)}",
        )
    elif not exact and chunk > 1:
        site.require(
            pad is not None,
            ArgError,
            f"dim 0 = {size} is not known to be a multiple of {chunk}",
            "pass pad=0 to fill the last chunk",
        )
        tile = x.type
        site.require_type(
            isinstance(tile, Tile) and tile.is_static, "in", x, "static tiles to be padded"
        )
    position = x.rank - dim
    chunks = size.ceil_div(chunk)
    lead = (Dim(active(size.expr)),) if add_outer else ()
    shape = (*lead, *x.shape[:position], chunks, Dim(chunk), *x.shape[position + 1 :])
    out = Output.like(x, shape)
    tile = x.type
    if dim == 0 and not exact and chunk > 1 and isinstance(tile, Tile):
        known: Padding | SplitPadding = SplitPadding()  # padded one by one, or before
        if x.rank == 0 and x.padding is None:
            padded = product((chunks.expr, chunk, tile.rows.expr))
            valid = Dim(product((size.expr, tile.rows.expr)))
            known = Padding(valid, padded, product((chunk, tile.rows.expr)))
        out = Output(out.shape, out.type, out.counts, known)
    op = Reshape(
        chunk=chunk, dim=dim, pad=None if exact else pad, add_outer=add_outer, write_back=write_back
    )
    return site.add(op, [out])[0]


def promote(x: Stream, *, label: str | None = None) -> Stream:
    """Add an outermost dim that is 1, or 0 when the stream is empty (STeP paper, table 7).

    A rank-0 stream takes two units (chunks of one with an outer dim, then a flatten).
    """
    site = Site("promote", (x,), label, ("in",))
    top = x.shape[0]
    if x.rank == 0:
        return flatten(reshape(x, 1, add_outer=True, label=label), 0, 1, label=label)
    if top.is_static and int(top) > 0:
        return reshape(x, int(top), dim=x.rank, label=label)
    return site.add(Promote(), [Output.like(x, (Dim(active(top.expr)), *x.shape))])[0]


def unsqueeze(x: Stream, dim: int, *, label: str | None = None) -> Stream:
    """Insert a literal 1 so that it becomes dim ``dim`` (0 = innermost)."""
    site = Site("unsqueeze", (x,), label, ("in",))
    dim = site.number(RANK, "dim", dim)
    if not 0 <= dim <= x.rank + 1:
        site.fail(
            RankError,
            f"cannot insert dim {dim} into {format_dims(x.shape)}",
            f"use 0..{x.rank + 1}",
        )
    at = x.rank + 1 - dim
    shape = (*x.shape[:at], Dim(1), *x.shape[at:])
    return site.add(Unsqueeze(dim=dim), [Output.like(x, shape)])[0]


def repeat(x: Stream, count: int, *, label: str | None = None) -> Stream:
    """Every element ``count`` times: shape ``++ [count]``."""
    site = Site("repeat", (x,), label, ("in",))
    count = site.number(COUNT, "count", count)
    again = Output.repeated(x, (*x.shape, Dim(count)), count)
    return site.add(Repeat(count=count), [again])[0]


def expand(x: Stream, to: int | Stream, rank: int = 1, *, label: str | None = None) -> Stream:
    """Grow the ``rank`` innermost dims, all literal 1, to those of a reference stream.

    With an int, dim 0 grows to that constant: a repeat and a flatten.
    """
    if isinstance(to, StreamHandle):
        site = Site("expand", (x, to), label, ("in", "ref"))
        if x.rank:
            rank = site.rank_at_least(x, rank)
        elif site.number(RANK, "rank", rank) != 1:
            site.fail(RankError, f"rank {rank} does not fit {format_dims(x.shape)}", "use rank 1")
        _unit_dims(site, x, rank)
        site.require(
            to.rank == x.rank,
            DimError,
            f"in {format_dims(x.shape)} and ref {format_dims(to.shape)} differ in rank",
            "insert unit dims with unsqueeze()",
        )
        keep = len(x.shape) - rank
        site.same_dims(x.shape[:keep], to.shape[:keep], "in", "ref", base=rank)
        grown = to.shape[keep:]
        times = product(d.expr for d in grown) if not any(d.is_ragged for d in grown) else None
        return site.add(ExpandRef(rank=rank), [Output.repeated(x, to.shape, times)])[0]
    site = Site("expand", (x,), label, ("in",))
    to = site.number(COUNT, "to", to)
    rank = site.number(RANK, "rank", rank)
    site.require(
        1 <= rank <= len(x.shape), RankError, f"rank {rank} does not fit {format_dims(x.shape)}"
    )
    _unit_dims(site, x, rank)
    return flatten(repeat(x, to, label=label), 0, 1, label=label)


def _unit_dims(site: Site, x: Stream, rank: int) -> None:
    for index in range(min(rank, len(x.shape))):
        size = x.dim(index)
        site.require(
            size.is_one(),
            DimError,
            f"dim {index} of in {format_dims(x.shape)} is {size}; expanded dims must be literal 1",
            "insert unit dims with unsqueeze(), or use repeat() for a new dim",
        )


def zip_(a: Stream, b: Stream, *, label: str | None = None) -> Stream:
    """Pair the elements of two streams of one shape."""
    site = Site("zip", (a, b), label)
    for role, stream in (("in1", a), ("in2", b)):
        site.require(
            not isinstance(stream.type, Buffer),
            DTypeError,
            f"{role} carries {stream.type}; buffers cannot be zipped",
        )
    site.same_dims(a.shape, b.shape, "in1", "in2")
    # What a function of the pairs does to valid rows is its own affair.
    padding = a.padding if a.padding == b.padding else SplitPadding()
    pairs = Output(a.shape, TupleType((a.type, b.type)), None, padding)
    return site.add(Zip(), [pairs])[0]
