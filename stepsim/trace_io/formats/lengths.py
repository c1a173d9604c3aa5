"""Plain arrays of lengths: one prompt length per request, without times.

A .npy or .npz file with one dim, or text with one length per line or a column to choose. It is read
in pieces of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stepsim.errors import ArgError, TraceError
from stepsim.trace_io.files import choose_array, detect_format
from stepsim.trace_io.formats.format import Content, Format
from stepsim.trace_io.formats.job import CHUNK_BYTES, ImportJob
from stepsim.trace_io.requests.trace import RequestTrace
from stepsim.trace_io.routing.validate import check_integer_dtype
from stepsim.trace_io.sources.numpy import Array, archive_names, open_array
from stepsim.trace_io.sources.text import first_fields, read_lines

_MAX_LENGTH = int(np.iinfo(np.int64).max)


def open_lengths(path: Path, kind: str, *, requests: int | None = None) -> Array:
    """The lengths of a .npy file, or those called ``lengths`` or ``data`` in an archive.

    ``requests`` are the rows of `open_array`.

    Raises:
        TraceError: the file is truncated or damaged, or is not one vector of integers.
    """
    name = None
    if kind == "npz":
        name = choose_array(path, archive_names(path), ("lengths", "data"), ())
    found = open_array(path, kind, name, rows=requests)
    found.check_integers("KV lengths")
    _check_shape(found.shape, str(path))
    return found


def _text_lengths(
    path: Path, column: str | None
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]]:
    """The lengths in a text file in pieces, with the line (from 1) of each and the bytes read so
    far.

    Raises:
        TraceError: the file is not text, has no such column, or a line does not hold an integer.
    """
    first = first_fields(path)
    header = first if _is_header(first) else None
    position = _position(path, header, column)
    width = len(header) if header else 1
    what, expected = "the KV length", "a whole number of tokens, at most 18 digits"
    blank: TraceError | None = None
    for found in read_lines(path, width, [position], FORMAT.name, header=header is not None):
        filled = np.flatnonzero(found.filled())
        end = filled[-1] + 1 if len(filled) else 0
        # Blank lines at the end are left out; a blank line before others is a missing length.
        if end and blank is not None:
            raise blank
        if end < len(found) and blank is None:
            blank = found.wrong(0, int(end), what, expected)
        lines = found.take(np.arange(len(found)) < end)
        if end:
            numbers = lines.integers(0, what, expected, pattern="-?[0-9]{1,18}")
            yield numbers, lines.numbers, lines.bytes_read


def check_lengths(
    values: npt.NDArray[Any],
    name: str,
    *,
    first_row: int = 0,
    lines: npt.NDArray[np.int64] | None = None,
    step: int | None = None,
    minimum: int = 0,
    maximum: int | None = None,
) -> npt.NDArray[np.int64]:
    """A private, read-only copy of lengths that are within bounds.
    ``first_row`` is the row of the first length; for a text file ``lines`` gives the lines instead.
    For a ``step`` of a replay, ``first_row`` is the first request.

        Raises:
            TraceError: the lengths are empty or not one vector of integers, or a length is out of
                bounds.
            ArgError: the bounds allow no length, or allow negative ones.
    """
    if minimum < 0 or (maximum is not None and maximum < minimum):
        raise ArgError(
            f"{name}: minimum is {minimum} and maximum is {maximum}, expected a minimum of at "
            "least 0 and a maximum of at least the minimum, or None; a length is a number of tokens"
        )
    check_integer_dtype(values, name, "KV lengths")
    _check_shape(values.shape, name)
    most = _MAX_LENGTH if maximum is None else maximum
    bad = (values < minimum) | (values > most)
    if bad.any():
        index = int(np.argmax(bad))
        where = f"row {first_row + index}" if lines is None else f"line {lines[index]}"
        if step is not None:
            where = f"step {step}, request {first_row + index}"
        bound = f"at least {minimum}" if maximum is None else f"{minimum}..{maximum}"
        others = int(bad.sum()) - 1
        more = f" (and in {others} more)" if others else ""
        raise TraceError(
            f"{name}: {where}: KV length {int(values[index])} is out of range{more}, expected "
            f"{bound} tokens; drop the request or record it again"
        )
    lengths = np.array(values, dtype=np.int64, order="C", copy=True, subok=False)
    lengths.flags.writeable = False
    return lengths


def no_columns(name: str, column: str) -> TraceError:
    """The error for choosing a column of a source without columns."""
    return TraceError(
        f"{name}: has no columns to choose {column!r} from, only text files with a header have; "
        "leave column= out"
    )


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    if len(shape) != 1:
        raise TraceError(
            f"{name}: KV lengths have {len(shape)} dims, shape {shape}, expected one "
            "length per request (requests,); choose one row, or flatten it"
        )
    if shape[0] == 0:
        raise TraceError(
            f"{name}: the trace is empty, it has 0 lengths, expected at least 1; record it again"
        )


def _is_header(row: list[str]) -> bool:
    """Whether a first row has names: its first field that is not blank contains letters and is not
    a number of any kind, not even an invalid length.
    """
    text = next((field for field in row if field.strip()), "")
    try:
        float(text)
    except ValueError:
        return any(map(str.isalpha, text))
    return False


def _position(path: Path, header: list[str] | None, column: str | None) -> int:
    if column is None and (header is None or len(header) == 1):
        return 0
    if header is None:
        raise TraceError(
            f"{path}: has no header to find column {column!r} in; leave column= out or add one"
        )
    if column is None or header.count(column) != 1:
        asked = (
            "no column is chosen"
            if column is None
            else f"column {column!r} does not occur exactly once"
        )
        raise TraceError(
            f"{path}: has {len(header)} columns ({', '.join(f'`{name}`' for name in header)}) and "
            f"{asked}; choose one of them with column="
        )
    return header.index(column)


def _read(job: ImportJob) -> Iterator[RequestTrace]:
    name, kind = str(job.path), detect_format(job.path)
    if kind in ("npy", "npz"):
        if job.column is not None:
            raise no_columns(name, job.column)
        array = open_lengths(job.path, kind)
        row = 0
        for block in array.blocks(CHUNK_BYTES):
            yield RequestTrace(check_lengths(block, name, first_row=row), source=name)
            row += len(block)
            job.done(row * array.row_bytes)
    elif kind is None:
        for values, lines, bytes_read in _text_lengths(job.path, job.column):
            yield RequestTrace(check_lengths(values, name, lines=lines), source=name)
            job.done(bytes_read)
    else:
        raise TraceError(
            f"{job.path}: is a {kind.removesuffix(' file')} file, expected .npy, .npz or text with "
            "one length per line; choose another --format, or convert it"
        )


def _recognizes(content: Content) -> bool:
    text = len(content.fields) == 1 and content.fields[0] != "" and content.fields[0].isascii()
    return text or content.dims == 1


FORMAT = Format("lengths", "requests", _read, _recognizes, options=("column",), last=True)
