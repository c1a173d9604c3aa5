"""Reading the tables of a sweep's folder, complete or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from stepsim.errors import SweepError
from stepsim.sweep.store import TABLES, table_files

__all__ = ["open_table", "query", "read_runs"]


def open_table(folder: str | Path, name: str = "runs") -> Any:
    """One table of a sweep as a lazy ``pyarrow.dataset``: all rows that are saved so far.

    Of a complete sweep the folder ``runs`` itself is a hive-partitioned data set for any reader;
    this also sees the finished chunks of an interrupted one.

    Raises
    ------
    SweepError
        The folder holds no sweep, or the table is unknown.
    """
    place = Path(folder)
    if name not in TABLES:
        raise SweepError(f"unknown table '{name}'; a sweep has {', '.join(sorted(TABLES))}")
    if not (place / "sweep.json").exists():
        raise SweepError(
            f"{place}: holds no sweep, there is no sweep.json; name the folder that was given "
            "as --out"
        )
    import pyarrow.dataset as ds  # slow to load, and workers have no use for it

    files = [str(path) for path in table_files(place, name)]
    return ds.dataset(files, schema=TABLES[name], format="parquet")


def read_runs(folder: str | Path, columns: list[str], *, ok_only: bool = True) -> pa.Table:
    """Columns of the runs, in the order of design points and traces.

    Raises
    ------
    SweepError
        There is no such sweep or column.
    """
    import pyarrow.dataset as ds

    runs = open_table(folder)
    for column in columns:
        if column not in runs.schema.names:
            from stepsim.machine.problems import did_you_mean

            names = runs.schema.names
            raise SweepError(
                f"runs have no column '{column}'{did_you_mean(column, names)} "
                f"Known: {', '.join(names)}"
            )
    chosen = ds.field("status") == "ok" if ok_only else None
    return runs.to_table(columns=columns, filter=chosen)


def query(folder: str | Path, sql: str) -> pa.Table:
    """Answer of DuckDB to ``sql`` over the tables ``runs``, ``failures`` and ``units``.

    Raises
    ------
    SweepError
        DuckDB is not installed, does not understand the query, or there is no sweep.
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
            answer = connection.sql(sql)
            if answer is None:
                raise SweepError("query: the statement returns no rows; ask with SELECT")
            return answer.to_arrow_table()
        except duckdb.Error as error:
            raise SweepError(f"query: {error}") from error
