"""Read the output of `stepsim run --out RUN.parquet`: the row of the run and its other tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from stepsim.errors import ReportError
from stepsim.paths import local_path
from stepsim.results import OPTIONAL, check_version, neighbor, run_of
from stepsim.typed import typed

_RUNS = (b"stepsim.cli_run", b"stepsim.run")
_JSON: Final = ("parameters", "origins", "machine_json", "model_json", "routing", "kv_lengths",
                "diagnosis", "fix", "provenance", "busiest_units", "why",
                "outline")  # fmt: skip
_NEEDED: Final = {
    "units": (
        "name", "operator", "state", "busy", "wait_input", "wait_output", "wait_memory", "before",
        "after", "offchip_bytes", "flops",
    ),
    "fifos": ("name", "producer", "consumer", "sent", "producer_wait", "consumer_wait"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunTables:
    """The tables of a run.

    Attributes
    ----------
    name : name of the file.
    row : the totals and all inputs of the run, with JSON decoded.
    fields : unit and definition of each column of the row.
    units, fifos : as in a `Result`.
    others : optional tables: timeline, critical path and links.
    """

    name: str
    row: Mapping[str, Any]
    fields: pa.Schema
    units: pa.Table
    fifos: pa.Table
    others: Mapping[str, pa.Table]


@typed
def read_run(path: str | Path) -> RunTables:
    """The run in ``path`` and the tables next to it.

    Raises
    ------
    ReportError : a file is missing, cannot be read, is not of a run at the tile level, or is of a
        different run from the others.
    """
    place = Path(path)
    table = _read(place, "the run")
    kind = (table.schema.metadata or {}).get(b"schema", b"")
    if kind not in _RUNS or table.num_rows != 1:
        found = kind.decode(errors="replace") or "a table without a schema of stepsim"
        raise ReportError(
            f"{place}: expected the file of one run, found {found} with {table.num_rows:,} rows; "
            "name the file that `stepsim run --out FILE.parquet` or Result.to_parquet wrote"
        )
    row = {name: _decoded(place, name, value) for name, value in table.to_pylist()[0].items()}
    if row["provenance"].get("level") == "hardware":
        raise ReportError(
            f"{place}: expected a run at the level of tiles, found one at the hardware level, "
            "whose units have no stall breakdown; its tables can be read as Parquet. Run it "
            "without --level hardware, for example with --machine hdl-arbiter, to see it here"
        )
    beside = {name: _table(neighbor(place, name), name) for name in _NEEDED}
    others = {
        name: _read(neighbor(place, name), f"the {name}")
        for name in OPTIONAL
        if neighbor(place, name).exists()
    }
    for name, own in (beside | others).items():
        if run_of(own) != run_of(table):
            raise ReportError(
                f"{neighbor(place, name)}: expected the {name} of the run in {place.name}, found "
                "that of another run; run it again with --out, or remove the file"
            )
    return RunTables(place.name, row, table.schema, beside["units"], beside["fifos"], others)


def _decoded(place: Path, name: str, value: Any) -> Any:
    if name not in _JSON or value is None:
        return value
    try:
        return json.loads(value)
    except (TypeError, ValueError) as error:
        raise ReportError(
            f"{place}, column {name}: expected JSON text, found {value!r:.40}; run it again"
        ) from error


def _table(place: Path, name: str) -> pa.Table:
    table = _read(place, f"its {name}")
    absent = [column for column in _NEEDED[name] if column not in table.schema.names]
    if absent:
        raise ReportError(
            f"{place}: expected the {name} of a run, found no column {', '.join(absent)}; run it "
            "again with --out"
        )
    return table


def _read(place: Path, what: str) -> pa.Table:
    try:
        found = pq.read_table(local_path(place), partitioning=None)
    except FileNotFoundError:
        raise ReportError(
            f"{place}: {what} cannot be read, there is no such file; `stepsim run --out "
            "FILE.parquet` writes it, with the tables of units and FIFOs next to it"
        ) from None
    except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: no path of a file
        raise ReportError(f"{place}: {what} cannot be read: {error}; run it again") from error
    check_version(found.schema, place, ReportError, "run it again with --out")
    return found
