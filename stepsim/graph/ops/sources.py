"""Sources, sinks and helpers: constant selectors, metadata, broadcast, feedback."""

from __future__ import annotations

from dataclasses import field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stepsim.errors import ArgError
from stepsim.frozen import keyword_record
from stepsim.graph.handle import FixedCounts
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.ops.arrays import IntArray, numeric_array, whole_numbers
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.levels import stop_levels
from stepsim.graph.sizes.limits import STREAMS
from stepsim.graph.types import DType, IndexSelector, MultiHot, Tile

if TYPE_CHECKING:
    from stepsim.graph.stream import Stream


@keyword_record
class SelectorSource(Operator):
    """Selectors from a constant 0/1 array."""

    name: ClassVar[str] = "selector"
    unit_kind: ClassVar[str] = "SelectGen"
    flags: IntArray = field(repr=False)

    def attributes(self) -> dict[str, Any]:
        return {"shape": list(self.flags.shape), "selected": np.flatnonzero(self.flags).tolist()}

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        width = self.flags.shape[-1]
        rows = self.flags.reshape(-1, width)
        return {
            "selectors": _chosen(rows),
            "width": width,
            "levels": stop_levels(self.flags.shape[:-1], most=self.flags.ndim - 2),
        }


def _chosen(rows: IntArray) -> list[list[int]]:
    """The columns that are set, row by row, without a call of numpy for each of many rows."""
    columns = np.nonzero(rows)[1].tolist()
    ends = np.cumsum(np.count_nonzero(rows, axis=1)).tolist()
    return [columns[begin:end] for begin, end in pairwise([0, *ends])]


@keyword_record
class MetadataSource(Operator):
    """Integers from a constant array."""

    name: ClassVar[str] = "metadata"
    unit_kind: ClassVar[str] = "MetadataGen"
    values: IntArray = field(repr=False)

    def attributes(self) -> dict[str, Any]:
        return {"shape": list(self.values.shape), "values": self.values.ravel().tolist()}

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {
            "values": self.values.ravel().tolist(),
            "dims": list(self.values.shape),
            "lead": False,
        }


class _Sink(Operator):
    unit_kind: ClassVar[str] = "Consumer"

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {}


@keyword_record
class Consume(_Sink):
    """Discards a stream."""

    name: ClassVar[str] = "consume"


@keyword_record
class Print(_Sink):
    """Records a stream in functional runs and discards it."""

    name: ClassVar[str] = "print"


@keyword_record
class Broadcast(Operator):
    """Copies a stream in lockstep."""

    name: ClassVar[str] = "broadcast"
    unit_kind: ClassVar[str] = "Broadcast"
    count: int

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {}


def selector(flags: Any, *, as_indices: bool = False, label: str | None = None) -> Stream:
    """Make constant selectors from an array of 0 and 1.

    The select generator of the paper's simulator. For selectors that follow a routing table, which
    may be bound later, use :func:`routing`.

    Shape
    -----
    ``flags.shape`` without its last dim, of ``MultiHot[width]``.

    Parameters
    ----------
    flags : array ``[..., width]`` of 0 and 1, of rank 2 or more: which outputs each element
        selects.
    as_indices : whether they are lists of indices instead of one flag for each output.
    label : name in reports and messages.

    Fires
    -----
    One selector a cycle, from cycle 1.

    Raises
    ------
    ArgError : an entry is not 0 or 1, or the array has fewer than 2 dims or no entry.
    DTypeError : the entries are not numbers.

    Example
    -------
    >>> with st.Program("choices") as program:
    ...     which = st.selector([[1, 0, 0], [0, 1, 1]])
    ...     which.consume()
    >>> which
    Stream[2] of MultiHot[3] <- selector#0
    >>> [token.payload for token in run_functional(program).stream(which)]
    [Selection([0] of 3), Selection([1, 2] of 3)]
    """
    site = Site("selector", (), label)
    as_indices = site.flag("as_indices", as_indices)
    array = numeric_array(site, "flags", flags)
    site.require(
        array.ndim >= 2 and array.size > 0, ArgError,
        f"flags have shape {array.shape}", "give an array [..., width] with at least 2 dims",
    )  # fmt: skip
    site.require(
        bool(np.isin(array, (0, 1)).all()),
        ArgError,
        "flags must be 0 or 1",
        "use routing() for indices",
    )
    table = array.astype(np.int64)
    rows = table.reshape(-1, table.shape[-1])
    per_row = rows.sum(axis=1)
    hot = int(per_row[0]) if bool((per_row == per_row[0]).all()) else None
    counts = FixedCounts(site.owner, [Dim(int(c)) for c in rows.sum(axis=0)])
    shape = tuple(Dim(int(d)) for d in table.shape[:-1])
    width = table.shape[-1]
    kind = IndexSelector(width, int(per_row.max())) if as_indices else MultiHot(width, hot)
    out = Output(shape, kind, counts)
    return site.add(SelectorSource(flags=table), [out])[0]


