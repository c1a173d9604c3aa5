"""Azure LLM inference traces: CSV with TIMESTAMP, ContextTokens, GeneratedTokens.

Timestamps are dates with up to nine digits of a second, such as ``2023-11-16 18:15:46.6805900``,
with or without ``+00:00``; other columns are ignored. Fields may be quoted, and padded with spaces.

Source: https://github.com/Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stepsim.errors import TraceError
from stepsim.trace_io.formats.arrivals import Arrivals
from stepsim.trace_io.formats.format import Content, Format
from stepsim.trace_io.formats.job import ImportJob
from stepsim.trace_io.requests.trace import RequestTrace
from stepsim.trace_io.sources.text import Lines, first_fields, read_lines

_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_NANOSECONDS = 1_000_000_000
_ZONE = r"(?:Z|\+00:00)?"
_TIME = (
    r"(?:19|20|21)[0-9]{2}-[0-9]{2}-[0-9]{2}"
    r"(?:[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)?"
)
"""Other years do not fit 64 bits of nanoseconds."""


def _read(job: ImportJob) -> Iterator[RequestTrace]:
    arrivals = Arrivals(job.path, _NANOSECONDS)
    header = first_fields(job.path)
    for name in _COLUMNS:
        if header.count(name) != 1:
            raise TraceError(
                f"{job.path}: line 1: has {header.count(name)} columns `{name}` (found "
                f"{', '.join(f'`{column}`' for column in header)}), expected one each of "
                f"{', '.join(f'`{column}`' for column in _COLUMNS)}; check --format"
            )
    positions = [header.index(name) for name in _COLUMNS]
    for found in read_lines(job.path, len(header), positions, FORMAT.name, header=True):
        lines = found.take(found.filled())
        if len(lines):
            context, generated = (
                lines.integers(column, f"`{_COLUMNS[column]}`", "a whole number of tokens")
                for column in (1, 2)
            )
            seconds = arrivals.seconds(_ticks(lines), lines.numbers)
            yield RequestTrace(context, generated, seconds, source=str(job.path))
        job.done(lines.bytes_read)


def _ticks(lines: Lines) -> npt.NDArray[np.int64]:
    """Nanoseconds since 1970."""
    times = pc.replace_substring_regex(lines.columns[0], f"{_ZONE}$", "")
    good = lines.matches(0, _TIME + _ZONE)
    if good.all():
        with suppress(pa.ArrowInvalid):  # such as February 30
            return np.asarray(times.cast(pa.timestamp("ns")).cast(pa.int64()))
        good = np.array([_is_time(time) for time in times])
    expected = "a date and time in UTC such as 2023-11-16 18:15:46.6805900"
    raise lines.wrong(0, int(np.argmin(good)), f"`{_COLUMNS[0]}`", expected)


def _is_time(time: pa.StringScalar) -> bool:
    try:
        time.cast(pa.timestamp("ns"))
    except pa.ArrowInvalid:
        return False
    return True


def _recognizes(content: Content) -> bool:
    return set(_COLUMNS) <= set(content.fields)


FORMAT = Format("azure", "requests", _read, _recognizes)
