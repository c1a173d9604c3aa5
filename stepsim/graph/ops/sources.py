"""Sources, sinks and helpers: routing tables, selectors, metadata, broadcast, feedback."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from stepsim.errors import ArgError, GraphError, LoweringError
from stepsim.graph.dims import Dim, DimLike, format_dims
from stepsim.graph.operator import Bindings, Operator, Output, Site, source_line
from stepsim.graph.ops.arrays import IntArray, whole_numbers
from stepsim.graph.program import Program, current_program
from stepsim.graph.stream import Counts, FixedCounts, Stream
from stepsim.graph.types import DType, ElementType, IndexSelector, MultiHot, TensorSpec, Tile

__all__ = [
    "Broadcast",
    "Consume",
    "Feedback",
    "FeedbackSource",
    "MetadataSource",
    "Print",
    "Routing",
    "RoutingSource",
    "SelectorSource",
    "broadcast",
    "consume",
    "feedback",
    "metadata",
    "printer",
    "routing",
    "selector",
]


def _levels(shape: Sequence[int]) -> list[int]:
    """Stop level of every element of a stream of static ``shape``, none for the outermost dim."""
    levels = np.zeros(shape, dtype=np.int64)
    for level in range(1, len(shape)):
        index: tuple[Any, ...] = (..., *([-1] * level))
        levels[index] = level
    return [int(v) for v in levels.ravel()]


class Routing:
    """A top-k routing table: which ``k`` of ``experts`` each of ``rows`` goes to.

    It owns the symbols ``count[i]`` (rows routed to expert i), shared by every partition that a
    selector of this routing drives. Made by :func:`routing`.
    """

    def __init__(
        self,
        program: Program,
        rows: int,
        k: int,
        experts: int,
        indices: IntArray | None,
        where: str,
    ) -> None:
        self.program = program
        self.rows = rows
        self.k = k
        self.experts = experts
        self.indices = indices
        number = len(program.routings)
        self.name = "routing" if number == 0 else f"routing{number}"
        self.count = _RoutingCounts(
            program,
            "n" if number == 0 else f"n{number}_",
            f"rows of {self.name} to one expert ({where})",
        )
        program.routings.append(self)

    def multihot(self, *, label: str | None = None) -> Stream:
        """``[rows]`` selectors with k bits set."""
        return self._source("multihot", (self.rows,), self.k, label)

    def onehot(self, *, label: str | None = None) -> Stream:
        """``[rows, k]`` selectors with one bit set, in the order of the table."""
        return self._source("onehot", (self.rows, self.k), 1, label)

    def counts_of(self, indices: Any) -> list[int]:
        """Rows per expert of an index array ``[rows, k]``."""
        table = check_indices(self, indices)
        return [int(c) for c in np.bincount(table.ravel(), minlength=self.experts)]

    def _source(self, encoding: str, shape: tuple[int, ...], hot: int, label: str | None) -> Stream:
        site = Site(f"{self.name}.{encoding}", (), label)
        if site.owner is not self.program:
            site.fail(
                GraphError, f"{self!r} belongs to program '{self.program.name}'",
                "make a routing inside the program that uses it",
            )  # fmt: skip
        op = RoutingSource(routing=self, encoding=encoding)
        dims = tuple(Dim(d) for d in shape)
        return site.add(op, [Output(dims, MultiHot(self.experts, hot), self.count)])[0]

    def __repr__(self) -> str:
        state = "unbound" if self.indices is None else "bound"
        return f"<Routing '{self.name}': {self.rows} rows, top {self.k} of {self.experts}, {state}>"


class _RoutingCounts(Counts):
    """``routing.count[i]``."""

    def __getitem__(self, index: int) -> Dim:
        return self.of(index)


def check_indices(table: Routing, indices: Any) -> IntArray:
    """An index array checked against the shape and range of a routing."""
    array = np.asarray(indices)
    if array.shape != (table.rows, table.k):
        raise ArgError(
            f"{table!r}: the index array has shape {array.shape}, expected ({table.rows}, "
            f"{table.k})"
        )
    if array.dtype.kind not in "iu":
        raise ArgError(f"{table!r}: indices must be integers, found {array.dtype}")
    bad = np.argwhere((array < 0) | (array >= table.experts))
    if bad.size:
        row, slot = (int(v) for v in bad[0])
        raise ArgError(
            f"{table!r}: row {row}, slot {slot} names expert {int(array[row, slot])}; experts are "
            f"0..{table.experts - 1}"
        )
    ordered = np.sort(array, axis=1)
    twice = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
    if twice.size:
        raise ArgError(
            f"{table!r}: row {int(twice[0][0])} names an expert twice: "
            f"{array[twice[0][0]].tolist()}"
        )
    return array.astype(np.int64)


@dataclass(eq=False, kw_only=True)
class RoutingSource(Operator):
    """Selectors of a routing table."""

    name: ClassVar[str] = "routing"
    unit_kind: ClassVar[str] = "SelectGen"
    routing: Routing
    encoding: str

    def attributes(self) -> dict[str, Any]:
        r = self.routing
        known = None if r.indices is None else hashlib.sha256(r.indices.tobytes()).hexdigest()
        return {
            "routing": r.name,
            "encoding": self.encoding,
            "rows": r.rows,
            "k": r.k,
            "of": r.experts,
            "indices": known,
        }

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        given = bindings.get(self.routing, self.routing.indices)
        if given is None:
            raise LoweringError(
                f"{self.title()}: {self.routing!r} has no indices. Pass bindings={{routing: array "
                f"of shape ({self.routing.rows}, {self.routing.k})}} ({self.source})"
            )
        table = check_indices(self.routing, given)
        if self.encoding == "multihot":
            hot = [sorted(row) for row in table.tolist()]
            levels = [0] * len(hot)
        else:
            hot = [[e] for row in table.tolist() for e in row]
            levels = _levels(table.shape)
        return {"selectors": hot, "width": self.routing.experts, "levels": levels}


@dataclass(eq=False, kw_only=True)
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
            "selectors": [np.flatnonzero(row).tolist() for row in rows],
            "width": width,
            "levels": _levels(self.flags.shape[:-1]),
        }


@dataclass(eq=False, kw_only=True)
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


@dataclass(eq=False, kw_only=True)
class Consume(_Sink):
    """Swallows a stream."""

    name: ClassVar[str] = "consume"


@dataclass(eq=False, kw_only=True)
class Print(_Sink):
    """Shows a stream in functional runs and swallows it."""

    name: ClassVar[str] = "print"


@dataclass(eq=False, kw_only=True)
class Broadcast(Operator):
    """Copies a stream, in lock step."""

    name: ClassVar[str] = "broadcast"
    unit_kind: ClassVar[str] = "Broadcast"
    count: int

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {}


@dataclass(eq=False, kw_only=True)
class FeedbackSource(Operator):
    """Stands for a stream that is made later; vanishes in wiring."""

    name: ClassVar[str] = "feedback"
    connected: Stream | None = None

    def attributes(self) -> dict[str, Any]:
        return {"connected": None if self.connected is None else list(self.connected.key)}

    def loops_back(self) -> Stream | None:
        return self.connected

    def awaits_connection(self) -> bool:
        return self.connected is None


class Feedback(Stream):
    """A stream that :meth:`connect` closes into a cycle."""

    __slots__ = ()

    def connect(self, stream: Stream) -> None:
        """Say which stream this one is; type and shape must agree."""
        site = Site("feedback.connect", (stream,), None, ("stream",))
        source = self.producer
        assert isinstance(source, FeedbackSource)
        site.require(
            stream.program is self.program, GraphError, "the feedback belongs to another program"
        )
        site.require(
            source.connected is None, GraphError, f"{source.title()} is already connected",
            "connect a feedback once",
        )  # fmt: skip
        site.require_type(stream.type == self.type, "stream", stream, str(self.type))
        site.same_dims(self.shape, stream.shape, "feedback", "stream")
        source.connected = stream


def routing(
    indices: TensorSpec | np.ndarray[Any, Any] | Sequence[Sequence[int]], experts: int
) -> Routing:
    """A routing table from an index array ``[rows, k]`` or, unbound, from ``spec(rows, k)``."""
    where = source_line()
    program = current_program()
    if program is None:
        raise GraphError(
            f"routing: no program is active. Build inside `with st.Program(...)` ({where})"
        )
    array = None if isinstance(indices, TensorSpec) else np.asarray(indices)
    shape = indices.shape if isinstance(indices, TensorSpec) else np.asarray(indices).shape
    if len(shape) != 2 or shape[0] < 1 or not 1 <= shape[1] <= experts:
        raise ArgError(
            f"routing: indices have shape {tuple(shape)}, expected [rows, k] with 1 <= k <= "
            f"{experts} experts ({where})"
        )
    table = Routing(program, int(shape[0]), int(shape[1]), experts, None, where)
    if array is not None:
        table.indices = check_indices(table, array)
    return table


def selector(flags: Any, *, as_indices: bool = False, label: str | None = None) -> Stream:
    """Constant selectors from a 0/1 array ``[..., width]``; shape ``[...]``.

    ``as_indices`` types them as lists of indices instead of one flag for each output.
    """
    site = Site("selector", (), label)
    array = np.asarray(flags)
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
    """Constant non-negative integers as 1x1 u64 tiles; the shape is that of the array."""
    site = Site("metadata", (), label)
    array = whole_numbers(site, values)
    shape = tuple(Dim(int(d)) for d in array.shape)
    op = MetadataSource(values=array)
    return site.add(op, [Output(shape, Tile(DType.u64, Dim(1), Dim(1)))])[0]


def consume(x: Stream, *, label: str | None = None) -> None:
    """Swallow a stream that nobody else reads."""
    Site("consume", (x,), label, ("in",)).add(Consume(), [])


def printer(x: Stream, *, label: str | None = None) -> None:
    """Show a stream in functional runs."""
    Site("print", (x,), label, ("in",)).add(Print(), [])


def broadcast(x: Stream, count: int, *, label: str | None = None) -> list[Stream]:
    """Explicit copies. Streams that are read several times get one without asking."""
    site = Site("broadcast", (x,), label, ("in",))
    site.require(
        isinstance(count, int) and count >= 1,
        ArgError,
        f"count must be an int >= 1, found {count!r}",
    )
    return list(site.add(Broadcast(count=count), [Output.like(x)] * count))


def feedback(type: ElementType, shape: Sequence[DimLike], *, label: str | None = None) -> Feedback:
    """A stream to be connected later; closes cycles, usually into an eager merge."""
    site = Site("feedback", (), label)
    dims = tuple(Dim.of(d) for d in shape)
    site.require(len(dims) >= 1, ArgError, f"shape {format_dims(dims)} has no dim")
    made = site.add(FeedbackSource(), [Output(dims, type)])[0]
    return Feedback(made.producer, 0, made.shape, made.type)
