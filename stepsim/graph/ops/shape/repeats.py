"""Copies of elements in new or unit dims: repeat and expand (STeP paper, table 7)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stepsim.arguments import counted
from stepsim.errors import DimError, RankError
from stepsim.frozen import keyword_record
from stepsim.graph.handle import StreamHandle
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.ops.shape.levels import flatten
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.limits import COUNT, RANK
from stepsim.graph.sizes.shapes import format_dims
from stepsim.graph.sizes.sizes import Size, product

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream


class _Copies(Operator):
    """Holds the element that it repeats."""

    def memory(self, accounting: Accounting) -> Size:
        return accounting.type_bytes(self.outputs[0].type) * (2 if accounting.count_fifos else 1)


@keyword_record
class Repeat(_Copies):
    """Repeats every element ``count`` times, as one or several new innermost dims."""

    name: ClassVar[str] = "repeat"
    unit_kind: ClassVar[str] = "RepeatStatic"
    count: int | tuple[int, ...]

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"f": list(self.count) if isinstance(self.count, tuple) else self.count}

    @property
    def counts(self) -> tuple[int, ...]:
        """Sizes of the new dims, outermost first."""
        return self.count if isinstance(self.count, tuple) else (self.count,)


@keyword_record
class ExpandRef(_Copies):
    """Expands unit dims to those of a reference stream."""

    name: ClassVar[str] = "expand"
    unit_kind: ClassVar[str] = "ExpandRef"
    rank: int

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        whole = {"whole": True} if self.rank > self.inputs[0].rank > 0 else {}
        return {"e": self.rank, **whole}


def repeat(x: Stream, count: int | Sequence[int], *, label: str | None = None) -> Stream:
    """Send every element several times, in new innermost dims.

    RepeatStatic of the paper's simulator: Expand of the STeP paper (table 7) to constants, after
    an :func:`unsqueeze`.

    Shape
    -----
    ``x.shape ++ [count]``, with a list of counts ``x.shape ++ count``. The type is unchanged.

    Parameters
    ----------
    x : the stream.
    count : copies of each element, from 1; a list has one number for each new dim, outermost first.
        With an empty list, every element is passed on.
    label : name in reports and messages.

    Fires
    -----
    Once for each element, one cycle for each copy. On machines with ``model: step-2025`` copy i
    leaves i cycles after the clock, which back-pressure has already advanced, so that under
    back-pressure the time is quadratic in ``count``; use ``bufferize`` and
    ``streamify(repeat=count)`` where that matters. With ``model: step-2026`` the first copy leaves
    one cycle after the element arrived, the k-th ``k`` cycles after it.

    Memory
    ------
    One element.

    Raises
    ------
    ArgError : a count is not an int from 1.

    Example
    -------
    >>> with st.Program("again") as program:
    ...     x = st.linear_load(np.arange(2, dtype="f4").reshape(2, 1), tile=(1, 1)).flatten(0, 1)
    ...     again = x.repeat([2, 3])
    ...     out = st.linear_store(x.repeat(3), "out")
    ...     again.consume()
    >>> again
    Stream[2, 2, 3] of Tile[1x1 f32] <- repeat#2
    >>> print(run_functional(program).stored["out"])
    [[0. 0. 0.]
     [1. 1. 1.]]
    """
    site = Site("repeat", (x,), label, ("in",))
    each = _counts(site, "count", count)
    dims = each if isinstance(each, tuple) else (each,)
    times = math.prod(dims)
    site.number(COUNT, "the number of copies", times)
    again = Output.repeated(x, (*x.shape, *map(Dim, dims)), times)
    return site.add(Repeat(count=each), [again])[0]


def _counts(site: Site, what: str, value: int | Sequence[int]) -> int | tuple[int, ...]:
    if isinstance(value, list | tuple | np.ndarray):
        return site.numbers(COUNT, what, value)
    return site.number(COUNT, what, value)


def expand(
    x: Stream, to: int | Sequence[int] | Stream, rank: int | None = None, *,
    label: str | None = None,
) -> Stream:  # fmt: skip
    """Expand the innermost dims, all of size 1, to those of a reference stream or to constants.

    Expand of the STeP paper (table 7); its simulator calls it ExpandRef. With numbers it is
    :func:`repeat` and :func:`flatten`.

    Shape
    -----
    That of the reference: the outer dims of ``x`` and ``rank`` dims of any size; all dims of ``x``
    may be unit dims. With numbers, the unit dims grow to these. The type is that of ``x``.

    Parameters
    ----------
    x : stream whose ``rank`` innermost dims are literal 1.
    to : stream of the rank of ``x``, with its outer dims; or an int from 1, the size of dim 0; or a
        list of them, outermost first.
    rank : number of dims to grow; by default 1, or the length of the list.
    label : name in reports and messages.

    Fires
    -----
    Once for each element of the reference, in zero cycles; the contents of the reference do not
    matter. With numbers like :func:`repeat`.

    Memory
    ------
    One element.

    Raises
    ------
    DimError : a dim to grow is not 1, or the outer dims differ from those of the reference.
    RankError : ``rank`` does not fit the stream or the list.
    ArgError : ``to`` is neither a stream nor ints from 1.

    Example
    -------
    >>> with st.Program("a sum for each tile") as program:
    ...     x = st.linear_load(np.ones((2, 6), "f4"), tile=(1, 2))  # [2, 3]
    ...     total = x.accum(st.fn.add, rank=1)  # [2]
    ...     spread = total.unsqueeze(0).expand(x)
    ...     out = st.linear_store(spread, "out")
    >>> spread
    Stream[2, 3] of Tile[1x2 f32] <- expand#3
    >>> print(run_functional(program).stored["out"])
    [[3. 3. 3. 3. 3. 3.]
     [3. 3. 3. 3. 3. 3.]]
    """
    if isinstance(to, StreamHandle):
        site = Site("expand", (x, to), label, ("in", "ref"))
        rank = site.number(RANK, "rank", 1 if rank is None else rank)
        site.require(
            1 <= rank <= len(x.shape),
            RankError,
            f"rank {rank} does not fit {format_dims(x.shape)}",
            f"use 1..{len(x.shape)}",
        )
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
        times = product(d.size for d in grown) if not any(d.is_ragged for d in grown) else None
        return site.add(ExpandRef(rank=rank), [Output.repeated(x, to.shape, times)])[0]
    site = Site("expand", (x,), label, ("in",))
    grown_to = _counts(site, "to", to)
    new = len(grown_to) if isinstance(grown_to, tuple) else 1
    rank = site.number(RANK, "rank", new if rank is None else rank)
    site.require(
        1 <= rank <= len(x.shape), RankError, f"rank {rank} does not fit {format_dims(x.shape)}"
    )
    site.require(
        rank == new,
        RankError,
        f"rank {rank} and {counted(new, 'size')}, {grown_to}",
        "give a list of one size for each unit dim",
    )
    _unit_dims(site, x, rank)
    with site.parts():
        return flatten(repeat(x, grown_to, label=label), new - 1, 2 * new - 1, label=label)


def _unit_dims(site: Site, x: Stream, rank: int) -> None:
    for index in range(min(rank, len(x.shape))):
        size = x.dim(index)
        site.require(
            size.is_one(),
            DimError,
            f"dim {index} of in {format_dims(x.shape)} is {size}; expanded dims must be literal 1",
            "insert unit dims with unsqueeze(), or use repeat() for a new dim",
        )
