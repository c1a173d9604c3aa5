"""Values of symbols that follow from constants of the program and from its routings.

The integers of `metadata` and the selectors of `selector` and routings are followed through the
operators that only reorder, copy or regroup elements. Where such integers are the lengths of a
ragged dim, or such selectors drive a partition, the sizes are known before a run, and nobody has to
bind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from stepsim.graph.handle import StreamHandle
from stepsim.graph.operator import Operator
from stepsim.graph.ops.arrays import IntArray
from stepsim.graph.ops.routing.merging import Reassemble
from stepsim.graph.ops.routing.partitioning import Parallelize, Partition
from stepsim.graph.ops.routing.routing_table import Routing, RoutingSource
from stepsim.graph.ops.shape.chunks import MaskedReshape, Reshape
from stepsim.graph.ops.shape.levels import Flatten, Promote, Unsqueeze
from stepsim.graph.ops.shape.repeats import Repeat
from stepsim.graph.ops.sources import Broadcast, MetadataSource, SelectorSource

if TYPE_CHECKING:
    from stepsim.graph.programs.program import Program

Values = IntArray | None
"""The elements of a stream, a row for each; integers are rows of one. None: the run decides."""

_MOST_ELEMENTS = 1 << 22
"""Longer streams are left to the run."""


def constant_values(
    program: Program, indices: Mapping[Routing, IntArray]
) -> Iterator[tuple[StreamHandle, IntArray]]:
    """The streams whose elements are known, with these; ``indices`` are those of bound routings."""
    found: dict[tuple[int, int], IntArray] = {}
    for op in program.operators:
        follow = _RULES.get(type(op))
        if isinstance(op, RoutingSource):
            table = indices.get(op.routing)
            made = [None if table is None else _flags(op.chosen(table), op.routing.experts)]
        elif follow is None:
            continue
        else:
            made = follow(op, [found.get(x.key) for x in op.inputs])
        for stream, values in zip(op.outputs, made, strict=False):
            if values is not None and values.size <= _MOST_ELEMENTS:
                found[stream.key] = values
                yield stream, values


def _flags(chosen: IntArray, width: int) -> IntArray:
    """A row of flags for each selector of set flags ``[..., selectors, flags]``."""
    rows = chosen.reshape(-1, chosen.shape[-1])
    made = np.zeros((len(rows), width), dtype=np.int64)
    np.put_along_axis(made, rows, 1, axis=1)
    return made


def _chunk(stream: StreamHandle, rank: int) -> int | None:
    """Elements in each chunk of ``rank`` inner dims; None if not all have as many."""
    inner = stream.shape[len(stream.shape) - rank :] if rank else ()
    size = 1
    for dim in inner:
        if not isinstance(dim.size, int):
            return None
        size *= dim.size
    return size


def _chunks(stream: StreamHandle, rank: int, values: Values) -> Values:
    """The elements as ``[chunks, elements of a chunk, width]``."""
    size = _chunk(stream, rank)
    if values is None or not size or len(values) % size:
        return None
    return values.reshape(-1, size, values.shape[1])


def _as_is(op: Operator, given: list[Values]) -> list[Values]:
    return [given[0]] * len(op.outputs)


def _reshape(op: Any, given: list[Values]) -> list[Values]:
    """Chunks of a dim that they divide; padding would be elements of its own."""
    whole = op.inputs[0].shape[len(op.inputs[0].shape) - 1 - op.dim]
    divides = isinstance(whole.size, int) and whole.size % op.chunk == 0
    return [given[0] if op.chunk == 1 or divides else None]


def _repeat(op: Any, given: list[Values]) -> list[Values]:
    values = given[0]
    times = int(np.prod(op.counts))
    if values is None or values.size * times > _MOST_ELEMENTS:
        return [None]
    return [np.repeat(values, times, axis=0)]


def _partition(op: Any, given: list[Values]) -> list[Values]:
    chunks, flags = _chunks(op.inputs[0], op.rank, given[0]), given[1]
    if chunks is None or flags is None or len(flags) != len(chunks):
        return [None] * len(op.outputs)
    return [
        chunks[flags[:, port] != 0].reshape(-1, chunks.shape[2]) for port in range(flags.shape[1])
    ]


def _parallelize(op: Any, given: list[Values]) -> list[Values]:
    lanes = len(op.outputs)
    chunks = _chunks(op.inputs[0], len(op.inputs[0].shape) - 1, given[0])
    if chunks is None:
        return [None] * lanes
    return [chunks[lane::lanes].reshape(-1, chunks.shape[2]) for lane in range(lanes)]


def _reassemble(op: Any, given: list[Values]) -> list[Values]:
    """One chunk of each selector, whose origin does not depend on the order of arrival."""
    *parts, flags = given
    if flags is None or not np.all(flags.sum(axis=1) == 1):
        return [None]
    ports = np.argmax(flags, axis=1)
    pieces = [_chunks(x, op.rank, one) for x, one in zip(op.inputs[:-1], parts, strict=True)]
    if len(pieces) != flags.shape[1]:
        return [None]
    first: Values = next((one for one in pieces if one is not None), None)
    if first is None:
        return [None]
    made = np.empty((len(ports), *first.shape[1:]), dtype=np.int64)
    for port, piece in enumerate(pieces):
        places = np.flatnonzero(ports == port)
        if not len(places):
            continue
        if piece is None or len(piece) != len(places) or piece.shape[1:] != first.shape[1:]:
            return [None]
        made[places] = piece
    return [made.reshape(-1, first.shape[2])]


_RULES: Mapping[type, Callable[[Any, list[Values]], list[Values]]] = {
    MetadataSource: lambda op, _: [op.values.reshape(-1, 1)],
    SelectorSource: lambda op, _: [op.flags.reshape(-1, op.flags.shape[-1])],
    Broadcast: _as_is,
    Flatten: _as_is,
    Promote: _as_is,
    Unsqueeze: _as_is,
    Reshape: _reshape,
    MaskedReshape: lambda op, given: [*_reshape(op, given), None],
    Repeat: _repeat,
    Partition: _partition,
    Parallelize: _parallelize,
    Reassemble: _reassemble,
}
"""What operators pass on, by their class; those that are left out compute, or depend on time."""
