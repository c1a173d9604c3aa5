"""Sources, sinks and helpers: constant selectors, metadata, broadcast, feedback."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stepsim.errors import ArgError
from stepsim.graph.dims import Dim
from stepsim.graph.handle import FixedCounts
from stepsim.graph.levels import stop_levels
from stepsim.graph.limits import STREAMS
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.ops.arrays import IntArray, numeric_array, whole_numbers
from stepsim.graph.types import DType, IndexSelector, MultiHot, Tile

if TYPE_CHECKING:
    from stepsim.graph.stream import Stream

__all__ = [
    "Broadcast",
    "Consume",
    "MetadataSource",
    "Print",
    "SelectorSource",
    "broadcast",
    "consume",
    "metadata",
    "printer",
    "selector",
]


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
            "levels": stop_levels(self.flags.shape[:-1], most=self.flags.ndim - 2),
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
    """Discards a stream."""

    name: ClassVar[str] = "consume"


@dataclass(eq=False, kw_only=True)
class Print(_Sink):
    """Shows a stream in functional runs and discards it."""

    name: ClassVar[str] = "print"


@dataclass(eq=False, kw_only=True)
class Broadcast(Operator):
    """Copies a stream in lockstep."""

    name: ClassVar[str] = "broadcast"
    unit_kind: ClassVar[str] = "Broadcast"
    count: int

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {}


def selector(flags: Any, *, as_indices: bool = False, label: str | None = None) -> Stream:
    """Constant selectors from a 0/1 array ``[..., width]``; shape ``[...]``.

    ``as_indices`` types them as lists of indices instead of one flag for each output.
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
    """Constant non-negative integers as 1x1 u64 tiles; the shape is that of the array."""
    site = Site("metadata", (), label)
    array = whole_numbers(site, values)
    shape = tuple(Dim(int(d)) for d in array.shape)
    op = MetadataSource(values=array)
    return site.add(op, [Output(shape, Tile(DType.u64, Dim(1), Dim(1)))])[0]


def consume(x: Stream, *, label: str | None = None) -> None:
    """Discard a stream that no other operator reads."""
    Site("consume", (x,), label, ("in",)).add(Consume(), [])


def printer(x: Stream, *, label: str | None = None) -> None:
    """Show a stream in functional runs."""
    Site("print", (x,), label, ("in",)).add(Print(), [])


def broadcast(x: Stream, count: int, *, label: str | None = None) -> list[Stream]:
    """Copy a stream explicitly. Streams that are read several times are copied automatically."""
    site = Site("broadcast", (x,), label, ("in",))
    count = site.number(STREAMS, "count", count)
    return list(site.add(Broadcast(count=count), [Output.like(x)] * count))
