"""Reading the tables of a sweep's folder, complete or not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from stepsim.arguments import text_of
from stepsim.deferred import deferred, require
from stepsim.errors import SweepError, did_you_mean
from stepsim.paths import local_path
from stepsim.results import check_version
from stepsim.sweep.storage.digests import Digests, missing
from stepsim.sweep.storage.disk import reading
from stepsim.sweep.storage.files import SUMMARY, TableFiles, table_files
from stepsim.sweep.storage.manifest import Manifest, read_manifest
from stepsim.sweep.storage.schema import TABLES
from stepsim.sweep.storage.store import table_schemas
from stepsim.typed import typed

ds: Any = deferred("pyarrow.dataset")
fs: Any = deferred("pyarrow.fs")
pq: Any = deferred("pyarrow.parquet")

_DESIGN = pa.field(
    "design", pa.string(), nullable=False, metadata={"definition": "label of the design point"}
)


@typed
def open_table(folder: str | Path, name: str = "runs") -> Any:
    """One table of a sweep as a lazy ``pyarrow.dataset``: all rows that are saved so far.

    The last column is ``design``, the label of the design point, by which the folder is
    partitioned. For a complete sweep any reader finds the same data set in the folder ``runs``;
    this also reads the finished chunks of an interrupted one. While a sweep is running, read the
    rows at once or with :func:`read_runs`: chunks are joined and deleted when a design point is
    complete.

    Raises
    ------
    SweepError
        The folder holds no sweep, the table is unknown, or a file is damaged, missing, or not of
        the sweep.
    """
    place = Path(folder)
    if name not in TABLES:
        raise SweepError(f"unknown table '{name}'; a sweep has {', '.join(sorted(TABLES))}")
    manifest = read_manifest(place)
    labels = list(manifest.designs)
    files = _checked_files(place, name, manifest)
    checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    return ds.FileSystemDataset.from_paths(
        [local_path(path) for path in files],
        schema=table_schemas(manifest.parameters)[name].append(_DESIGN),
        format=ds.ParquetFileFormat(default_fragment_scan_options=checked),
        filesystem=fs.LocalFileSystem(),
        partitions=[ds.field("design") == _label(path, labels) for path in files],
    )


@typed
def read_designs(folder: str | Path) -> dict[str, dict[str, Any]]:
    """The design points of a sweep as they were specified, by label.

    Raises
    ------
    SweepError
        The folder holds no sweep.
    """
    return read_manifest(folder).designs


@typed
def read_runs(folder: str | Path, columns: list[str], *, ok_only: bool = True) -> pa.Table:
    """Columns of the runs, in the order of design points and traces.

    Raises
    ------
    SweepError
        There is no such sweep or column, or a file is damaged.
    """
    return _read(folder, "runs", columns, ok_only=ok_only)


@typed
def read_failures(folder: str | Path, columns: list[str]) -> pa.Table:
    """Columns of the runs that failed, in the order of design points and traces.

    Raises
    ------
    SweepError
        There is no such sweep or column, or a file is damaged.
    """
    return _read(folder, "failures", columns)


def _read(folder: str | Path, name: str, columns: list[str], *, ok_only: bool = False) -> pa.Table:
    while True:
        table = open_table(folder, name)
        for column in columns:
            if column not in table.schema.names:
                names = table.schema.names
                raise SweepError(
                    f"{name} have no column '{column}'{did_you_mean(column, names)} "
                    f"Known: {', '.join(names)}"
                )
        chosen = ds.field("status") == "ok" if ok_only else None
        try:
            return table.to_table(columns=columns, filter=chosen)
        except (OSError, pa.ArrowException) as error:
            if not _joined([table]):
                _name_damaged(folder, [name])
                raise SweepError(
                    f"{folder}: the {name} cannot be read ({error}), although their files "
                    "have the recorded digests; check the disk and the memory, and try again"
                ) from error


@typed
def query(folder: str | Path, sql: str) -> pa.Table:
    """Query the tables ``runs``, ``failures`` and ``units`` with DuckDB.

    Raises
    ------
    SweepError
        DuckDB is not installed, does not understand the query, there is no sweep, a file is
        damaged, or ``sql`` is not one statement that returns rows. It has no access to other files.
    """
    sql = text_of("query: sql", sql)
    duckdb = require("duckdb", SweepError)
    names = sorted(TABLES)
    while True:
        tables = [open_table(folder, name) for name in names]
        with duckdb.connect() as connection:
            for name, table in zip(names, tables, strict=True):
                connection.register(name, table)
            try:
                # Otherwise a statement could overwrite the files of the sweep.
                connection.execute("SET enable_external_access = false")
                if (statements := len(connection.extract_statements(sql))) != 1:
                    raise SweepError(f"query: expected one statement, found {statements}")
                found = connection.sql(sql)
                if found is None:
                    raise SweepError("query: the statement returns no rows; use SELECT")
                return found.to_arrow_table()
            except (duckdb.Error, OSError, pa.ArrowException) as error:
                if not _joined(tables):
                    _name_damaged(folder, names)
                    raise SweepError(f"query: {error}") from error


def _joined(tables: Iterable[Any]) -> bool:
    """Whether files of data sets are gone, as after a running sweep joined its chunks."""
    return not all(Path(path).exists() for table in tables for path in table.files)


def _label(path: Path, labels: list[str]) -> str:
    """The label of a design point, from its folder or from the number in a chunk's name."""
    if path.parent.name.startswith("design="):
        return path.parent.name.removeprefix("design=")
    return labels[int(path.name.split("-")[0])]


def _checked_files(folder: Path, name: str, manifest: Manifest) -> list[Path]:
    """Files of a table, all of them intact.

    A running sweep may join and delete chunks meanwhile; then the files are listed again.
    """
    while True:
        found = table_files(folder, name)
        try:
            return _checked(folder, name, manifest, found)
        except SweepError:
            if table_files(folder, name) == found:
                raise


def _checked(folder: Path, name: str, manifest: Manifest, found: TableFiles) -> list[Path]:
    # Read after the list, so that every listed file has its digest.
    digests = Digests.read(folder, manifest.plan)
    # A table that was not kept has neither a file nor a digest.
    files = found.rows if name != "units" or manifest.spec.get("units") else []
    listed = frozenset(files)
    for path in files:
        runs = _runs_beside(path)
        if path not in digests and runs not in digests:
            digests.check(runs)  # it made the others be looked for
        digests.check(path)
    for path in files[:1]:  # all are of one version
        with reading(path):
            schema = pq.read_schema(local_path(path))
        check_version(schema, path, SweepError, "run the sweep again in a new folder")
    for path in sorted(found.present - listed):
        # Files that a killed sweep was joining have digests, but the chunks count.
        if path not in digests:
            digests.check(path)
    if (folder / SUMMARY).exists():
        for path in digests.of_table(name):
            if path not in listed:
                raise missing(_runs_beside(path))
    return files


def _runs_beside(path: Path) -> Path:
    """The file that marks a design point or a chunk as finished."""
    if path.parent.name == "parts":
        return path.with_name(f"{path.name.split('.')[0]}.runs.parquet")
    return path.parents[2] / "runs" / path.parent.name / path.name


def _name_damaged(folder: str | Path, names: Iterable[str]) -> None:
    """Find the file that was damaged after it was opened, which Arrow does not name."""
    manifest = read_manifest(folder)
    for name in names:
        _checked_files(Path(folder), name, manifest)
