"""Arrow schemas of what is reproduced: every column carries its unit and its definition."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

__all__ = ["COMPARED", "HEADLINES_SCHEMA", "TIMES", "points_schema"]

_VERSION: Final = "1"


def _field(name: str, kind: pa.DataType, unit: str, definition: str) -> pa.Field:
    return pa.field(name, kind, metadata={"unit": unit, "definition": definition})


_INT, _FLOAT, _TEXT = pa.int64(), pa.float64(), pa.string()

_OURS: Final = (
    _field("figure", _TEXT, "", "figure of the STeP paper"),
    _field("point_id", _TEXT, "", "name of the point; figures that share a run share it"),
    _field("workload", _TEXT, "", "which program"),
    _field("model", _TEXT, "", "shape of the layer"),
    _field("batch", _INT, "rows", "rows or requests"),
    _field("trace", _TEXT, "", "expert choices or KV lengths: a file, or synthetic"),
    _field("series", _TEXT, "", "what the point belongs to in the figure"),
    _field("kv_class", _TEXT, "", "spread of the KV lengths"),
    _field("tile", _TEXT, "rows", "height of a tile, or dynamic"),
    _field("tile_inter", _INT, "columns", "width of a tile along the inner dimension"),
    _field("regions", _INT, "", "parallel regions"),
    _field("fifo_depth", _INT, "tokens", "capacity of each queue; null for the program's own"),
    _field("machine", _TEXT, "", "name of the machine"),
    _field("closure_slack", _INT, "cycles", "by which the end of a stream is noticed early"),
    _field("status", _TEXT, "", "ok, deadlock, failed or limit; null for a mean"),
    _field("cycles", _INT, "cycles", "length of the run"),
    _field("offchip_bytes", _INT, "bytes", "payload of all off-chip loads and stores"),
    _field("onchip_bytes", _INT, "bytes", "on-chip memory, in the convention of the figure"),
    _field("flops", _INT, "FLOPs", "work with padding, in the convention of the figure"),
    _field("padded_flops", _INT, "FLOPs", "the part of flops spent on padding rows"),
    _field("allocated_flops_per_cycle", _INT, "FLOPs/cycle", "compute bandwidth allocated"),
    _field(
        "compute_utilization",
        _FLOAT,
        "fraction",
        "flops / cycles / allocated; above 1 where the figures count more than is done",
    ),
    _field("bandwidth_utilization", _FLOAT, "fraction", "offchip_bytes / cycles / peak"),
    _field("ratio", _FLOAT, "", "normalized value: see ratio_of"),
    _field("ratio_of", _TEXT, "", "what ratio means"),
    _field("memory_requests", _INT, "requests", "off-chip requests"),
    _field("engine_steps", _INT, "firings", "unit firings executed"),
    _field("program_hash", _TEXT, "", "identity of the program"),
)

TIMES: Final = (
    _field("wall_seconds", _FLOAT, "seconds", "the simulation alone"),
    _field("seconds", _FLOAT, "seconds", "building, lowering, simulating and measuring"),
)
"""Columns that differ from run to run; they are not in the CSV files."""

COMPARED: Final = (
    _field("published_cycles", _INT, "cycles", "as plotted"),
    _field("cycles_difference", _INT, "cycles", "ours - published"),
    _field("cycles_relative", _FLOAT, "fraction", "ours / published - 1"),
    _field("canonical_cycles", _INT, "cycles", "of an independent model with the same rules"),
    _field("published_offchip_bytes", _INT, "bytes", "as plotted"),
    _field("published_onchip_bytes", _INT, "bytes", "as plotted"),
    _field("published_flops", _INT, "FLOPs", "as plotted"),
    _field("published_padded_flops", _INT, "FLOPs", "as plotted"),
    _field("published_allocated_flops_per_cycle", _INT, "FLOPs/cycle", "as plotted"),
    _field("published_compute_utilization", _FLOAT, "fraction", "as plotted, rounded"),
    _field("published_bandwidth_utilization", _FLOAT, "fraction", "as plotted, rounded"),
    _field("published_ratio", _FLOAT, "", "as plotted"),
    _field("ratio_relative", _FLOAT, "fraction", "ratio / published_ratio - 1"),
    _field("hdl_cycles", _INT, "cycles", "of the hardware simulation"),
    _field("hdl_offchip_bytes", _INT, "bytes", "of the hardware simulation"),
)
"""Columns that compare with published values."""

HEADLINES_SCHEMA: Final = pa.schema(
    [
        _field("figure", _TEXT, "", "figure or section of the claim"),
        _field("claim", _TEXT, "", "what is claimed"),
        _field("unit", _TEXT, "", "x is a ratio, % a percentage, PID a distance"),
        _field("ours", pa.list_(_FLOAT), "see unit", "recomputed from our runs"),
        _field("printed", _TEXT, "see unit", "in the text of the paper"),
        _field("published", pa.list_(_FLOAT), "see unit", "recomputed from the published data"),
        _field("deviation", _FLOAT, "fraction", "largest relative difference from published"),
        _field("agrees", _TEXT, "", "whether the paper's text agrees with its own data"),
        _field("note", _TEXT, "", "where text and data disagree, or ours is not comparable"),
    ],
    metadata={"schema": "stepsim.reproduce.headlines", "schema_version": _VERSION},
)


def points_schema(compared: bool) -> pa.Schema:
    """Columns of the points of a figure, with those that compare or without."""
    return pa.schema(
        [*_OURS, *(COMPARED if compared else ()), *TIMES],
        metadata={"schema": "stepsim.reproduce.points", "schema_version": _VERSION},
    )
