"""Mooncake traces: JSONL with timestamp, input_length, output_length and hash_ids.

``timestamp`` is in milliseconds. ``hash_ids`` are the ids of the blocks of 512 tokens of the
prompt; equal ids mean equal prompts up to the end of the block. They may be left out, but then in
all lines.

Source: https://github.com/kvcache-ai/Mooncake, FAST25-release/traces and its README.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.trace_io.formats.arrivals import Arrivals
from stepsim.trace_io.formats.job import ImportJob, RequestChunk
from stepsim.trace_io.formats.json_lines import integer, json_records

__all__ = ["read"]

_BATCH = 1 << 12
_MILLISECONDS = 1000
_MOST_TOKENS = int(np.iinfo(np.int64).max)


def read(job: ImportJob) -> Iterator[RequestChunk]:
    """Read a Mooncake trace.

    Raises:
        TraceError: the file is unreadable, or a line lacks a field or holds an invalid value.
    """
    arrivals = Arrivals(job.path, _MILLISECONDS)
    hashed: bool | None = None
    rows: list[tuple[int, float, int, int, npt.NDArray[np.int64] | None]] = []
    for line, record, read_bytes in json_records(job.path):
        if hashed is None:
            hashed = "hash_ids" in record
        rows.append(
            (
                line,
                _milliseconds(record, job.path, line),
                integer(record, "input_length", job.path, line, maximum=_MOST_TOKENS),
                integer(record, "output_length", job.path, line, maximum=_MOST_TOKENS),
                _hashes(record, job.path, line, hashed),
            )
        )
        if len(rows) == _BATCH:
            yield _chunk(rows, arrivals)
            job.done(read_bytes)
            rows = []
    if rows:
        yield _chunk(rows, arrivals)


def _chunk(
    rows: list[tuple[int, float, int, int, npt.NDArray[np.int64] | None]], arrivals: Arrivals
) -> RequestChunk:
    lines, times, inputs, outputs, hashes = zip(*rows, strict=True)
    return RequestChunk(
        context_tokens=np.array(inputs, dtype=np.int64),
        generated_tokens=np.array(outputs, dtype=np.int64),
        arrival_seconds=arrivals.seconds(np.array(times, dtype=np.float64), list(lines)),
        prefix_hashes=None if hashes[0] is None else hashes,
    )


def _milliseconds(record: dict[str, Any], path: Path, line: int) -> float:
    value = record.get("timestamp")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TraceError(
            f"{path}: line {line}: `timestamp` is {value!r}, expected milliseconds since the "
            "start of the trace; mend or drop the line"
        )
    return float(value)


def _hashes(
    record: dict[str, Any], path: Path, line: int, hashed: bool
) -> npt.NDArray[np.int64] | None:
    if ("hash_ids" in record) != hashed:
        raise TraceError(
            f"{path}: line {line}: `hash_ids` is {'missing' if hashed else 'there'}, but the "
            f"first line has {'one' if hashed else 'none'}; expected it in all lines or in none"
        )
    if not hashed:
        return None
    value = record["hash_ids"]
    good = isinstance(value, list) and all(
        isinstance(number, int) and not isinstance(number, bool) and abs(number) < 2**63
        for number in value
    )
    if not good:
        raise TraceError(
            f"{path}: line {line}: `hash_ids` is {str(value)[:40]}, expected a list of whole "
            "numbers; mend or drop the line"
        )
    return np.array(value, dtype=np.int64)
