"""The content of the page of a run, as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stepsim.report.html.activity import activity
from stepsim.report.html.bounds import bounds, verdict
from stepsim.report.html.chips import chips_document
from stepsim.report.html.graph import graph_document
from stepsim.report.html.groups import Groups
from stepsim.report.html.network import network_document
from stepsim.report.html.reading import RunTables
from stepsim.report.html.roofline import roofline
from stepsim.report.tables import energy_shares
from stepsim.results import RECEIVERS, Diagnosis, operators_of, place_of


def run_document(tables: RunTables, stalls: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the page of a run.

    Parameters
    ----------
    tables : of the run. Where its file has no ``why``, verdict and bounds follow from the totals.
    stalls : as plain values, what `stepsim.results.stall_tree` finds.
    """
    row, units, fifos = tables.row, tables.units, tables.fifos
    groups = Groups.of(units, fifos)
    cycles = row["cycles"]
    links = tables.others.get("links")
    found = bounds(row, units, links)
    numbers = {name: index for index, name in enumerate(units["name"].to_pylist())}
    shown = _with_network(units)
    edges = table_document(fifos)
    timeline, path = tables.others.get("timeline"), tables.others.get("path")
    diagnosis = row.get("diagnosis")
    for end in ("producer", "consumer"):
        edges["columns"][end] = [numbers[name] for name in edges["columns"][end]]
    boxes = [groups.of_unit[own[0]] for *_, own in operators_of(units)]
    operators = [
        {**one, "box": box} for one, box in zip(stalls["operators"], boxes, strict=True)
    ]  # fmt: skip
    return {
        "kind": "run",
        "title": _title(tables),
        "file": tables.name,
        # The graph has what is to be seen of the outline.
        "row": {name: plain(value) for name, value in row.items() if name != "outline"},
        "facts": column_facts(tables.fields),
        # Names begin with labels.
        "units": table_document(shown.select([n for n in shown.schema.names if n != "label"])),
        "fifos": edges,
        "groups": asdict(groups),
        "graph": graph_document(groups, row.get("outline")),
        "verdict": verdict(row, found),
        "diagnosis": diagnosis and str(Diagnosis.from_dict(diagnosis)),
        "bounds": found,
        "energy": None if row.get("energy_joules") is None else energy_shares(row),
        "roofline": roofline(units, fifos, cycles),
        "stalls": plain({**stalls, "operators": operators}),
        "activity": activity(units, groups, cycles),
        "why": plain(row.get("why")),
        "timeline": None if timeline is None else table_document(timeline),
        "path": None if path is None else path_parts(path),
        "network": chips_document(row, units, links) or network_document(row, units, links),
        "links": None if links is None else table_document(links),
    }


def _with_network(units: pa.Table) -> pa.Table:
    """The units with waits for packets or messages apart from those for memory, if any."""
    receives = pc.is_in(units["operator"], pa.array([*RECEIVERS]))
    if not pc.any(receives).as_py():
        return units
    place, nothing = units.schema.get_field_index("wait_memory"), pa.scalar(0, pa.int64())
    waits, field = units["wait_memory"], units.schema.field(place)
    definition = {b"unit": b"cycles", b"definition": b"waiting for packets or messages"}
    own = field.with_name("wait_network").with_metadata(definition)
    apart = units.set_column(place, field, pc.if_else(receives, nothing, waits))
    return apart.add_column(place + 1, own, pc.if_else(receives, waits, nothing))


def _title(tables: RunTables) -> str:
    row = tables.row
    parts = [row.get("workload") or row.get("program") or "run", row.get("model")]
    return ", ".join(str(part) for part in parts if part)


def path_parts(segments: pa.Table) -> list[dict[str, Any]]:
    """The cycles of a critical path by operator, all lanes together, and cause, longest first."""
    names = {name: place_of(name).operator for name in segments["operator"].unique().to_pylist()}
    groups = pa.array([names[name] for name in segments["operator"].to_pylist()], pa.string())
    table = pa.table({"operator": groups, "cause": segments["cause"], "cycles": segments["cycles"]})
    keys = ["operator", "cause"]
    found = table.group_by(keys).aggregate([("cycles", "sum"), ("cycles", "count")])
    parts = found.rename_columns([*keys, "cycles", "segments"]).to_pylist()
    return sorted(parts, key=lambda part: (-part["cycles"], part["operator"], part["cause"]))


def table_document(table: pa.Table) -> dict[str, Any]:
    """A table as its ``columns`` by name, their ``facts`` and the number of ``rows``."""
    return {
        "columns": {name: plain(table[name].to_pylist()) for name in table.schema.names},
        "facts": column_facts(table.schema),
        "rows": table.num_rows,
    }


def column_facts(schema: pa.Schema) -> dict[str, Any]:
    """Unit, definition and kind of each column: "number", "text" or "other"."""
    return {one.name: _facts(one) for one in schema}


def _facts(field: pa.Field) -> dict[str, str]:
    metadata = field.metadata or {}
    number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    kind = "number" if number else "text" if pa.types.is_string(field.type) else "other"
    return {
        "unit": metadata.get(b"unit", b"").decode(),
        "definition": metadata.get(b"definition", b"").decode(),
        "kind": kind,
    }


def plain(value: Any) -> Any:
    """Values as JSON types; numbers that are not finite become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if value is None or isinstance(value, str | int):
        return value
    return str(value)
