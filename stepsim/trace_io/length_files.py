"""Files of lengths, one per request: NumPy arrays with one dim, and text, read piece by piece."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.trace_io.array_files import ArrayFile, archive_names, open_array
from stepsim.trace_io.files import choose_array, unreadable
from stepsim.trace_io.validate import check_integer_dtype

__all__ = [
    "check_lengths",
    "no_columns",
    "open_lengths",
    "text_lengths",
]

_MAX_LENGTH = int(np.iinfo(np.int64).max)
_BLOCK_LINES = 1 << 16


def open_lengths(path: Path, kind: str) -> ArrayFile:
    """The lengths of a .npy file, or those called ``lengths`` or ``data`` in an archive.

    Raises:
        TraceError: the file is truncated or damaged, or is not one vector of integers.
    """
    if kind == "npy":
        found = open_array(path, kind)
    else:
        name = choose_array(path, archive_names(path), ("lengths", "data"), ())
        found = open_array(path, kind, name)
    check_integer_dtype(np.empty(0, found.dtype), str(path), "KV lengths")
    _check_shape(found.shape, str(path))
    return found


def text_lengths(
    path: Path, column: str | None, done: Callable[[int], None] = lambda _: None
) -> Iterator[tuple[npt.NDArray[np.int64], list[int]]]:
    """The lengths in a text file in pieces, with the line (from 1) of each.

    ``done`` is told the bytes that were read.

    Raises:
        TraceError: the file is no text, has no such column, or a line holds no whole number.
    """
    try:
        with (
            path.open("rb") as raw,
            io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as file,
        ):
            numbers: list[int] = []
            lines: list[int] = []
            for line, number in _numbers(path, file, column):
                numbers.append(number)
                lines.append(line)
                if len(lines) == _BLOCK_LINES:
                    yield np.array(numbers, dtype=np.int64), lines
                    done(raw.tell())
                    numbers, lines = [], []
            if lines:
                yield np.array(numbers, dtype=np.int64), lines
    except OSError as error:
        raise unreadable(path, error) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(
            f"{path}: is not readable as UTF-8 text with one length per line ({error}); "
            "convert it to .npy or plain text"
        ) from error


def check_lengths(
    values: npt.NDArray[Any],
    name: str,
    *,
    first_row: int = 0,
    lines: list[int] | None = None,
    step: int | None = None,
    minimum: int = 0,
    maximum: int | None = None,
) -> npt.NDArray[np.int64]:
    """A private, read-only copy of lengths that are within bounds.

    ``first_row`` is the row of the first one; ``lines`` are the lines of a text file instead. Of a
    ``step`` of a replay, ``first_row`` is the first request.

    Raises:
        TraceError: not one vector of integers, empty, or a length is out of bounds.
    """
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
        more = f" (and so in {others} more)" if others else ""
        raise TraceError(
            f"{name}: {where}: KV length {int(values[index])} is out of range{more}, expected "
            f"{bound} tokens; drop the request or record it again"
        )
    lengths = np.array(values, dtype=np.int64, order="C", copy=True, subok=False)
    lengths.flags.writeable = False
    return lengths


def no_columns(name: str, column: str) -> TraceError:
    """The error for a column that is chosen where there are none."""
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


def _numbers(path: Path, file: IO[str], column: str | None) -> Iterator[tuple[int, int]]:
    """(line, number) of each row."""
    reader = csv.reader(file, strict=True)
    rows = _without_blank_end((reader.line_num, row) for row in reader)
    first = next(rows, None)
    if first is None:
        return
    header = first[1] if _is_header(first[1]) else None
    width = len(header) if header else 1
    position = _position(path, header, column)
    if header is None:
        yield first[0], _length(path, *first, width, position, header)
    for line, row in rows:
        yield line, _length(path, line, row, width, position, header)


def _is_header(row: list[str]) -> bool:
    """Whether a first row has names: its first field that is not blank has letters, but is no
    number, not even one that no length can be.
    """
    text = next((field for field in row if field.strip()), "")
    try:
        float(text)
    except ValueError:
        return any(map(str.isalpha, text))
    return False


def _without_blank_end(
    rows: Iterator[tuple[int, list[str]]],
) -> Iterator[tuple[int, list[str]]]:
    """The rows but for blank ones that no other follows."""
    blank: tuple[int, list[str]] | None = None
    for line, row in rows:
        if not any(row):
            blank = blank or (line, row)
            continue
        if blank is not None:
            yield blank
            blank = None
        yield line, row


def _length(
    path: Path, line: int, row: list[str], width: int, position: int, header: list[str] | None
) -> int:
    if len(row) != width:
        raise TraceError(
            f"{path}: line {line}: {len(row)} fields {row}, expected {width}"
            f"{'' if header else ' (one length per line)'}; mend the line"
            f"{'' if header else ', or add a header and choose with column='}"
        )
    number = _number(row[position])
    if number is None:
        raise TraceError(
            f"{path}: line {line}: {row[position]!r} is not a KV length, expected a whole "
            "number of tokens; mend or drop the line"
        )
    return number


def _position(path: Path, header: list[str] | None, column: str | None) -> int:
    if column is None and (header is None or len(header) == 1):
        return 0
    if header is None:
        raise TraceError(
            f"{path}: has no header to find column {column!r} in; leave column= out or add one"
        )
    if column is None or header.count(column) != 1:
        asked = "no column is chosen" if column is None else f"column {column!r} is not there once"
        raise TraceError(
            f"{path}: has {len(header)} columns ({', '.join(f'`{name}`' for name in header)}) and "
            f"{asked}; choose one of them with column="
        )
    return header.index(column)


def _number(text: str) -> int | None:
    """A whole number within int64, or None."""
    text = text.strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 18:
        return None
    return int(text)
