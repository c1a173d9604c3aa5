"""Reading the tables of a sweep's folder, complete or not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from stepsim.errors import SweepError, did_you_mean
from stepsim.results.columns import field
from stepsim.sweep.parquet import check_footer, read_table
from stepsim.sweep.schema import TABLES
from stepsim.sweep.store import table_files, table_schemas

__all__ = [
    "Manifest",
    "open_table",
    "query",
    "read_designs",
    "read_failures",
    "read_manifest",
    "read_runs",
]

_DESIGN = pa.field(
    "design", pa.string(), nullable=False, metadata={"definition": "label of the design point"}
)


def open_table(folder: str | Path, name: str = "runs") -> Any:
    """One table of a sweep as a lazy ``pyarrow.dataset``: all rows that are saved so far.

    The last column is ``design``, the label of the design point, which is the partition of the
    folder. Of a complete sweep the folder ``runs`` itself is the same data set for any reader; this
    also sees the finished chunks of an interrupted one.

    Raises
    ------
    SweepError
        The folder holds no sweep, the table is unknown, or a file is damaged.
    """
    import pyarrow.dataset as ds  # slow to load, and workers have no use for it
    from pyarrow.fs import LocalFileSystem

    place = Path(folder)
    if name not in TABLES:
        raise SweepError(f"unknown table '{name}'; a sweep has {', '.join(sorted(TABLES))}")
    manifest = read_manifest(place)
    labels = list(manifest.designs)
    files = table_files(place, name)
    for path in files:
        check_footer(path)
    checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    return ds.FileSystemDataset.from_paths(
        [str(path) for path in files],
        schema=table_schemas(manifest.parameters)[name].append(_DESIGN),
        format=ds.ParquetFileFormat(default_fragment_scan_options=checked),
        filesystem=LocalFileSystem(),
        partitions=[ds.field("design") == _label(path, labels) for path in files],
    )


def read_designs(folder: str | Path) -> dict[str, dict[str, Any]]:
    """The design points of a sweep as they were specified, by label.

    Raises
    ------
    SweepError
        The folder holds no sweep.
    """
    return read_manifest(folder).designs


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is run, as ``sweep.json`` has it.

    Attributes
    ----------
    designs : the design points as they were specified, by label.
    runs : of the whole sweep, whether they are there or not.
    spec : the specification with all its keys.
    parameters : columns of the parameters of the workload.
    """

    designs: dict[str, dict[str, Any]]
    runs: int
    spec: dict[str, Any]
    parameters: dict[str, pa.Field]

    @property
    def traces(self) -> int:
        """Traces that every design point runs on."""
        return self.runs // len(self.designs)


def read_manifest(folder: str | Path) -> Manifest:
    """What the sweep in a folder runs.

    Raises
    ------
    SweepError
        The folder holds no sweep.
    """
    manifest = Path(folder) / "sweep.json"
    if not manifest.exists():
        raise SweepError(
            f"{folder}: holds no sweep, there is no sweep.json; name the folder that was given "
            "as --out"
        )
    try:
        found = json.loads(manifest.read_text(encoding="utf-8"))
        designs = {label: dict(design) for label, design in found["designs"].items()}
        parameters = {
            name: field(name, pa.type_for_alias(one["type"]), one["unit"], one["definition"])
            for name, one in found["parameters"].items()
        }
        return Manifest(designs, int(found["runs"]), dict(found["spec"]), parameters)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise SweepError(
            f"{manifest}: cannot be used, expected JSON with the keys 'designs', 'runs', 'spec' "
            "and 'parameters' as stepsim writes it; run the sweep again in a new folder"
        ) from error


def read_runs(folder: str | Path, columns: list[str], *, ok_only: bool = True) -> pa.Table:
    """Columns of the runs, in the order of design points and traces.

    Raises
    ------
    SweepError
        There is no such sweep or column, or a file is damaged.
    """
    return _read(folder, "runs", columns, ok_only=ok_only)


def read_failures(folder: str | Path, columns: list[str]) -> pa.Table:
    """Columns of the runs that failed, in the order of design points and traces.

    Raises
    ------
    SweepError
        There is no such sweep or column, or a file is damaged.
    """
    return _read(folder, "failures", columns)


def _read(folder: str | Path, name: str, columns: list[str], *, ok_only: bool = False) -> pa.Table:
    import pyarrow.dataset as ds

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
    except (OSError, pa.ArrowException):
        _name_damaged(folder, name)
        raise


def query(folder: str | Path, sql: str) -> pa.Table:
    """What DuckDB returns for ``sql`` over the tables ``runs``, ``failures`` and ``units``.

    Raises
    ------
    SweepError
        DuckDB is not installed, does not understand the query, there is no sweep, or a file is
        damaged.
    """
    try:
        import duckdb
    except ImportError as error:
        raise SweepError(
            "query: the package duckdb is not installed; pip install 'stepsim[query]'"
        ) from error
    with duckdb.connect() as connection:
        for name in sorted(TABLES):
            connection.register(name, open_table(folder, name))
        try:
            found = connection.sql(sql)
            if found is None:
                raise SweepError("query: the statement returns no rows; ask with SELECT")
            return found.to_arrow_table()
        except duckdb.Error as error:
            for name in sorted(TABLES):
                _name_damaged(folder, name)
            raise SweepError(f"query: {error}") from error


def _label(path: Path, labels: list[str]) -> str:
    """Of the folder of a complete design point, or of the number that starts a chunk's name."""
    if path.parent.name.startswith("design="):
        return path.parent.name.removeprefix("design=")
    return labels[int(path.name.split("-")[0])]


def _name_damaged(folder: str | Path, name: str) -> None:
    """Arrow does not say which file it stumbled over."""
    for path in table_files(Path(folder), name):
        read_table(path)
