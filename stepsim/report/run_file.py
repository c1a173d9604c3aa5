"""The Parquet file of one run: the content of its JSON object, in one row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stepsim.results import arrow_table, schema, write_run_tables

if TYPE_CHECKING:
    from stepsim.results import Result


def run_table(record: Mapping[str, Any], parameters: Mapping[str, pa.Field]) -> pa.Table:
    """The record as one row: a column per key, with nested values as JSON text.

    ``parameters`` are the columns specific to the workload.
    """
    own = schema("cli_run", [parameters.get(name, name) for name in record])
    row = {name: [_flat(value, own.field(name))] for name, value in record.items()}
    return arrow_table(row, own)


def write_run(
    path: str | PathLike[str],
    record: Mapping[str, Any],
    parameters: Mapping[str, pa.Field],
    result: Result,
    bins: int | None = None,
    path_segments: pa.Table | None = None,
) -> None:
    """Write the record to ``path`` and the tables of units and FIFOs next to it.

    With a number of ``bins``, the timeline is written as well, and so are the segments of the
    critical path if given, and the links of a placed program; those of an earlier run are removed.

    Raises
    ------
    OutputError : a file cannot be written; then none is written.
    """
    tables = {
        "": run_table({**record, "outline": result.outline}, parameters),
        "units": result.units,
        "fifos": result.fifos,
    }
    if bins is not None:
        tables["timeline"] = result.timeline(bins)
    if path_segments is not None:
        tables["path"] = path_segments
    if result.carried is not None:
        tables["links"] = result.links()
    write_run_tables(path, tables, result.identity)


def _flat(value: Any, field: pa.Field) -> Any:
    if value is None or not pa.types.is_string(field.type):
        return value
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, sort_keys=True, allow_nan=False)
    return str(value)
