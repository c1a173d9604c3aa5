"""Mooncake traces: JSONL with timestamp, input_length, output_length and hash_ids.

``timestamp`` is in milliseconds. ``hash_ids`` are the ids of the blocks of 512 tokens of the
prompt; equal ids mean equal prompts up to the end of the block. They must be present in all lines
or in none.

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
from stepsim.trace_io.formats.format import Content, Format
from stepsim.trace_io.formats.job import ImportJob
from stepsim.trace_io.requests.trace import RequestTrace
from stepsim.trace_io.sources.json_lines import integer, json_records

_BATCH = 1 << 12
_MILLISECONDS = 1000
_MOST_TOKENS = int(np.iinfo(np.int64).max)

_Row = tuple[int, float, int, int, npt.NDArray[np.int64] | None]


def _read(job: ImportJob) -> Iterator[RequestTrace]:
    arrivals = Arrivals(job.path, _MILLISECONDS)
    hashed: bool | None = None
    rows: list[_Row] = []
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
            yield _trace(job.path, rows, arrivals)
            job.done(read_bytes)
            rows = []
    if rows:
        yield _trace(job.path, rows, arrivals)


def _trace(path: Path, rows: list[_Row], arrivals: Arrivals) -> RequestTrace:
    lines, times, inputs, outputs, hashes = zip(*rows, strict=True)
    return RequestTrace(
        np.array(inputs, dtype=np.int64),
        np.array(outputs, dtype=np.int64),
        arrivals.seconds(np.array(times, dtype=np.float64), np.array(lines)),
        None if hashes[0] is None else hashes,
        str(path),
    )


def _milliseconds(record: dict[str, Any], path: Path, line: int) -> float:
    value = record.get("timestamp")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TraceError(
            f"{path}: line {line}: `timestamp` is {value!r}, expected milliseconds since the "
            "start of the trace; correct or drop the line"
        )
    return float(value)


def _hashes(
    record: dict[str, Any], path: Path, line: int, hashed: bool
) -> npt.NDArray[np.int64] | None:
    if ("hash_ids" in record) != hashed:
        raise TraceError(
            f"{path}: line {line}: `hash_ids` is {'missing' if hashed else 'present'}, but the "
            f"first line has {'one' if hashed else 'none'}; expected it in all lines or in none"
        )
    if not hashed:
        return None
    value = record["hash_ids"]
    try:
        if not isinstance(value, list) or not set(map(type, value)) <= {int}:
            raise TypeError
        ids = np.array(value, dtype=np.int64)
    except (TypeError, OverflowError):
        raise TraceError(
            f"{path}: line {line}: `hash_ids` is {repr(value)[:40]}, expected a list of whole "
            "numbers; correct or drop the line"
        ) from None
    ids.flags.writeable = False  # so that it is not copied again
    return ids


def _recognizes(content: Content) -> bool:
    return any({"input_length", "output_length"} <= set(record) for record in content.records)


FORMAT = Format("mooncake", "requests", _read, _recognizes)
