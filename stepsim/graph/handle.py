"""The properties of a stream, without the operators that are its methods.

Operators are built on handles; :class:`stepsim.graph.stream.Stream` adds the operators as methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepsim.arguments import is_whole, shown
from stepsim.errors import RankError
from stepsim.frozen import frozen
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.shapes import cardinality, format_dims
from stepsim.graph.sizes.sizes import Expression, Size, expression
from stepsim.graph.types import ElementType

if TYPE_CHECKING:
    from stepsim.graph.operator import Operator
    from stepsim.graph.programs.program import Program
    from stepsim.graph.stream import Stream


@frozen
class Padding:
    """Rows were padded: of ``padded`` rows in the stream, ``valid`` are real.

    ``chunk_rows`` rows were padded together, so only tiles of at least that many rows are sure to
    hold a valid one.
    """

    valid: Dim
    padded: Size
    chunk_rows: Size


@frozen
class SplitPadding:
    """Padding of a merged stream, by input of the merge; empty if unknown."""

    parts: tuple[Padding | SplitPadding | None, ...] = ()


def blurred(padding: Padding | SplitPadding | None) -> SplitPadding | None:
    """The remaining knowledge of padding after elements were selected or reordered."""
    return None if padding is None else SplitPadding()


class Counts:
    """The number of elements that each output of a partition by one selector receives.

    Symbols are made on first use, so that selectors without a partition have none.
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
        """The input of a merge that output ``index`` restores, if the selector comes from a
        merge."""
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


class RepeatedCounts(Counts):
    """Counts of selectors that are each repeated a constant number of times.

    Outputs do not restore inputs of a merge: there are several chunks for each of its chunks.
    """

    def __init__(self, once: Counts, times: int) -> None:
        super().__init__(once.program, "", "")
        self.once = once
        self.times = times

    def _make(self, index: int) -> Dim:
        return self.once.of(index) * self.times


class StreamHandle:
    """Shape, element type, producer and program of a stream. Users get a :class:`Stream`."""

    __slots__ = ("counts", "output", "padding", "producer", "shape", "type")

    producer: Operator
    output: int
    shape: tuple[Dim, ...]
    type: ElementType
    counts: Counts | None
    padding: Padding | SplitPadding | None

    def __init__(
        self,
        producer: Operator,
        output: int,
        shape: tuple[Dim, ...],
        type: ElementType,
        counts: Counts | None = None,
        padding: Padding | SplitPadding | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "producer", producer)
        put(self, "output", output)
        put(self, "shape", shape)
        put(self, "type", type)
        put(self, "counts", counts)
        put(self, "padding", padding)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"streams are immutable; cannot set {name}. State known sizes with assume_shape()"
        )

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        for name, value in state[1].items():
            object.__setattr__(self, name, value)

    @property
    def program(self) -> Program:
        """The program that the stream belongs to."""
        return self.producer.program

    @property
    def rank(self) -> int:
        """Number of dims minus one."""
        return len(self.shape) - 1

    @property
    def key(self) -> tuple[int, int]:
        """Operator id and number of the output: the identity of the FIFO behind this handle."""
        return self.producer.id, self.output

    @property
    def depth(self) -> int | None:
        """FIFO depth set for this stream, or None for the program's default."""
        return self.program.depths.get(self.key)

    def dim(self, index: int) -> Dim:
        """Dim ``index``, counted from the innermost."""
        if not is_whole(index):
            raise RankError(f"dim {shown(index)} does not exist: the index of a dim is an int")
        if not 0 <= index <= self.rank:
            raise RankError(f"dim {shown(index)} does not exist: {self!r} has dims 0..{self.rank}")
        return self.shape[self.rank - int(index)]

    def cardinality(self) -> Size:
        """Number of elements as an internal formula."""
        return cardinality(self.shape)

    def elements(self) -> Expression:
        """Number of elements, ``||stream||``: an int or a sympy expression."""
        return expression(self.cardinality())

    def describe(self) -> str:
        """``Stream[n1, 1] of Tile[1x64 bf16]``."""
        return f"Stream{format_dims(self.shape)} of {self.type}"

    def __repr__(self) -> str:
        return f"{self.describe()} <- {self.producer.title(self.output)}"
