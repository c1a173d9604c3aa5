"""Stream: the immutable handle of what flows between two operators, with operators as methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepsim.errors import DimError, RankError
from stepsim.graph.accumulation import Init
from stepsim.graph.dims import Dim, DimLike, format_dims
from stepsim.graph.functions import Function
from stepsim.graph.handle import StreamHandle
from stepsim.graph.ops import flat_map, higher_order, onchip, shape, sources

__all__ = ["Stream"]


class Stream(StreamHandle):
    """A rank-N stream: ``N + 1`` dims, outermost first, of elements of one type.

    Operators with one main input are methods: ``x.flatten(0, 1)`` is ``flatten(x, 0, 1)``.
    """

    __slots__ = ()

    # knowledge stated by the user

    def with_depth(self, depth: int) -> Stream:
        """Set the FIFO depth of this stream's FIFOs (through its Broadcast too)."""
        self.program.set_depth(self, depth)
        return self

    def assume_shape(self, *shape: DimLike) -> Stream:
        """The same stream with a shape that the system cannot derive; checked during a run."""
        given = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        dims = tuple(Dim.of(d) for d in given)
        if len(dims) != len(self.shape):
            raise RankError(
                f"assume_shape on {self!r}: {format_dims(dims)} has {len(dims)} dims, the stream "
                f"has {len(self.shape)}. State one dim for each"
            )
        for old, new in zip(self.shape, dims, strict=True):
            if self.program.compare(old, new) is False:
                raise DimError(
                    f"assume_shape on {self!r}: {new} contradicts {old} in "
                    f"{format_dims(self.shape)}. "
                    "State only dims that are not already known"
                )
        self.program.record_assumption(
            f"{self.producer.title(self.output)} has shape {format_dims(dims)}", self.shape, dims
        )
        return Stream(self.producer, self.output, dims, self.type, self.counts, self.padding)

    # operators as methods

    def flatten(self, lo: int, hi: int, **options: Any) -> Stream:
        return shape.flatten(self, lo, hi, **options)

    def reshape(self, chunk: int, dim: int = 0, pad: int | None = None, **options: Any) -> Stream:
        return shape.reshape(self, chunk, dim, pad, **options)

    def promote(self, **options: Any) -> Stream:
        return shape.promote(self, **options)

    def unsqueeze(self, dim: int, **options: Any) -> Stream:
        return shape.unsqueeze(self, dim, **options)

    def expand(self, to: int | Stream, rank: int = 1, **options: Any) -> Stream:
        return shape.expand(self, to, rank, **options)

    def repeat(self, count: int, **options: Any) -> Stream:
        return shape.repeat(self, count, **options)

    def bufferize(self, rank: int, **options: Any) -> Stream:
        return onchip.bufferize(self, rank, **options)

    def streamify(
        self,
        ref: Stream | None = None,
        repeat: int | Sequence[int] | None = None,
        **options: Any,
    ) -> Stream:
        return onchip.streamify(self, ref, repeat, **options)

    def map(self, fn: Function, *others: Stream, **options: Any) -> Stream:
        return higher_order.map_(fn, self, *others, **options)

    def accum(self, fn: Function, rank: int, init: Init | None = None, **options: Any) -> Stream:
        return higher_order.accum(self, fn, rank, init, **options)

    def scan(self, fn: Function, rank: int, init: Init | None = None, **options: Any) -> Stream:
        return higher_order.scan(self, fn, rank, init, **options)

    def flat_map(self, fn: Any, *others: Stream, **options: Any) -> Stream:
        return flat_map.flat_map(self, fn, *others, **options)

    def consume(self, **options: Any) -> None:
        sources.consume(self, **options)

    def print(self, **options: Any) -> None:
        sources.printer(self, **options)
