"""Continuous batching: the KV-cache lengths of each decode step when a request trace is served.

The rule, step by step: requests that have arrived are admitted in order of arrival while the batch
has room. A request starts with a KV cache of its ``context_tokens``, grows by one token per step
and leaves after ``generated_tokens`` steps; one that generates nothing is never admitted. The
length of a step does not count the token that the step computes. Prefill takes no time.

Time passes by ``step_seconds`` per step; if a step would be empty, time skips to the next arrival.
Without ``step_seconds`` every request waits from the start, so only the order and the size of
the batch matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepsim.arrow import pa
from stepsim.errors import ArgError, TraceError
from stepsim.trace_io.requests.decode_steps import DECODE_STEPS
from stepsim.trace_io.requests.trace import RequestTrace
from stepsim.trace_io.schema import NAME_KEY, VERSION_KEY, described
from stepsim.typed import typed

REPLAY_SCHEMA_VERSION = 1
"""Version written to the schema metadata."""


@dataclass(frozen=True, eq=False)
class DecodeStep:
    """One decode step.

    Attributes:
        step: index of the step, from 0; skipped time has no steps.
        seconds: when it begins, after the first request of the trace; 0 for an untimed replay.
        requests: int64 [batch], indices of the requests in the trace, in order of admission.
        kv_lengths: int64 [batch], KV-cache length of each in tokens.
    """

    step: int
    seconds: float
    requests: npt.NDArray[np.int64]
    kv_lengths: npt.NDArray[np.int64]


@typed
def replay(
    trace: RequestTrace, batch: int, *, step_seconds: float | None = None
) -> Iterator[DecodeStep]:
    """Serve a trace with at most ``batch`` requests at a time.

    Args:
        trace: requests with ``generated_tokens``.
        batch: most requests of a step.
        step_seconds: duration of a step; None: arrival times are ignored.

    Raises:
        ArgError: ``batch`` or ``step_seconds`` is out of range.
        TraceError: the trace lacks ``generated_tokens``, or arrival times although ``step_seconds``
            is given.
    """
    if batch < 1:
        raise ArgError(f"replay: batch is {batch}, expected at least 1 request")
    if step_seconds is not None and not (math.isfinite(step_seconds) and step_seconds > 0):
        raise ArgError(f"replay: step_seconds is {step_seconds}, expected seconds above 0")
    if trace.generated_tokens is None:
        raise TraceError(
            f"{trace.source}: has no `generated_tokens`, expected how long each request decodes; "
            "take windows of it instead, or import a trace that has them"
        )
    if step_seconds is not None and trace.arrival_seconds is None:
        raise TraceError(
            f"{trace.source}: has no `arrival_seconds`, expected times to replay with "
            f"step_seconds = {step_seconds}; leave step_seconds out"
        )
    return _steps(trace, trace.generated_tokens, batch, step_seconds)


def replay_schema() -> pa.Schema:
    """The Arrow schema of decode steps; `replay_rows` makes rows of it."""
    integers = pa.list_(pa.field("item", pa.int64(), nullable=False))
    fields = [
        described("step", pa.int64(), "index of the decode step, from 0"),
        described(
            "seconds", pa.float64(), "start of the step, in time since the first request", unit="s"
        ),
        described("requests", integers, "indices of the requests, in order of admission"),
        described("kv_lengths", integers, "KV-cache length of each request", unit="tokens"),
    ]
    metadata = {
        NAME_KEY: DECODE_STEPS.encode(),
        VERSION_KEY: str(REPLAY_SCHEMA_VERSION).encode(),
    }
    return pa.schema(fields, metadata=metadata)


def replay_rows(steps: list[DecodeStep]) -> pa.Table:
    """Decode steps as rows of :func:`replay_schema`."""
    columns = [
        pa.array([step.step for step in steps], pa.int64()),
        pa.array([step.seconds for step in steps], pa.float64()),
        pa.array([step.requests for step in steps], replay_schema().field("requests").type),
        pa.array([step.kv_lengths for step in steps], replay_schema().field("kv_lengths").type),
    ]
    return pa.Table.from_arrays(columns, schema=replay_schema())


def _steps(
    trace: RequestTrace,
    generated: npt.NDArray[np.int64],
    batch: int,
    step_seconds: float | None,
) -> Iterator[DecodeStep]:
    decoding = np.flatnonzero(generated > 0)
    arrival = np.zeros(len(decoding))
    if step_seconds is not None and trace.arrival_seconds is not None:
        arrival = trace.arrival_seconds[decoding]
    requests = np.empty(0, dtype=np.int64)
    lengths = np.empty(0, dtype=np.int64)
    left = np.empty(0, dtype=np.int64)
    seconds, step, following = 0.0, 0, 0
    while following < len(decoding) or len(requests):
        if not len(requests):
            seconds = max(seconds, float(arrival[following]))
        arrived = int(np.searchsorted(arrival, seconds, side="right"))
        admitted = decoding[following : min(arrived, following + batch - len(requests))]
        following += len(admitted)
        requests = np.concatenate([requests, admitted])
        lengths = np.concatenate([lengths, trace.context_tokens[admitted]])
        left = np.concatenate([left, generated[admitted]])
        yield DecodeStep(step, seconds, requests, lengths)
        step += 1
        seconds += step_seconds or 0.0
        staying = left > 1
        requests, lengths, left = requests[staying], lengths[staying] + 1, left[staying] - 1
