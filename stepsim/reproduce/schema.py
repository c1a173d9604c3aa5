"""Arrow schemas of reproduced tables: columns of the common dictionary, and of headlines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from stepsim.results import COLUMNS, field, schema

MEASURED: Final = (
    "cycles", "offchip_bytes", "onchip_bytes", "flops", "padded_flops",
    "allocated_flops_per_cycle", "compute_utilization", "bandwidth_utilization",
    "memory_requests", "bus_bytes", "engine_steps",
)  # fmt: skip
"""Measurements of a run."""

_INT, _TEXT = pa.int64(), pa.string()

PARAMETERS: Final = {
    "tile": field("tile", _TEXT, "rows", "rows per tile"),
    "tile_inter": field("tile_inter", _INT, "columns", "columns per tile of the inner dimension"),
    "regions": field("regions", _INT, "regions", "regions that work in parallel"),
    "fifo_depth": field("fifo_depth", _INT, "tokens", "tokens each FIFO holds"),
}
"""Settings that vary among the paper's runs, independent of the workload."""

LEVEL: Final = field(
    "level", _TEXT, "", "tile: operators on logical tiles; hardware: units on tiles of 16 x 16"
)

READS: Final = field(
    "memory_reads", _INT, "requests", "reads among the off-chip requests, at the hardware level"
)

_OURS: Final = (
    "figure", "point_id", "workload", "model", "batch", "trace", "series", "kv_class",
    *PARAMETERS.values(), LEVEL, "machine", "closure_slack", "counting", "status", *MEASURED, READS,
    "ratio", "ratio_of", "program_hash",
)  # fmt: skip

TIMES: Final = (COLUMNS["wall_seconds"], COLUMNS["seconds"])
"""Columns that vary between repetitions of a run; they are not in the CSV files."""

COMPARED: Final = tuple(
    COLUMNS[name]
    for name in (
        "published_cycles", "cycles_difference", "cycles_relative", "canonical_cycles",
        "published_offchip_bytes", "published_onchip_bytes", "published_flops",
        "published_padded_flops", "published_allocated_flops_per_cycle",
        "published_compute_utilization", "published_bandwidth_utilization", "published_ratio",
        "ratio_relative", "hdl_cycles", "hdl_offchip_bytes",
    )
)  # fmt: skip
"""Columns that compare with published values."""

HEADLINES_SCHEMA: Final = schema(
    "reproduce.headlines",
    [
        "figure",
        field("claim", _TEXT, "", "what is claimed"),
        field("unit", _TEXT, "", "x is a ratio, % a percentage, PID a distance"),
        field("ours", pa.list_(pa.float64()), "see unit", "recomputed from our runs"),
        field("printed", _TEXT, "see unit", "in the text of the paper"),
        field("published", pa.list_(pa.float64()), "see unit", "recomputed from published data"),
        field("deviation", pa.float64(), "fraction", "largest relative difference"),
        field("agrees", _TEXT, "", "whether the paper's text agrees with its own data"),
        field("note", _TEXT, "", "where text and data disagree, or ours is not comparable"),
    ],
)


def points_schema(compared: bool) -> pa.Schema:
    """Columns of the points of a figure of the paper, with those that compare or without."""
    own = [*_OURS, *(COMPARED if compared else ()), *TIMES]
    return schema("reproduce.points", own)


def own_schema(parameters: Mapping[str, pa.Field]) -> pa.Schema:
    """Columns of the points of a user's figure, whose workloads have these parameters."""
    shared = [] if "batch" in parameters else ["batch"]
    own = [
        "figure", "point_id", "series", "workload", "workload_digest", *parameters.values(),
        *shared, "config", "counting", "trace", "layer", "step", "kv_class", LEVEL,
        "machine", "machine_json", "closure_slack", "status", *MEASURED, READS, "ratio", "ratio_of",
        "program_hash", *TIMES,
    ]  # fmt: skip
    return schema("reproduce.points", own)
