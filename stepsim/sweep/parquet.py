"""Parquet files that are whole: written completely or not at all, checked when they are read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stepsim.atomic import replacing
from stepsim.errors import SweepError

__all__ = ["check_footer", "check_whole", "flush", "read_table", "write_tables"]

# Damaged names of columns are no UTF-8.
_UNREADABLE = (OSError, pa.ArrowException, UnicodeDecodeError)


def write_tables(tables: Mapping[Path, pa.Table]) -> None:
    """Write files, each whole or not at all, in the given order."""
    with replacing(*tables) as temporary:
        for path, table in zip(temporary, tables.values(), strict=True):
            # With checksums, because a flipped bit may well decode to another number.
            pq.write_table(table, path, compression="zstd", write_page_checksum=True)
            flush(path)


def read_table(path: Path) -> pa.Table:
    """All of a file.

    Raises
    ------
    SweepError
        It is absent or damaged.
    """
    with _reading(path) as file:
        return file.read()


def check_whole(path: Path, schema: pa.Schema) -> None:
    """Read all of a file to see whether it can be, and drop it; one row group is in memory.

    Raises
    ------
    SweepError
        It is absent or damaged.
    """
    with _reading(path) as file:
        # Pages have checksums, the names of columns in the footer have none.
        if not file.schema_arrow.equals(schema):
            raise pa.ArrowInvalid("Its columns are not those that were written")
        for group in range(file.num_row_groups):
            file.read_row_group(group)


def check_footer(path: Path) -> pq.FileMetaData:
    """The footer of a file, which is its end: enough to notice what was cut off.

    Raises
    ------
    SweepError
        It is absent or damaged.
    """
    with _reading(path) as file:
        return file.metadata


def flush(path: Path) -> None:
    """Onto the disk before a rename, so that a power cut leaves no whole name on torn data."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _reading(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a file; what goes wrong with it is worded as damage."""
    try:
        # A file, not a data set: the name of its folder must not become a column.
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except _UNREADABLE as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> SweepError:
    """What to delete depends on the place: a design point is complete by its file in ``runs``."""
    if isinstance(error, FileNotFoundError):
        reason = "is missing"
    else:
        reason = f"is damaged ({str(error).splitlines()[0].rstrip('.')})"
    advice = "run the sweep again with --resume, which computes this chunk again"
    if path.parent.name.startswith("design="):
        runs = path.parents[2] / "runs" / path.parent.name / path.name
        advice = f"delete {runs} and run the sweep again with --resume, which computes it again"
    return SweepError(f"{path}: {reason}; {advice}")
