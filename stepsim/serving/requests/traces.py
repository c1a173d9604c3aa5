"""Requests of recorded traces, of every format that ``trace_io`` reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import Range
from stepsim.errors import TraceError
from stepsim.serving.requests.prefixes import RecordedIds
from stepsim.serving.requests.requests import MOST_TOKENS, Requests
from stepsim.serving.seconds import NANOSECONDS
from stepsim.trace_io import RequestTrace, load_requests
from stepsim.typed import typed_fields

MOONCAKE_TOKENS = 512
"""Tokens of a block that has an id in Mooncake's traces."""

_TOKENS = Range(MOST_TOKENS, "tokens")
_ROWS = Range((1 << 63) - 1, "requests")


@typed_fields
@dataclass(frozen=True, slots=True)
class TraceRequests:
    """The requests of a trace. The first of them arrives at 0.

    Attributes
    ----------
    trace : a request trace of any format, or the name of a data set.
    first : number of the first request, from 1.
    count : number of requests; None: all from the first one on.
    output_tokens : generated tokens of each; None: those of the trace.
    id_tokens : tokens of the blocks whose ids the trace has, such as 512 of Mooncake's.
    format, column : as in :func:`stepsim.load_requests`.

    Raises
    ------
    ArgError : a number is out of range.
    """

    trace: str
    first: int = 1
    count: int | None = None
    output_tokens: int | None = None
    id_tokens: int = MOONCAKE_TOKENS
    format: str | None = None
    column: str | None = None

    def __post_init__(self) -> None:
        _ROWS.checked("first", self.first)
        if self.count is not None:
            _ROWS.checked("count", self.count)
        if self.output_tokens is not None:
            _TOKENS.checked("output_tokens", self.output_tokens)
        _TOKENS.checked("id_tokens", self.id_tokens)

    def requests(self) -> Requests:
        """The requests.

        Raises
        ------
        TraceError : the trace is unreadable, or has no generated tokens and none are given.
        ArgError : the trace has fewer requests, or one without a prompt or an output.
        """
        trace = load_requests(self.trace, format=self.format, column=self.column)
        last = len(trace) if self.count is None else self.first + self.count - 1
        return requests_of(
            trace.window(self.first, last),
            output_tokens=self.output_tokens,
            id_tokens=self.id_tokens,
            number=self.first - 1,
        )


def requests_of(
    trace: RequestTrace,
    *,
    output_tokens: int | None = None,
    id_tokens: int = MOONCAKE_TOKENS,
    number: int = 0,
) -> Requests:
    """The requests of a trace, the first at 0; arguments as in `TraceRequests`.

    ``number`` is that of the first one in the source.

    Raises
    ------
    TraceError, ArgError : as `TraceRequests.requests`.
    """
    times = trace.arrival_seconds
    return Requests.of(
        trace.context_tokens,
        generated_tokens(trace, output_tokens),
        arrival_ns=None if times is None else np.rint((times - times[0]) * NANOSECONDS),
        number=number + np.arange(len(trace)),
        prefix=_prefix(trace, id_tokens),
        source=trace.source,
    )


def generated_tokens(trace: RequestTrace, given: int | None) -> NDArray[np.int64]:
    """The tokens that each request of a trace generates.

    Raises
    ------
    TraceError : none are recorded, and none are given.
    """
    if given is not None:
        return np.full(len(trace), given, dtype=np.int64)
    if trace.generated_tokens is None:
        raise TraceError(
            f"{trace.source}: has no generated tokens, expected those of every request; give "
            "output_tokens for all"
        )
    return trace.generated_tokens


def _prefix(trace: RequestTrace, id_tokens: int) -> RecordedIds | None:
    ids = trace.prefix_hashes
    if ids is None:
        return None
    counts = np.array([len(one) for one in ids], dtype=np.int64)
    begin = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    covered = np.minimum(trace.context_tokens, counts * id_tokens)
    return RecordedIds(id_tokens, begin, np.concatenate(ids), covered)
