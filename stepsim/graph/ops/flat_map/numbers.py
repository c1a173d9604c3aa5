"""Counters, and stream functions that return numbers (public STeP simulator of 2026)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from stepsim.frozen import keyword_record
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.ops.flat_map.flat_maps import StreamFunction
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.limits import COUNT
from stepsim.graph.types import U64_TILE

if TYPE_CHECKING:
    from stepsim.graph.stream import Stream


@keyword_record
class Counter(Operator):
    """The integers below a constant, once, or once for every element of a reference."""

    name: ClassVar[str] = "counter"
    count: int

    @property
    def unit_kind(self) -> str:  # type: ignore[override]
        return "DynCounter" if self.inputs else "Counter"

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"n": self.count} if self.inputs else {"n": self.count, "lead": False}


def counter(count: int, *, ref: Stream | None = None, label: str | None = None) -> Stream:
    """Make the integers below a constant, once or for every element of a reference.

    Counter of the public simulator of 2026: tile indices for :func:`random_load`, for instance.

    Shape
    -----
    ``[count]``; with ``ref`` ``ref.shape ++ [count]``, repeating the integers for each of its
    elements. Elements are ``Tile[1x1 u64]``. An empty reference makes an empty stream.

    Parameters
    ----------
    count : integers of one run, at least 1: an empty run could not carry its stop.
    ref : stream whose elements trigger the runs; their contents are ignored.
    label : name in reports and messages.

    Fires
    -----
    Once for each integer, all of a run in one cycle if the FIFO has slots.

    Raises
    ------
    ArgError : ``count`` is not an int from 1.

    Example
    -------
    >>> with st.Program("rows of a table") as program:
    ...     table = np.arange(8, dtype="f4").reshape(4, 2)
    ...     rows = st.random_load(st.counter(3), table, (1, 2))
    ...     out = st.linear_store(rows, "out")
    >>> rows
    Stream[3] of Tile[1x2 f32] <- random_load#1
    >>> print(run_functional(program).stored["out"])
    [[0. 1.]
     [2. 3.]
     [4. 5.]]
    """
    site = Site("counter", () if ref is None else (ref,), label, ("ref",))
    count = site.number(COUNT, "count", count)
    lead = () if ref is None else ref.shape
    return site.add(Counter(count=count), [Output((*lead, Dim(count)), U64_TILE)])[0]


def count_up() -> StreamFunction:
    """For each length v: the integers 0 to v - 1.

    FlatmapCounter of the public simulator of 2026, for :func:`flat_map`.

    Shape
    -----
    ``x.shape ++ [~len]`` with the values of ``x`` as sizes; the element type is unchanged.

    Fires
    -----
    Once for each length; its integers leave in one cycle if the FIFO has slots.

    Raises
    ------
    DTypeError : the elements are not 1x1 tiles of u32 or u64. A length of 0 aborts a run: nothing
        could carry the stop of an empty dim.

    Example
    -------
    >>> with st.Program("steps") as program:
    ...     steps = st.metadata([2, 3]).flat_map(st.fn.counter())
    ...     steps.consume()
    >>> steps
    Stream[2, ~len] of Tile[1x1 u64] <- counter#1
    >>> [int(token.payload.data[0, 0]) for token in run_functional(program).stream(steps)]
    [0, 1, 0, 1, 2]
    """
    return StreamFunction("counter", "FlatmapCounter")


def view_addresses(
    shape: Sequence[int], stride: Sequence[int], slab: int, base: int = 0
) -> StreamFunction:
    """For each index e: the tile indices of an affine view inside slab e.

    DynAddrGen of the public simulator of 2026, for :func:`flat_map`. The address at position ``i``
    is ``base + e * slab + (sum of i_j * stride_j) mod slab``.

    Shape
    -----
    ``x.shape ++ shape`` of ``Tile[1x1 u64]``.

    Parameters
    ----------
    shape : positions along each dim of the view.
    stride : tiles from one position to the next, for each dim.
    slab : tiles from one slab to the next; a longer view wraps around.
    base : tiles before slab 0.

    Fires
    -----
    Once for each index, a one-hot selector or a 1x1 integer; its addresses leave in one cycle if
    the FIFO has slots.

    Raises
    ------
    ArgError : ``shape`` and ``stride`` differ in length, or addresses pass 2**63 - 1.
    DTypeError : the elements are neither one-hot selectors nor 1x1 tiles of u32 or u64.

    Example
    -------
    >>> with st.Program("columns of a slab") as program:
    ...     chosen = st.routing([[1], [0]], experts=2).onehot().flatten(0, 1)
    ...     tiles = chosen.flat_map(st.fn.view_addresses((2, 2), (1, 2), slab=4))
    ...     tiles.consume()
    >>> tiles
    Stream[2, 2, 2] of Tile[1x1 u64] <- view_addresses#2
    >>> [int(token.payload.data[0, 0]) for token in run_functional(program).stream(tiles)]
    [4, 6, 5, 7, 0, 2, 1, 3]
    """
    params = (("shape", shape), ("stride", stride), ("slab", slab), ("base", base))
    return StreamFunction("view_addresses", "DynAddrGen", params)
