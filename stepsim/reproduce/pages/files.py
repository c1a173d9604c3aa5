"""Write files that are complete or absent."""

from __future__ import annotations

import io
import secrets
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from stepsim.atomic import replacing
from stepsim.errors import OutputError


def make_folder(path: Path) -> None:
    """Raise OutputError if the folder cannot be created or written."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        trial = path / f".{secrets.token_hex(6)}.tmp"
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be used as a folder for results ({error.strerror or error}); choose "
            "another with --out"
        ) from error


def write_file(path: Path, content: bytes) -> None:
    """Raise OutputError if the file cannot be written; no partial file remains."""
    with replacing(path) as (part,):
        part.write_bytes(content)


def csv_of(table: pa.Table) -> bytes:
    """A table as CSV; lists of numbers become text, separated by semicolons."""
    for position, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            lists = table.column(position).to_pylist()
            texts = [None if x is None else ";".join(f"{v:.12g}" for v in x) for x in lists]
            table = table.set_column(position, field.name, pa.array(texts, pa.string()))
    stream = io.BytesIO()
    pyarrow.csv.write_csv(table, stream)
    return stream.getvalue()
