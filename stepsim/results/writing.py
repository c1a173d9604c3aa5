"""Write the tables of a result as neighboring Parquet files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from stepsim.atomic import replacing
from stepsim.errors import OutputError
from stepsim.paths import local_path
from stepsim.shown import shown

NEEDED: Final = ("units", "fifos")
"""Tables that are written next to every run."""

OPTIONAL: Final = ("timeline", "path", "links")
"""Tables that are written next to a run only on request, or if its program is placed."""

_RUN: Final = b"run"


def neighbor(path: Path, label: str) -> Path:
    """``run.parquet`` with label ``units`` is ``run.units.parquet``; without a label it is
    unchanged."""
    if not label:
        return path
    return path.with_name(f"{path.stem}.{label}{path.suffix or '.parquet'}")


def write_tables(
    path: str | os.PathLike[str],
    tables: Mapping[str, pa.Table],
    optional: Collection[str] = (),
) -> None:
    """Write every table to its own neighbor of ``path``; either all are complete or none is
    written.

    Parameters
    ----------
    optional : tables that are not always written; those not written now are removed, because an
        existing file belongs to another run.

    Raises
    ------
    OutputError
        When ``path`` is not a path or has the suffix of another format, or the folder or a file
        cannot be written (then no new file remains), or an earlier file cannot be removed.
    """
    named = isinstance(path, str | os.PathLike) and "\0" not in str(path) and Path(path).name
    if not named:
        raise OutputError(f"cannot write {shown(path)}: expected the path of a file to write")
    if Path(path).suffix not in ("", ".parquet"):
        raise OutputError(f"cannot write {path}: expected a name that ends in .parquet")
    places = [neighbor(Path(path), label) for label in tables]
    with replacing(*places) as parts:
        for part, table in zip(parts, tables.values(), strict=True):
            pq.write_table(table, local_path(part), compression="zstd")
    for label in optional:
        if label not in tables:
            left = neighbor(Path(path), label)
            try:
                left.unlink(missing_ok=True)
            except OSError as error:
                raise OutputError(
                    f"{left}: is of an earlier run and cannot be removed: {error.strerror}; "
                    "remove it"
                ) from error


def write_run_tables(
    path: str | os.PathLike[str], tables: Mapping[str, pa.Table], run: Mapping[str, Any]
) -> None:
    """Write the tables of one run, and remove those of `OPTIONAL` that an earlier run left there.

    Each file has the same digest of ``run``, its identity, in its metadata: with :func:`run_of` a
    reader can check that all files are of one run.

    Raises
    ------
    OutputError : as for `write_tables`, or a file of an earlier run cannot be removed.
    """
    text = json.dumps(run, sort_keys=True, default=str)
    mark = {_RUN: hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()}
    marked = {
        label: table.replace_schema_metadata({**(table.schema.metadata or {}), **mark})
        for label, table in tables.items()
    }
    write_tables(path, marked, OPTIONAL)


def run_of(table: pa.Table) -> bytes | None:
    """The digest of the run that a table belongs to; None for a file without one."""
    found: bytes | None = (table.schema.metadata or {}).get(_RUN)
    return found
