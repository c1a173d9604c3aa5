"""``stepsim sweep query``: query the tables of a sweep with SQL."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import stepsim.sweep
from stepsim.cli.console import print_json, show_table
from stepsim.cli.options import Json, SweepFolder
from stepsim.cli.sweeps.notes import note_missing


def query(
    folder: SweepFolder,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="SELECT ... FROM runs ...")],
    json: Json = False,
) -> None:
    """Query the tables runs, failures and units of a sweep with DuckDB."""
    found = stepsim.sweep.query(folder, sql)
    note_missing(folder, stepsim.sweep.count_missing(folder))
    if json:
        print_json({"rows": [_plain(row) for row in found.to_pylist()]})
        return
    columns = [column.to_pylist() for column in found.columns]
    show_table(found.column_names, list(zip(*columns, strict=True)))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    simple = (str, int, float, bool, type(None))
    return {k: v if isinstance(v, simple) else str(v) for k, v in row.items()}
