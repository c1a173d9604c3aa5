"""Feedback: a stream that is read before it is defined, which closes a cycle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from stepsim.arguments import shown
from stepsim.errors import ArgError, GraphError
from stepsim.frozen import keyword_record
from stepsim.graph.operator import Operator, Output, Site
from stepsim.graph.sizes.dims import Dim, DimLike
from stepsim.graph.sizes.shapes import format_dims
from stepsim.graph.stream import Stream
from stepsim.graph.types import ElementType


@keyword_record
class FeedbackSource(Operator):
    """Placeholder for a stream that is connected later; wiring removes it."""

    name: ClassVar[str] = "feedback"
    connected: Stream | None = None

    def attributes(self) -> dict[str, Any]:
        return {"connected": None if self.connected is None else list(self.connected.key)}

    def loops_back(self) -> Stream | None:
        return self.connected

    def awaits_connection(self) -> bool:
        return self.connected is None


def _behind(stream: Stream) -> Iterator[Operator]:
    """The producer of a stream, following feedback placeholders."""
    found: Stream | None = stream
    while found is not None:
        yield found.producer
        found = found.producer.loops_back()


class Feedback(Stream):
    """A stream that :meth:`connect` closes into a cycle. Made by :func:`feedback`."""

    __slots__ = ()

    def connect(self, stream: Stream) -> None:
        """Connect the actual stream; type and shape must agree."""
        site = Site("feedback.connect", (stream,), None, ("stream",))
        source = self.producer
        assert isinstance(source, FeedbackSource)
        site.require(
            stream.program is self.program, GraphError, "the feedback belongs to another program"
        )
        site.require(
            source.connected is None, GraphError, f"{source.called()} is already connected",
            "connect a feedback once",
        )  # fmt: skip
        site.require_type(stream.type == self.type, "stream", stream, str(self.type))
        site.same_dims(self.shape, stream.shape, "feedback", "stream")
        site.require(
            all(op is not source for op in _behind(stream)),
            GraphError,
            f"{source.called()} is connected to itself; nothing produces its tokens",
            "connect a stream that an operator produces",
        )
        source.connected = stream


def feedback(type: ElementType, shape: Sequence[DimLike], *, label: str | None = None) -> Feedback:
    """Make a stream that is connected later, which closes a cycle.

    The cycle of the STeP paper's dynamic parallelization; the usual reader is an
    :func:`eager_merge`. Wiring removes the placeholder: the FIFO runs from the producer of the
    connected stream to the reader.

    Shape
    -----
    ``shape``, of ``type``: those of the stream that ``connect(stream)`` will take.

    Parameters
    ----------
    type : element type, such as ``st.Tile.of("u64", 1, 1)``.
    shape : dims, outermost first; sizes known only at run time are made by ``program.dim()``.
    label : name in reports and messages.

    Fires
    -----
    Never: it is not a unit. A cycle starts only when something enters it from outside; the FIFOs of
    the cycle must hold everything that circulates.

    Raises
    ------
    ArgError : ``type`` is not an element type, or ``shape`` has no dims.
    GraphError : it is not connected at the end of the program.

    Example
    -------
    >>> with st.Program("two in flight", compute_bw=64) as program:
    ...     done = st.feedback(st.Tile.of("u64", 1, 1), [2])
    ...     tokens, which = st.eager_merge([st.metadata([1, 1]), done])
    ...     which.consume()
    ...     first, rest = st.partition(tokens, st.selector([[1, 0]] * 2 + [[0, 1]] * 2))
    ...     done.connect(first)
    ...     rest.consume()
    >>> print(tokens)
    Stream[4] of Tile[1x1 u64] <- eager_merge#2.0
    >>> st.simulate(program).status
    'ok'
    """
    site = Site("feedback", (), label)
    if not isinstance(type, ElementType):
        site.fail(
            ArgError,
            f"type must be an element type such as Tile.of('bf16', 1, 64), found {shown(type)}",
        )
    if not isinstance(shape, list | tuple):
        site.fail(ArgError, f"shape must be a list of dims, found {shown(shape)}")
    dims = tuple(Dim.of(d) for d in shape)
    site.require(len(dims) >= 1, ArgError, f"shape {format_dims(dims)} has no dim")
    made = site.add(FeedbackSource(), [Output(dims, type)])[0]
    return Feedback(made.producer, 0, made.shape, made.type)
