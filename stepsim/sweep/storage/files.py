"""Listing the files of a sweep's tables, without any checks."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from stepsim.sweep.storage.disk import reading

SUMMARY = "summary.json"
"""The file that is written last: a folder with it has all files of its tables."""

_CHUNK = ".runs.parquet"


class TableFiles(NamedTuple):
    """Files of one table at one moment, also of a sweep that is running.

    Attributes
    ----------
    rows : complete design points, then finished chunks of the others, in order.
    present : all Parquet files in the folder of the table, whatever wrote them.
    """

    rows: list[Path]
    present: frozenset[Path]


def table_files(folder: Path, name: str) -> TableFiles:
    """Files of a table by their names, whether this sweep wrote them or not.

    Raises
    ------
    SweepError
        A folder cannot be listed.
    """
    parts = folder / "parts"
    # Chunks first: they are deleted after the files of their design point are there.
    finished = sorted(
        path.name.removesuffix(_CHUNK)
        for path in parquet_files(parts)
        if path.parent == parts and path.name.endswith(_CHUNK)
    )
    runs = parquet_files(folder / "runs")
    complete = sorted(path.parent.name for path in runs if _is_final(path, folder / "runs"))
    closed = {_number(label.removeprefix("design=")) for label in complete}
    final = [folder / name / label / "part.parquet" for label in complete]
    chunks = [parts / f"{key}.{name}.parquet" for key in finished if _number(key) not in closed]
    present = runs if name == "runs" else parquet_files(folder / name)
    return TableFiles([*final, *chunks], present)


def parquet_files(folder: Path) -> frozenset[Path]:
    """All files in a folder and its subfolders, including links and folders of such names.

    Raises
    ------
    SweepError
        A folder cannot be listed, so that files would be missed.
    """

    def failed(error: OSError) -> None:
        # A sweep that starts has no folders yet. The writer reports anything else in their place.
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            with reading(Path(error.filename)):
                raise error

    return frozenset(
        Path(place, name)
        for place, folders, names in os.walk(folder, onerror=failed, followlinks=True)
        for name in (*folders, *names)
        if name.endswith(".parquet")
    )


def _is_final(path: Path, runs: Path) -> bool:
    return (
        path.name == "part.parquet"
        and path.parent.parent == runs
        and path.parent.name.startswith("design=")
    )


def _number(label: str) -> int | None:
    """The number of the design point at the start of a label or of the key of a chunk."""
    found = re.match(r"(\d+)-", label)
    return int(found[1]) if found else None