def metadata(values: Any, *, label: str | None = None) -> Stream:
    """Make a stream of constant integers, such as lengths and tile indices.

    The metadata generator of the paper's simulator. Its streams are addresses of
    :func:`random_load` and operands of address functions.

    Shape
    -----
    That of the array, of ``Tile[1x1 u64]``.

    Parameters
    ----------
    values : array or nested lists of ints from 0, with at least one entry.
    label : name in reports and messages.

    Fires
    -----
    One integer a cycle, from cycle 1.

    Raises
    ------
    DTypeError : an entry is not an integer.
    ArgError : an entry is negative or beyond 63 bits, or the array is empty.

    Example
    -------
    >>> with st.Program("lengths") as program:
    ...     lengths = st.metadata([3, 1, 2])
    ...     lengths.consume()
    >>> lengths
    Stream[3] of Tile[1x1 u64] <- metadata#0
    >>> [int(token.payload.data[0, 0]) for token in run_functional(program).stream(lengths)]
    [3, 1, 2]
    """
    site = Site("metadata", (), label)
    array = whole_numbers(site, values)
    shape = tuple(Dim(int(d)) for d in array.shape)
    op = MetadataSource(values=array)
    return site.add(op, [Output(shape, Tile(DType.u64, Dim(1), Dim(1)))])[0]


def consume(x: Stream, *, label: str | None = None) -> None:
    """Discard a stream that no other operator reads.

    The consumer of the paper's simulator. Every stream of a program must be read or consumed, so
    that a forgotten one is an error.

    Parameters
    ----------
    x : any stream.
    label : name in reports and messages.

    Fires
    -----
    Once for each token, one cycle each.

    Raises
    ------
    GraphError : the stream belongs to another or to a finished program.

    Example
    -------
    >>> with st.Program("unused") as program:
    ...     st.consume(st.metadata([1, 2]))
    >>> program
    <Program 'unused': 2 operators>
    """
    Site("consume", (x,), label, ("in",)).add(Consume(), [])


def printer(x: Stream, *, label: str | None = None) -> None:
    """Keep the tokens of a stream in functional runs, and discard it.

    The printer of the paper's simulator. The tokens are in ``run_functional(...).printed``, by the
    title of the operator; in timed runs it is :func:`consume`.

    Parameters
    ----------
    x : any stream.
    label : name in reports and messages.

    Fires
    -----
    Once for each token, one cycle each.

    Raises
    ------
    GraphError : the stream belongs to another or to a finished program.

    Example
    -------
    >>> with st.Program("look") as program:
    ...     st.printer(st.metadata([1, 2]), label="lengths")
    >>> list(run_functional(program).printed)
    ['lengths#1']
    """
    Site("print", (x,), label, ("in",)).add(Print(), [])


def broadcast(x: Stream, count: int, *, label: str | None = None) -> list[Stream]:
    """Copy a stream to ``count`` streams in lockstep.

    The broadcast of the paper's simulator. A stream that several operators read is copied
    automatically, by a unit that enters the network after all others. An explicit copy enters at
    its position in the program, and its outputs are not copied again if each has one reader.

    Shape
    -----
    ``x.shape`` for each copy, with the elements of ``x``.

    Parameters
    ----------
    x : any stream.
    count : number of copies, from 1.
    label : name in reports and messages.

    Fires
    -----
    Once for each element, in zero cycles: every copy leaves in the same cycle, when all outputs
    have room. The slowest reader stalls the others.

    Raises
    ------
    ArgError : ``count`` is out of range.

    Example
    -------
    >>> with st.Program("copies") as program:
    ...     for copy in st.broadcast(st.metadata([1, 2]), 3):
    ...         copy.consume()
    >>> [op.name for op in program.operators]
    ['metadata', 'broadcast', 'consume', 'consume', 'consume']
    """
    site = Site("broadcast", (x,), label, ("in",))
    count = site.number(STREAMS, "count", count)
    return list(site.add(Broadcast(count=count), [Output.like(x)] * count))
