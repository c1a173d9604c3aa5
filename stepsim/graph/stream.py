"""Stream: the immutable handle of the data between two operators, with operators as methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload

from stepsim.errors import DimError, RankError
from stepsim.graph.accumulation import Init, Inits
from stepsim.graph.functions.function import Function
from stepsim.graph.functions.selectors import SelectorFunction
from stepsim.graph.handle import StreamHandle
from stepsim.graph.ops import sources
from stepsim.graph.ops.flat_map import flat_maps as flat_map
from stepsim.graph.ops.higher_order import group_results, maps as higher_order, reductions, scans
from stepsim.graph.ops.memory import onchip
from stepsim.graph.ops.routing import fixed_order as distribution, selecting
from stepsim.graph.ops.shape import levels as shape, references, repeats
from stepsim.graph.ops.shape.chunks import reshape as _reshape
from stepsim.graph.sizes.dims import Dim, DimLike
from stepsim.graph.sizes.shapes import format_dims

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _spells(operator: Callable[..., Any]) -> Callable[[_Method], _Method]:
    """Give a method the documentation of its operator, so that help() is complete."""

    def documented(method: _Method) -> _Method:
        summary, _, rest = (operator.__doc__ or "").partition("\n\n")
        name = operator.__name__.rstrip("_")
        # Indented like the rest, which help() strips.
        method.__doc__ = (
            f"{summary}\n\n    ``x.{method.__name__}(...)`` is ``st.{name}(...)`` with ``x`` as "
            f"its first stream.\n\n{rest}"
        )
        method.operator = operator  # type: ignore[attr-defined]
        return method

    return documented


class Stream(StreamHandle):
    """A rank-N stream: ``N + 1`` dims, outermost first, of elements of one type. Made by operators.

    Operators with one main input are methods: ``x.flatten(0, 1)`` is ``flatten(x, 0, 1)``. Streams
    are immutable and can be read any number of times; the copies that this needs are made
    automatically.

    Attributes
    ----------
    shape : the dims, outermost first, ints or symbols. ``x.dim(0)`` is the innermost.
    type : element type: a tile, selector, buffer, acknowledgment or tuple.

    Example
    -------
    >>> with st.Program("stream") as program:
    ...     x = st.linear_load(st.spec(64, 64, dtype="f32"), tile=(16, 32))
    ...     x.consume()
    >>> x, x.rank, str(x.type), x.elements()
    (Stream[4, 2] of Tile[16x32 f32] <- linear_load#0, 1, 'Tile[16x32 f32]', 8)
    """

    __slots__ = ()

    # properties stated by the user

    def with_depth(self, depth: int) -> Stream:
        """Set the FIFO depth of this stream's FIFOs (through its Broadcast too).

        Parameters
        ----------
        depth : tokens that each of them holds, from 1; it may be stated only once.

        Raises
        ------
        ArgError : the depth is out of range, or contradicts one set before.

        Example
        -------
        >>> with st.Program("deep") as program:
        ...     x = st.linear_load(st.spec(64, 64), tile=(16, 64)).with_depth(8)
        ...     x.consume()
        >>> x.depth
        8
        """
        self.program.set_depth(self, depth)
        return self

    def assume_shape(self, *shape: DimLike) -> Stream:
        """The same stream with a shape that cannot be derived; a run checks it.

        Parameters
        ----------
        *shape : one dim for each, or one list of them: ints, dims of other streams or of
            ``program.dim()``.

        Raises
        ------
        RankError : the number of dims differs.
        DimError : a dim contradicts the known one.

        Example
        -------
        >>> with st.Program("known") as program:
        ...     x = st.linear_load(st.spec(4, 8), tile=(1, 8)).flatten(0, 1)
        ...     even, odd = st.partition(x, st.routing(st.spec(4, 1), experts=2).multihot())
        ...     even.assume_shape(2).consume()
        ...     odd.consume()
        >>> program.assumptions[0].text
        'partition#3.0 has shape [2]'
        """
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

    @_spells(shape.flatten)
    def flatten(self, lo: int, hi: int, **options: Any) -> Stream:
        return shape.flatten(self, lo, hi, **options)

    @overload
    def reshape(
        self, chunk: int, dim: int = 0, pad: int | None = None, *, mask: Literal[True],
        **options: Any,
    ) -> tuple[Stream, Stream]: ...  # fmt: skip

    @overload
    def reshape(
        self, chunk: int, dim: int = 0, pad: int | None = None, **options: Any
    ) -> Stream: ...

    @_spells(_reshape)
    def reshape(self, chunk: int, dim: int = 0, pad: int | None = None, **options: Any) -> Any:
        return _reshape(self, chunk, dim, pad, **options)

    @_spells(shape.promote)
    def promote(self, **options: Any) -> Stream:
        return shape.promote(self, **options)

    @_spells(shape.unsqueeze)
    def unsqueeze(self, dim: int, **options: Any) -> Stream:
        return shape.unsqueeze(self, dim, **options)

    @_spells(repeats.expand)
    def expand(
        self, to: int | Sequence[int] | Stream, rank: int | None = None, **options: Any
    ) -> Stream:
        return repeats.expand(self, to, rank, **options)

    @_spells(repeats.repeat)
    def repeat(self, count: int | Sequence[int], **options: Any) -> Stream:
        return repeats.repeat(self, count, **options)

    @_spells(references.repeat_ref)
    def repeat_ref(self, ref: Stream, rank: int = 0, **options: Any) -> Stream:
        return references.repeat_ref(self, ref, rank, **options)

    @_spells(references.take_last)
    def take_last(self, **options: Any) -> Stream:
        return references.take_last(self, **options)

    @_spells(distribution.deinterleave)
    def deinterleave(self, n: int, **options: Any) -> list[Stream]:
        return distribution.deinterleave(self, n, **options)

    @_spells(selecting.filter_rows)
    def filter_rows(self, mask: Stream | None = None, **options: Any) -> Stream:
        return selecting.filter_rows(self, mask, **options)

    @_spells(selecting.shuffle)
    def shuffle(
        self, selector: Stream, rank: int | None = None, **options: Any
    ) -> tuple[Stream, Stream]:
        return selecting.shuffle(self, selector, rank, **options)

    @_spells(onchip.bufferize)
    def bufferize(self, rank: int, **options: Any) -> Stream:
        return onchip.bufferize(self, rank, **options)

    @_spells(onchip.streamify)
    def streamify(
        self,
        ref: Stream | None = None,
        repeat: int | Sequence[int] | None = None,
        **options: Any,
    ) -> Stream:
        return onchip.streamify(self, ref, repeat, **options)

    @_spells(higher_order.map_)
    def map(self, fn: Function | SelectorFunction, *others: Stream, **options: Any) -> Stream:
        return higher_order.map_(fn, self, *others, **options)

    @_spells(reductions.accum)
    def accum(self, fn: Function, rank: int, init: Inits | None = None, **options: Any) -> Stream:
        return reductions.accum(self, fn, rank, init, **options)

    @_spells(group_results.accum_buffer)
    def accum_buffer(
        self, fn: Function, rank: int, kept: int = 1, init: Init | None = None, **options: Any
    ) -> Stream:
        return group_results.accum_buffer(self, fn, rank, kept, init, **options)

    @_spells(group_results.row_stat)
    def row_stat(self, stat: str, rank: int, count: int | None = None, **options: Any) -> Stream:
        return group_results.row_stat(self, stat, rank, count, **options)

    @overload
    def scan(
        self, fn: Function, rank: int, init: Inits | None = None, *, taps: Literal[2],
        **options: Any,
    ) -> tuple[Stream, Stream]: ...  # fmt: skip

    @overload
    def scan(
        self, fn: Function, rank: int, init: Inits | None = None, **options: Any
    ) -> Stream: ...

    @_spells(scans.scan)
    def scan(self, fn: Function, rank: int, init: Inits | None = None, **options: Any) -> Any:
        return scans.scan(self, fn, rank, init, **options)

    @_spells(flat_map.flat_map)
    def flat_map(self, fn: Any, *others: Stream, **options: Any) -> Stream:
        return flat_map.flat_map(self, fn, *others, **options)

    @_spells(sources.consume)
    def consume(self, **options: Any) -> None:
        sources.consume(self, **options)

    @_spells(sources.printer)
    def print(self, **options: Any) -> None:
        sources.printer(self, **options)
