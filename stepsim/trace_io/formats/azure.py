"""Azure LLM inference traces: CSV with TIMESTAMP, ContextTokens, GeneratedTokens.

Timestamps are dates with up to nine digits of a second, as ``2023-11-16 18:15:46.6805900``, with or
without ``+00:00``; other columns are ignored. Fields may be quoted, and padded with spaces.

Source: https://github.com/Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.trace_io.files import unreadable
from stepsim.trace_io.formats.arrivals import Arrivals
from stepsim.trace_io.formats.job import ImportJob, RequestChunk

__all__ = ["COLUMNS", "header_of", "read"]

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_BATCH = 1 << 16
_SHOWN = 120
_NANOSECONDS = 1_000_000_000
_TIME = re.compile(
    r"((?:19|20|21)[0-9]{2}-[0-9]{2}-[0-9]{2}"
    r"(?:[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)?)(?:Z|\+00:00)?"
)
"""NumPy takes more for a time: ``now``, and years that do not fit 64 bits of nanoseconds."""


def read(job: ImportJob) -> Iterator[RequestChunk]:
    """Read an Azure LLM inference trace.

    Raises:
        TraceError: the file is unreadable, lacks a column, or a line holds an invalid value.
    """
    arrivals = Arrivals(job.path, _NANOSECONDS)
    read_bytes = 0
    try:
        with job.path.open("rb") as file:
            header = file.readline()
            read_bytes += len(header)
            positions, width = _positions(job.path, header_of(header))
            lines: list[int] = []
            rows: list[list[str]] = []
            for line, text in enumerate(file, 2):
                read_bytes += len(text)
                fields = _fields(text.decode(errors="replace"))
                if fields == [""]:
                    continue
                if len(fields) != width:
                    shown = str(fields)[:_SHOWN]
                    raise TraceError(
                        f"{job.path}: line {line}: {len(fields)} fields {shown}, expected "
                        f"{width}; the file may be cut off, mend or drop the line"
                    )
                lines.append(line)
                rows.append([fields[position] for position in positions])
                if len(rows) == _BATCH:
                    yield _chunk(job.path, rows, lines, arrivals)
                    job.done(read_bytes)
                    lines, rows = [], []
            if rows:
                yield _chunk(job.path, rows, lines, arrivals)
                job.done(read_bytes)
    except OSError as error:
        raise unreadable(job.path, error) from error


def header_of(line: bytes) -> list[str]:
    """The names in the first line of a CSV file."""
    return _fields(line.decode("utf-8-sig", errors="replace"))


def _fields(text: str) -> list[str]:
    plain = text.strip()
    if '"' not in plain:  # as in most files, and much faster
        return [field.strip() for field in plain.split(",")]
    try:
        fields = next(csv.reader([plain], skipinitialspace=True))
    except csv.Error:  # told by the number of fields
        return [plain]
    return [field.strip() for field in fields]


def _positions(path: Path, header: list[str]) -> tuple[list[int], int]:
    for name in COLUMNS:
        if header.count(name) != 1:
            raise TraceError(
                f"{path}: line 1: has {header.count(name)} columns `{name}` (found "
                f"{', '.join(f'`{column}`' for column in header)}), expected one each of "
                f"{', '.join(f'`{column}`' for column in COLUMNS)}; check --format"
            )
    return [header.index(name) for name in COLUMNS], len(header)


def _chunk(path: Path, rows: list[list[str]], lines: list[int], arrivals: Arrivals) -> RequestChunk:
    times, context, generated = zip(*rows, strict=True)
    return RequestChunk(
        context_tokens=_numbers(path, context, lines, COLUMNS[1]),
        generated_tokens=_numbers(path, generated, lines, COLUMNS[2]),
        arrival_seconds=arrivals.seconds(_ticks(path, times, lines), lines),
    )


def _ticks(path: Path, texts: tuple[str, ...], lines: list[int]) -> npt.NDArray[np.int64]:
    """Nanoseconds since 1970."""
    matches = [_TIME.fullmatch(text) for text in texts]
    wrong = next((index for index, match in enumerate(matches) if match is None), None)
    times = np.empty(0, dtype="datetime64[ns]")
    if wrong is None:
        plain = [match[1] for match in matches if match is not None]
        try:
            times = np.array(plain, dtype="datetime64[ns]")
        except ValueError:  # the 30th of February
            wrong = next(index for index, text in enumerate(plain) if not _is_time(text))
    if wrong is not None:
        raise TraceError(
            f"{path}: line {lines[wrong]}: `{COLUMNS[0]}` is {texts[wrong]!r}, expected a date and "
            "time in UTC as 2023-11-16 18:15:46.6805900; mend or drop the line"
        )
    return times.astype(np.int64)


def _is_time(text: str) -> bool:
    try:
        np.datetime64(text, "ns")
    except ValueError:
        return False
    return True


def _numbers(
    path: Path, texts: tuple[str, ...], lines: list[int], name: str
) -> npt.NDArray[np.int64]:
    for text, line in zip(texts, lines, strict=True):
        if not (text.isascii() and text.isdecimal() and len(text) <= 18):
            raise TraceError(
                f"{path}: line {line}: `{name}` is {text!r}, expected a whole number of tokens; "
                "mend or drop the line"
            )
    return np.array(texts, dtype=np.int64)
