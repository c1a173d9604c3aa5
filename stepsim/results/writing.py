"""Write Parquet files that are complete or absent."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stepsim.errors import OutputError

__all__ = ["neighbour", "write_tables"]


def neighbour(path: Path, label: str) -> Path:
    """``run.parquet`` with label ``units`` is ``run.units.parquet``; without label it stays."""
    if not label:
        return path
    return path.with_name(f"{path.stem}.{label}{path.suffix or '.parquet'}")


def write_tables(path: str | os.PathLike[str], tables: Mapping[str, pa.Table]) -> None:
    """Write every table to its own neighbour of ``path``; rename them into place at the end.

    Raises
    ------
    OutputError
        When the folder or a file cannot be written; temporary files are removed.
    """
    target = Path(path)
    parts: list[tuple[Path, Path]] = []
    try:
        for label, table in tables.items():
            place = neighbour(target, label)
            if place.is_dir():
                raise IsADirectoryError(f"{place} is a folder")
            handle, name = tempfile.mkstemp(
                prefix=f".{place.name}.", suffix=".tmp", dir=place.parent
            )
            os.close(handle)
            parts.append((Path(name), place))
            pq.write_table(table, name, compression="zstd")
        for part, place in parts:
            part.replace(place)
    except OSError as error:
        raise OutputError(
            f"cannot write {target}: {error.strerror or error}; "
            "choose a folder that exists and is writable"
        ) from error
    finally:
        for part, _ in parts:
            part.unlink(missing_ok=True)
