"""Write the tables of a result as neighboring Parquet files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stepsim.atomic import replacing
from stepsim.errors import OutputError

__all__ = ["neighbor", "write_tables"]


def neighbor(path: Path, label: str) -> Path:
    """``run.parquet`` with label ``units`` is ``run.units.parquet``; without label it stays."""
    if not label:
        return path
    return path.with_name(f"{path.stem}.{label}{path.suffix or '.parquet'}")


def write_tables(path: str | os.PathLike[str], tables: Mapping[str, pa.Table]) -> None:
    """Write every table to its own neighbor of ``path``; all are complete or none is there.

    Raises
    ------
    OutputError
        When ``path`` is none or has the ending of another format, or the folder or a file cannot be
        written; nothing new is left behind.
    """
    named = isinstance(path, str | os.PathLike) and "\0" not in str(path) and Path(path).name
    if not named:
        raise OutputError(f"cannot write {path!r:.200}: expected the path of a file to write")
    if Path(path).suffix not in ("", ".parquet"):
        raise OutputError(f"cannot write {path}: expected a name that ends in .parquet")
    places = [neighbor(Path(path), label) for label in tables]
    with replacing(*places) as parts:
        for part, table in zip(parts, tables.values(), strict=True):
            pq.write_table(table, part, compression="zstd")
