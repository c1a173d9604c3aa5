"""Collection and distribution in a fixed order: static_reassemble, deinterleave, interleave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from stepsim.errors import ArgError, DimError
from stepsim.frozen import keyword_record
from stepsim.graph.handle import blurred
from stepsim.graph.operator import Bindings, Operator, Output, Site, streams_of
from stepsim.graph.ops.routing.merging import merged_inputs
from stepsim.graph.ops.routing.partitioning import Switch, switch_costs
from stepsim.graph.ops.routing.shares import joined_dims, joined_type, share_of_type
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.limits import STREAMS
from stepsim.graph.sizes.shapes import format_dims
from stepsim.graph.sizes.sizes import CeilDiv, Size, ceil_div, divided, product

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream


class _Lanes(Operator):
    """One FIFO for every stream that it reads or writes, if FIFOs are counted."""

    def memory(self, accounting: Accounting) -> Size:
        if not accounting.count_fifos:
            return 0
        streams = len(self.inputs) + len(self.outputs)
        return accounting.type_bytes(self.inputs[0].type) * streams


@keyword_record
class StaticReassemble(_Lanes):
    """Takes one chunk from each input in turn."""

    name: ClassVar[str] = "static_reassemble"
    unit_kind: ClassVar[str] = "StaticReassemble"
    rank: int
    switch_cycles: tuple[int, ...]

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"rank": self.rank, "switch": list(self.switch_cycles)}


@keyword_record
class Deinterleave(_Lanes):
    """Distributes the elements of every vector over lanes, in groups of one per lane."""

    name: ClassVar[str] = "deinterleave"
    unit_kind: ClassVar[str] = "ContextDeinterleave"

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {}


@keyword_record
class Interleave(_Lanes):
    """Collects the elements of lanes, one from each lane in turn."""

    name: ClassVar[str] = "interleave"
    unit_kind: ClassVar[str] = "ContextInterleave"

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {}


def static_reassemble(
    xs: Sequence[Stream],
    rank: int | None = None,
    switch_cycles: Switch = 1,
    *,
    label: str | None = None,
) -> Stream:
    """Collect chunks from several streams in turn, the inverse of :func:`parallelize`.

    StaticReassemble of the public simulator of 2026. Chunk i of the result is the next one of input
    ``i mod n``. The order is fixed and depends neither on selectors nor on arrival.

    Shape
    -----
    ``n`` inputs ``[C_i] ++ inner`` of rank ``rank`` give ``[C_0 + .. + C_(n-1)] ++ inner``. The
    counts are those of a round-robin distribution: all equal, or the first few larger by one.

    Parameters
    ----------
    xs : streams of one rank and element type.
    rank : rank of the inputs, whose tensors are the chunks; it follows from them, and is checked if
        given.
    switch_cycles : cycles from taking an element of an input to sending it; one number for all
        inputs or one for each. 0 and 1 are the same.
    label : name in reports and messages.

    Fires
    -----
    Once for each element; the clock does not advance.

    Raises
    ------
    ArgError : there are no inputs, or ``switch_cycles`` do not fit them.
    RankError : the inputs differ in rank.
    DimError : inner dims differ, or the counts are not known to be a round-robin distribution.
    DTypeError : element types differ.

    Example
    -------
    >>> with st.Program("distribute and collect") as program:
    ...     x = st.linear_load(np.arange(5, dtype="f4").reshape(5, 1), tile=(1, 1)).flatten(0, 1)
    ...     back = st.static_reassemble(st.parallelize(x, 2))
    ...     out = st.linear_store(back, "out")
    >>> back
    Stream[5] of Tile[1x1 f32] <- static_reassemble#3
    >>> print(run_functional(program).stored["out"].ravel())
    [0. 1. 2. 3. 4.]
    """
    xs = streams_of("static_reassemble", "xs", xs)
    site = Site("static_reassemble", xs, label, tuple(f"in{i}" for i in range(len(xs))))
    costs = switch_costs(site, switch_cycles, len(xs))
    unit = merged_inputs(site, xs, rank, None)
    element = joined_type(site, xs, mixed=False)
    whole = _collected(site, [x.shape[0] for x in xs])
    inner = joined_dims(site, xs, unit)
    padding = next((blurred(x.padding) for x in xs if x.padding is not None), None)
    op = StaticReassemble(rank=unit, switch_cycles=costs)
    return site.add(op, [Output((whole, *inner), element, None, padding)])[0]


def _collected(site: Site, counts: Sequence[Dim]) -> Dim:
    """The number of chunks whose round-robin distribution gives inputs of these counts."""
    n, first = len(counts), counts[0]
    if n == 1:
        return first
    if all(c.is_static for c in counts):
        total = sum(int(c) for c in counts)
        expected = [-(-(total - i) // n) for i in range(n)]
        site.require(
            [int(c) for c in counts] == expected,
            DimError,
            f"the inputs hold {format_dims(counts)} chunks; a round-robin distribution of "
            f"{total} chunks is {expected}",
            "an input that ends early ends the operator; use reassemble() with a selector",
        )
        return Dim(total)
    if isinstance(first.size, CeilDiv) and first.size.divisor == n:
        whole = first.size.top
        expected_dims = [Dim(ceil_div(whole - i, n)) for i in range(n)]
        if all(site.owner.compare(c, d) for c, d in zip(counts, expected_dims, strict=True)):
            return Dim(whole)
    for role, count in zip(site.roles[1:], counts[1:], strict=True):
        site.same_dims((first,), (count,), site.roles[0], role)
    return Dim(product((n, first.size)))


def deinterleave(x: Stream, n: int, *, label: str | None = None) -> list[Stream]:
    """Distribute the elements of every innermost vector over ``n`` lanes in turn.

    ContextDeinterleave of the public simulator of 2026. Lane j receives the elements ``j``,
    ``j + n``, ``j + 2n``, ... of every vector; a stop goes to all lanes.

    Shape
    -----
    ``[D_N, .., D_0]`` gives ``n`` streams ``[D_N, .., D_0 / n]``.

    Parameters
    ----------
    x : the stream.
    n : number of lanes, at least 2; it divides every vector. A run checks this where it is not
        known before.
    label : name in reports and messages.

    Fires
    -----
    Once for each element. It takes ``n`` elements before it sends the first; the clock does not
    advance.

    Raises
    ------
    ArgError : ``n`` is less than 2.
    DimError : ``n`` does not divide dim 0.

    Example
    -------
    >>> with st.Program("lanes") as program:
    ...     x = st.linear_load(np.arange(6, dtype="f4").reshape(1, 6), tile=(1, 1))  # [1, 6]
    ...     even, odd = st.deinterleave(x, 2)
    ...     stores = st.linear_store(even, "even"), st.linear_store(odd, "odd")
    >>> even
    Stream[1, 3] of Tile[1x1 f32] <- deinterleave#1.0
    >>> print(run_functional(program).stored["odd"])
    [[1. 3. 5.]]
    """
    site = Site("deinterleave", (x,), label, ("in",))
    n = _lane_count(site, site.number(STREAMS, "n", n))
    size = x.dim(0)
    each = _divided(site, size, n)
    shape = (*x.shape[:-1], each)
    made = [
        Output(shape, share_of_type(site, x.type, i, shape), None, blurred(x.padding))
        for i in range(n)
    ]
    return list(site.add(Deinterleave(), made))


def _lane_count(site: Site, n: int) -> int:
    site.require(n >= 2, ArgError, f"{n} lanes, expected at least 2")
    return n


def _divided(site: Site, size: Dim, n: int) -> Dim:
    if size.is_static:
        site.require(
            int(size) % n == 0,
            DimError,
            f"{n} lanes do not divide dim 0 = {size}",
            "every lane takes as many elements of a vector as the others",
        )
        return Dim(int(size) // n)
    if size.is_ragged:
        return site.owner.namer.ragged(
            f"{size.size}_l{n}",
            f"{size} distributed over {n} lanes",
            total=divided(size.sum, n),
            bound=ceil_div(size.most, n),
            static=size.static,
        )
    return Dim(ceil_div(size.size, n))


def interleave(xs: Sequence[Stream], *, label: str | None = None) -> Stream:
    """Collect the elements of lanes, one from each lane in turn: the inverse of
    :func:`deinterleave`.

    ContextInterleave of the public simulator of 2026.

    Shape
    -----
    ``n`` lanes of one shape ``[D_N, .., D_0]`` give ``[D_N, .., n * D_0]``.

    Parameters
    ----------
    xs : two streams or more, of one shape and element type.
    label : name in reports and messages.

    Fires
    -----
    Once for each group of one element from every lane, which it takes before it sends the first;
    the clock does not advance.

    Raises
    ------
    ArgError : there are fewer than two streams.
    DimError : shapes differ.
    DTypeError : element types differ.

    Example
    -------
    >>> with st.Program("zipper") as program:
    ...     x = st.linear_load(np.arange(3, dtype="f4").reshape(1, 3), tile=(1, 1))
    ...     y = st.linear_load(np.full((1, 3), 9, "f4"), tile=(1, 1))
    ...     both = st.interleave([x, y])
    ...     out = st.linear_store(both, "out")
    >>> both
    Stream[1, 6] of Tile[1x1 f32] <- interleave#2
    >>> print(run_functional(program).stored["out"])
    [[0. 9. 1. 9. 2. 9.]]
    """
    xs = streams_of("interleave", "xs", xs)
    roles = tuple(f"in{i}" for i in range(len(xs)))
    site = Site("interleave", xs, label, roles)
    n = _lane_count(site, len(xs))
    for role, x in zip(roles[1:], xs[1:], strict=True):
        site.same_dims(xs[0].shape, x.shape, roles[0], role)
    element = joined_type(site, xs, mixed=False)
    shape = (*xs[0].shape[:-1], xs[0].dim(0) * n)
    padding = next((blurred(x.padding) for x in xs if x.padding is not None), None)
    return site.add(Interleave(), [Output(shape, element, None, padding)])[0]
