"""Stream: the immutable handle of what flows between two operators.

A stream knows its shape, element type, producer port and program. Structural operators are methods
(``x.flatten(0, 1)``); they call the functions of :mod:`stepsim.graph.ops`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepsim.errors import DimError, RankError
from stepsim.graph.dims import Dim, DimLike, cardinality, format_dims, total_over
from stepsim.graph.sizes import Size, product
from stepsim.graph.types import ElementType, Tile

if TYPE_CHECKING:
    from stepsim.graph.functions import Function, Init
    from stepsim.graph.operator import Operator
    from stepsim.graph.program import Program

__all__ = [
    "Counts",
    "FixedCounts",
    "Padding",
    "SplitPadding",
    "Stream",
    "blurred",
    "stream_elements",
]


@dataclass(frozen=True, slots=True)
class Padding:
    """Rows were padded: of ``padded`` rows in the stream ``valid`` are real.

    ``chunk_rows`` rows were filled up together, so only tiles of at least as many rows are sure to
    hold a valid one.
    """

    valid: Dim
    padded: Size
    chunk_rows: Size


@dataclass(frozen=True, slots=True)
class SplitPadding:
    """Padding of a merged stream, by input of the merge; without parts nothing is known."""

    parts: tuple[Padding | SplitPadding | None, ...] = ()


def blurred(padding: Padding | SplitPadding | None) -> SplitPadding | None:
    """What is left to say about padding after elements were picked or reordered."""
    return None if padding is None else SplitPadding()


class Counts:
    """How many elements each output of a partition by one selector receives.

    Symbols are made on first use, so that selectors that never partition own none.
    """

    def __init__(self, program: Program, base: str, provenance: str) -> None:
        self.program = program
        self.base = base
        self.provenance = provenance
        self._dims: dict[int, Dim] = {}

    def of(self, index: int) -> Dim:
        """Count of output ``index``."""
        if index not in self._dims:
            self._dims[index] = self._make(index)
        return self._dims[index]

    def known(self) -> dict[int, Dim]:
        """Counts used so far, by output index."""
        return dict(self._dims)

    def part(self, index: int) -> Stream | None:
        """The merged stream that output ``index`` restores, if the selector comes from a merge."""
        return None

    def _make(self, index: int) -> Dim:
        name = f"{self.base}{index}"
        return Dim(self.program.namer.symbol(name, f"{self.provenance}, output {index}"))


class FixedCounts(Counts):
    """Counts that follow from the program: a constant selector, an eager merge, a filter."""

    def __init__(self, program: Program, dims: Sequence[Dim], parts: Sequence[Stream] = ()) -> None:
        super().__init__(program, "", "")
        self._dims = dict(enumerate(dims))
        self._parts = tuple(parts)

    def part(self, index: int) -> Stream | None:
        return self._parts[index] if self._parts else None


class Stream:
    """A rank-N stream: ``N + 1`` dims, outermost first, of elements of one type."""

    __slots__ = ("counts", "padding", "port", "producer", "shape", "type")

    producer: Operator
    port: int
    shape: tuple[Dim, ...]
    type: ElementType
    counts: Counts | None
    padding: Padding | SplitPadding | None

    def __init__(
        self,
        producer: Operator,
        port: int,
        shape: tuple[Dim, ...],
        type: ElementType,
        counts: Counts | None = None,
        padding: Padding | SplitPadding | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "producer", producer)
        put(self, "port", port)
        put(self, "shape", shape)
        put(self, "type", type)
        put(self, "counts", counts)
        put(self, "padding", padding)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"streams are immutable; cannot set {name}. State what you know with assume_shape()"
        )

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        for name, value in state[1].items():
            object.__setattr__(self, name, value)

    @property
    def program(self) -> Program:
        return self.producer.program

    @property
    def rank(self) -> int:
        """Number of dims minus one."""
        return len(self.shape) - 1

    @property
    def key(self) -> tuple[int, int]:
        """Operator id and output port: the identity of the channel behind this handle."""
        return self.producer.id, self.port

    @property
    def depth(self) -> int | None:
        """FIFO depth set for this stream, or None for the program's default."""
        return self.program.depths.get(self.key)

    def dim(self, index: int) -> Dim:
        """Dim ``index``, counted from the innermost."""
        if not 0 <= index <= self.rank:
            raise RankError(f"dim {index} does not exist: {self!r} has dims 0..{self.rank}")
        return self.shape[self.rank - index]

    def elements(self) -> Size:
        """Number of elements, ``||stream||``."""
        return cardinality(self.shape)

    def describe(self) -> str:
        """``Stream[n1, 1] of Tile[1x64 bf16]``."""
        return f"Stream{format_dims(self.shape)} of {self.type}"

    def __repr__(self) -> str:
        return f"{self.describe()} <- {self.producer.title(self.port)}"

    # knowledge stated by the user

    def with_depth(self, depth: int) -> Stream:
        """Set the FIFO depth of this stream's channels (through its Broadcast too)."""
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
            f"{self.producer.title(self.port)} has shape {format_dims(dims)}", self.shape, dims
        )
        return Stream(self.producer, self.port, dims, self.type, self.counts, self.padding)

    # operators as methods

    def flatten(self, lo: int, hi: int, **options: Any) -> Stream:
        from stepsim.graph.ops import shape as ops

        return ops.flatten(self, lo, hi, **options)

    def reshape(self, chunk: int, dim: int = 0, pad: int | None = None, **options: Any) -> Stream:
        from stepsim.graph.ops import shape as ops

        return ops.reshape(self, chunk, dim, pad, **options)

    def promote(self, **options: Any) -> Stream:
        from stepsim.graph.ops import shape as ops

        return ops.promote(self, **options)

    def unsqueeze(self, dim: int, **options: Any) -> Stream:
        from stepsim.graph.ops import shape as ops

        return ops.unsqueeze(self, dim, **options)

    def expand(self, to: int | Stream, rank: int = 1, **options: Any) -> Stream:
        from stepsim.graph.ops import shape as ops

        return ops.expand(self, to, rank, **options)

    def repeat(self, count: int, **options: Any) -> Stream:
        from stepsim.graph.ops import shape as ops

        return ops.repeat(self, count, **options)

    def bufferize(self, rank: int, **options: Any) -> Stream:
        from stepsim.graph.ops import onchip as ops

        return ops.bufferize(self, rank, **options)

    def streamify(
        self,
        ref: Stream | None = None,
        repeat: int | Sequence[int] | None = None,
        **options: Any,
    ) -> Stream:
        from stepsim.graph.ops import onchip as ops

        return ops.streamify(self, ref, repeat, **options)

    def map(self, fn: Function, *others: Stream, **options: Any) -> Stream:
        from stepsim.graph.ops import higher_order as ops

        return ops.map_(fn, self, *others, **options)

    def accum(self, fn: Function, rank: int, init: Init | None = None, **options: Any) -> Stream:
        from stepsim.graph.ops import higher_order as ops

        return ops.accum(self, fn, rank, init, **options)

    def scan(self, fn: Function, rank: int, init: Init | None = None, **options: Any) -> Stream:
        from stepsim.graph.ops import higher_order as ops

        return ops.scan(self, fn, rank, init, **options)

    def flat_map(self, fn: Any, *others: Stream, **options: Any) -> Stream:
        from stepsim.graph.ops import flat_map as ops

        return ops.flat_map(self, fn, *others, **options)

    def consume(self, **options: Any) -> None:
        from stepsim.graph.ops import sources as ops

        ops.consume(self, **options)

    def print(self, **options: Any) -> None:
        from stepsim.graph.ops import sources as ops

        ops.printer(self, **options)


def stream_elements(stream: Stream) -> Size:
    """Scalars that pass through a stream of tiles: every tile at its own, possibly ragged, size."""
    tile = stream.type
    assert isinstance(tile, Tile)
    first, second = (tile.cols, tile.rows) if tile.cols.is_ragged else (tile.rows, tile.cols)
    return product((total_over(first, stream.elements()), second.bound))
