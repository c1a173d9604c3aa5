"""Records of a file, one per line of JSON or per row of an Arrow file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stepsim.errors import TraceError
from stepsim.trace_io.files import detect_format
from stepsim.trace_io.sources.arrow import ARROW_KINDS, open_pieces
from stepsim.trace_io.sources.json_lines import json_records


def records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every record of a JSON Lines, Parquet or Arrow IPC file, with its place for messages.

    Values are those of Python. A field that is null is left out, as if it were missing.

    Raises:
        TraceError: the file is unreadable, in another format, or has a line that is not a record.
    """
    kind = detect_format(path)
    if kind is None:
        for line, record, _ in json_records(path):
            yield f"{path}: line {line}", _present(record)
        return
    if kind not in ARROW_KINDS:
        raise TraceError(
            f"{path}: is a {kind} file, expected JSON Lines, Parquet or Arrow IPC; convert it"
        )
    opened = open_pieces(path, kind)
    for piece in opened.pieces:
        rows = piece.read(opened.schema.names).to_pylist()
        for row, record in enumerate(rows, piece.first_row):
            yield f"{path}: row {row}", _present(record)


def _present(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}
