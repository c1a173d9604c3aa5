"""Reading KV-cache lengths: the number of cached tokens of each request, in arrival order."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.trace_io.files import detect_format, read_numpy
from stepsim.trace_io.validate import check_integer_dtype

__all__ = ["read_kv_lengths"]

_TEXT = (".csv", ".txt")
_MAX_LENGTH = int(np.iinfo(np.int64).max)


def read_kv_lengths(
    source: str | os.PathLike[str] | npt.NDArray[Any],
    *,
    column: str | None = None,
    requests: int | None = None,
    minimum: int = 0,
    maximum: int | None = None,
) -> npt.NDArray[np.int64]:
    """Read and check KV-cache lengths; the result is int64 [requests], C-contiguous, read-only.

    Args:
        source: a .npy file, a .npz file (its only array, or the one called ``lengths`` or
            ``data``), a .csv or .txt file with one length per line and an optional header, or a
            NumPy array.
        column: which column of a .csv file with a header to read.
        requests: number of lengths expected.
        minimum, maximum: bounds of a length, in tokens, inclusive.

    Raises:
        TraceError: the file is unreadable, is not one vector of integers, is empty, or a length is
            out of bounds; the message has the file, the row (or line of a text file) and the value.
    """
    lines: list[int] | None = None
    if isinstance(source, np.ndarray):
        name, values = "array", source
    else:
        path = Path(source)
        name = str(path)
        kind = detect_format(path)
        if kind in ("npy", "npz"):
            values = read_numpy(path, kind, ("lengths", "data"))["lengths"]
        elif kind is None and path.suffix.lower() in _TEXT:
            numbers, lines = _read_text(path, column)
            values = np.array(numbers, dtype=np.int64)
        else:
            raise TraceError(
                f"{path}: the format is not known ({kind or 'no known first bytes'}), expected "
                ".npy, .npz, or .csv or .txt with one length per line; convert it to one of these"
            )
    if column is not None and lines is None:
        raise TraceError(
            f"{name}: has no columns to choose {column!r} from, only text files with a header "
            "have; leave column= out"
        )
    return _checked(values, name, lines, requests=requests, minimum=minimum, maximum=maximum)


def _checked(
    values: npt.NDArray[Any],
    name: str,
    lines: list[int] | None,
    *,
    requests: int | None,
    minimum: int,
    maximum: int | None,
) -> npt.NDArray[np.int64]:
    check_integer_dtype(values, name, "KV lengths")
    if values.ndim != 1:
        raise TraceError(
            f"{name}: KV lengths have {values.ndim} dims, shape {values.shape}, expected one "
            "length per request (requests,); choose one row, or flatten it"
        )
    if values.size == 0:
        raise TraceError(
            f"{name}: the trace is empty, it has 0 lengths, expected at least 1; record it again"
        )
    if requests is not None and values.size != requests:
        raise TraceError(
            f"{name}: {values.size} lengths, expected {requests}; choose a file of this batch size"
        )
    most = _MAX_LENGTH if maximum is None else maximum
    bad = (values < minimum) | (values > most)
    if bad.any():
        index = int(np.argmax(bad))
        where = f"row {index}" if lines is None else f"line {lines[index]}"
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


def _read_text(path: Path, column: str | None) -> tuple[list[int], list[int]]:
    """The numbers of a text file, and the line (from 1) of each."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(
            f"{path}: is not readable as UTF-8 text with one length per line ({error}); "
            "convert it to .npy or plain text"
        ) from error
    while rows and not any(rows[-1][1]):
        rows.pop()
    header = rows[0][1] if rows and _number(rows[0][1][0] if rows[0][1] else "") is None else None
    width = len(header) if header else 1
    position = _position(path, header, column)
    numbers, lines = [], []
    for line, row in rows[1:] if header else rows:
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
        numbers.append(number)
        lines.append(line)
    return numbers, lines


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
