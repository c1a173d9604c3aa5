"""JSON records from a file: one or a list of them per line, or one document for the entire file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from stepsim.errors import TraceError
from stepsim.shown import shown

_SHOWN = 40
_KEYS = 20


def json_records(path: Path) -> Iterator[tuple[int, dict[str, Any], int]]:
    """Yield (line from 1, record, bytes read so far); empty lines are skipped.

    A line may hold a list of records, such as the answer to a batch. A file whose first line is the
    beginning of a list or of a record is taken as one document.

    Raises:
        TraceError: a line is not UTF-8, not JSON, or holds anything but objects; the message
            has the line.
    """
    try:
        with path.open("rb") as file:
            read = 0
            for number, line in enumerate(file, 1):
                read += len(line)
                if not line.strip():
                    continue
                try:
                    value = json.loads(line.rstrip(b"\r\n"))
                except (ValueError, RecursionError) as error:
                    if number == 1 and _is_opening(error, line):
                        yield from _document(path)
                        return
                    raise _not_json(path, number, error) from error
                for record in value if isinstance(value, list) else [value]:
                    if not isinstance(record, dict):
                        raise TraceError(
                            f"{path}: line {number}: is {_shown(value)}, expected a JSON object "
                            "or a list of them; correct or drop the line"
                        )
                    yield number, record, read
    except OSError as error:
        raise TraceError(
            f"{path}: cannot be read ({error.strerror}); check the path and its permissions"
        ) from error


def first_records(path: Path, count: int) -> list[dict[str, Any]]:
    """The first ``count`` records, or fewer if a line is not a record."""
    found: list[dict[str, Any]] = []
    with suppress(TraceError):
        found.extend(record for _, record, _ in islice(json_records(path), count))
    return found


def integer(
    record: dict[str, Any],
    name: str,
    path: Path,
    line: int,
    *,
    minimum: int = 0,
    maximum: int = 2**31 - 1,
) -> int:
    """The whole number in field ``name``; by default it must fit the int32 of the schemas.

    Raises:
        TraceError: the field is missing, not a whole number, or out of bounds.
    """
    if name not in record:
        listed = ", ".join(f"`{_short(key)}`" for key in islice(record, _KEYS)) or "none"
        if len(record) > _KEYS:
            listed += f" and {len(record) - _KEYS} more"
        raise TraceError(
            f"{path}: line {line}: has no field `{name}` (found {listed}), expected a whole "
            "number; check the format, or drop the line"
        )
    value = record[name]
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        top = f" to {maximum}" if isinstance(value, int) and value > maximum else ""
        raise TraceError(
            f"{path}: line {line}: `{name}` is {_shown(value)}, expected a whole number from "
            f"{minimum}{top}; correct or drop the line"
        )
    return value


def _document(path: Path) -> Iterator[tuple[int, dict[str, Any], int]]:
    data = path.read_bytes()
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else 1
        raise _not_json(path, line, error) from error
    records = document if isinstance(document, list) else [document]
    for record in records:
        if not isinstance(record, dict):
            raise TraceError(
                f"{path}: holds {_shown(record)}, expected JSON objects; check the format"
            )
        yield 1, record, len(data)


def _is_opening(error: ValueError | RecursionError, line: bytes) -> bool:
    """Whether JSON is incomplete only because the line ended, as in an indented document."""
    return isinstance(error, json.JSONDecodeError) and not line[error.pos :].strip()


def _not_json(path: Path, line: int, error: ValueError | RecursionError) -> TraceError:
    where = ""
    if isinstance(error, json.JSONDecodeError):
        where = f" at column {error.colno}"
        reason = error.msg.removesuffix(" at")
    elif isinstance(error, RecursionError):
        reason = "lists or objects are nested too deep"
    else:
        reason = str(error)
    return TraceError(
        f"{path}: line {line}: is not JSON ({reason}{where}), expected one object per line; the "
        "file may be cut off, correct or drop the line"
    )


def _shown(value: object) -> str:
    return _short(shown(value, lambda given: json.dumps(given, ensure_ascii=False)))


def _short(text: str) -> str:
    """The beginning of a text. An unpaired surrogate, which JSON allows, is not a character."""
    cut = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return cut.encode(errors="backslashreplace").decode()
