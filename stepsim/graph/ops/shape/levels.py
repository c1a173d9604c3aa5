"""Shape operators: only levels change (STeP paper, table 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from stepsim.errors import DTypeError, RankError
from stepsim.frozen import keyword_record
from stepsim.graph.handle import SplitPadding
from stepsim.graph.operator import Bindings, Output, Site
from stepsim.graph.ops.shape.chunks import ShapeOperator, reshape
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.limits import RANK
from stepsim.graph.sizes.shapes import flatten_dims, format_dims
from stepsim.graph.sizes.sizes import active
from stepsim.graph.types import Buffer, TupleType

if TYPE_CHECKING:
    from stepsim.graph.stream import Stream


@keyword_record
class Flatten(ShapeOperator):
    """Dims ``hi..lo`` become one."""

    name: ClassVar[str] = "flatten"
    unit_kind: ClassVar[str] = "Flatten"
    lo: int
    hi: int

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"lo": self.lo, "hi": self.hi}


@keyword_record
class Promote(ShapeOperator):
    """A new outermost dim: 1, or 0 for an empty stream."""

    name: ClassVar[str] = "promote"

    @property
    def unit_kind(self) -> str:  # type: ignore[override]
        # In an empty stream there is no token to carry the level of the new dim.
        return "Promote" if self.inputs[0].shape[0] == 0 else "PromoteOuter"

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"p": self.inputs[0].rank} if self.unit_kind == "Promote" else {}


@keyword_record
class Unsqueeze(ShapeOperator):
    """A literal 1 becomes dim ``dim``."""

    name: ClassVar[str] = "unsqueeze"
    dim: int

    @property
    def unit_kind(self) -> str:  # type: ignore[override]
        # The end of a new outermost dim is known only when no other token follows.
        return "PromoteOuter" if self.dim > self.inputs[0].rank else "Promote"

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"p": self.dim} if self.unit_kind == "Promote" else {}


@keyword_record
class Zip(ShapeOperator):
    """Two streams of one shape become a stream of pairs."""

    name: ClassVar[str] = "zip"
    unit_kind: ClassVar[str] = "Zip"

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {}


def flatten(x: Stream, lo: int, hi: int, *, label: str | None = None) -> Stream:
    """Merge the dims ``hi..lo`` into one.

    Flatten of the STeP paper (table 7). Only levels change; no data is moved.

    Shape
    -----
    Dims ``hi..lo`` are replaced by their product. With a ragged dim among them the product is a new
    ragged dim; an outermost one is the total of the sizes. The type is unchanged.

    Parameters
    ----------
    x : any stream.
    lo : innermost dim to merge, counted from 0 = innermost.
    hi : outermost dim to merge, above ``lo``.
    label : name in reports and messages.

    Fires
    -----
    Once for each token, in zero cycles.

    Raises
    ------
    RankError : not ``0 <= lo < hi <= rank``.

    Example
    -------
    >>> with st.Program("flat") as program:
    ...     x = st.linear_load(np.arange(4, dtype="f4").reshape(2, 2), tile=(1, 1))
    ...     flat = x.flatten(0, 1)
    ...     out = st.linear_store(flat, "out")
    >>> [x, flat]
    [Stream[2, 2] of Tile[1x1 f32] <- linear_load#0, Stream[4] of Tile[1x1 f32] <- flatten#1]
    >>> print(run_functional(program).stored["out"].ravel())
    [0. 1. 2. 3.]
    """
    site = Site("flatten", (x,), label, ("in",))
    lo, hi = site.number(RANK, "lo", lo), site.number(RANK, "hi", hi)
    if not 0 <= lo < hi <= x.rank:
        site.fail(
            RankError,
            f"cannot flatten dims {lo}..{hi} of {format_dims(x.shape)}",
            f"flatten needs 0 <= lo < hi <= {x.rank}",
        )
    first, last = x.rank - hi, x.rank - lo + 1
    dims = x.shape[first:last]
    # Only ragged sizes have a provenance.
    why = f"{site.title} of {format_dims(x.shape)}" if any(d.is_ragged for d in dims) else ""
    merged = flatten_dims(dims, outermost=first == 0, why=why)
    shape = (*x.shape[:first], merged, *x.shape[last:])
    return site.add(Flatten(lo=lo, hi=hi), [Output.like(x, shape)])[0]


def promote(x: Stream, *, label: str | None = None) -> Stream:
    """Add an outermost dim that is 1, or 0 if the stream is empty.

    Promote of the STeP paper (table 7). It turns an entire stream into one group, as dynamic tiling
    needs: ``rows.promote().accum(st.fn.pack_rows, rank=1)`` packs all rows into one tile.

    Shape
    -----
    ``[Min(1, D_N)] ++ x.shape``, of any rank and with dims of any kind. The type is unchanged.

    Parameters
    ----------
    x : the stream.
    label : name in reports and messages.

    Fires
    -----
    Once for each token. A stream of rank 0 takes two units (chunks of one with an outer dim, then a
    flatten), one with a constant outermost dim a :func:`reshape`, all in zero cycles. Others take
    PromoteOuter of the public simulator of 2026: a token leaves one cycle after its successor, or
    the end of the stream, is seen; at most one a cycle.

    Raises
    ------
    GraphError : no program is open.

    Example
    -------
    >>> with st.Program("all rows") as program:
    ...     table = st.routing([[0], [1], [0]], experts=3)
    ...     x = st.linear_load(np.ones((3, 2), "f4"), tile=(1, 2)).flatten(0, 1)
    ...     parts = [st.promote(part) for part in st.partition(x, table.multihot())]
    ...     tiles = [part.accum(st.fn.pack_rows, rank=1) for part in parts]
    ...     for tile in tiles:
    ...         tile.consume()
    >>> parts[0]
    Stream[Min(1, n0), n0] of Tile[1x2 f32] <- promote#4/flatten
    >>> tiles[0]
    Stream[Min(1, n0)] of Tile[n0x2 f32] <- pack_rows#10
    >>> [run_functional(program).shape(tile) for tile in tiles]
    [(1,), (1,), (0,)]
    """
    site = Site("promote", (x,), label, ("in",))
    top = x.shape[0]
    if x.rank == 0:
        with site.parts():
            return flatten(reshape(x, 1, add_outer=True, label=label), 0, 1, label=label)
    if top.is_static and int(top) > 0:
        with site.parts():
            return reshape(x, int(top), dim=x.rank, label=label)
    return site.add(Promote(), [Output.like(x, (Dim(active(top.size)), *x.shape))])[0]


def unsqueeze(x: Stream, dim: int, *, label: str | None = None) -> Stream:
    """Insert a dim of size 1.

    A helper: the Reshape of the STeP paper (table 7) with chunks of one. Its simulator calls it
    Promote.

    Shape
    -----
    A literal 1 is inserted so that it becomes dim ``dim``; as the outermost dim it is like that of
    :func:`promote`, 0 if the stream is empty. The type is unchanged.

    Parameters
    ----------
    x : the stream.
    dim : index of the new dim, 0 = innermost, up to ``rank + 1``.
    label : name in reports and messages.

    Fires
    -----
    Once for each token, in zero cycles; a new outermost dim like :func:`promote`.

    Raises
    ------
    RankError : ``dim`` is not within 0 and ``rank + 1``.

    Example
    -------
    >>> with st.Program("column") as program:
    ...     x = st.linear_load(np.arange(3, dtype="f4").reshape(3, 1), tile=(1, 1)).flatten(0, 1)
    ...     column = x.unsqueeze(0)
    ...     out = st.linear_store(column, "out")
    >>> column
    Stream[3, 1] of Tile[1x1 f32] <- unsqueeze#2
    >>> print(run_functional(program).stored["out"])
    [[0.]
     [1.]
     [2.]]
    """
    site = Site("unsqueeze", (x,), label, ("in",))
    dim = site.number(RANK, "dim", dim)
    if not 0 <= dim <= x.rank + 1:
        site.fail(
            RankError,
            f"cannot insert dim {dim} into {format_dims(x.shape)}",
            f"use 0..{x.rank + 1}",
        )
    at = x.rank + 1 - dim
    one = Dim(active(x.shape[0].size)) if dim > x.rank else Dim(1)
    shape = (*x.shape[:at], one, *x.shape[at:])
    return site.add(Unsqueeze(dim=dim), [Output.like(x, shape)])[0]


def zip_(a: Stream, b: Stream, *, label: str | None = None) -> Stream:
    """Pair the elements of two streams.

    Zip of the STeP paper (table 7). A function of two operands applies to the pairs:
    ``st.zip(a, b).map(st.fn.add)`` is ``st.map(st.fn.add, a, b)``.

    Shape
    -----
    That of both inputs, of pairs of their types.

    Parameters
    ----------
    a : first stream, of any elements except buffers.
    b : second stream of the same shape.
    label : name in reports and messages.

    Fires
    -----
    Once for each pair, in zero cycles.

    Raises
    ------
    DimError : the shapes are not known to be equal.
    DTypeError : an input carries buffers.

    Example
    -------
    >>> with st.Program("pairs", compute_bw=64) as program:
    ...     a = st.linear_load(np.full((2, 4), 2, "f4"), tile=(1, 4)).flatten(0, 1)
    ...     b = st.linear_load(np.full((2, 4), 3, "f4"), tile=(1, 4)).flatten(0, 1)
    ...     pairs = st.zip(a, b)
    ...     out = st.linear_store(pairs.map(st.fn.mul), "out")
    >>> pairs
    Stream[2] of (Tile[1x4 f32], Tile[1x4 f32]) <- zip#4
    >>> print(run_functional(program).stored["out"][0])
    [6. 6. 6. 6.]
    """
    site = Site("zip", (a, b), label)
    for role, stream in (("in1", a), ("in2", b)):
        site.require(
            not isinstance(stream.type, Buffer),
            DTypeError,
            f"{role} carries {stream.type}; buffers cannot be zipped",
        )
    site.same_dims(a.shape, b.shape, "in1", "in2")
    # The effect of a function of the pairs on valid rows depends on the function.
    padding = a.padding if a.padding == b.padding else SplitPadding()
    pairs = Output(a.shape, TupleType((a.type, b.type)), None, padding)
    return site.add(Zip(), [pairs])[0]


zip = zip_
"""``st.zip``; modules that also need the builtin import `zip_`."""
