"""The table of a comparison of tilings: one run per row, units in the field metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from stepsim.report.columns import COLUMNS

__all__ = ["TILINGS_SCHEMA", "tilings_table"]


TILINGS_SCHEMA: Final = pa.schema(
    [
        COLUMNS[name]
        for name in (
            "tile",
            "tile_inter",
            "compute_bw",
            "pack_bw",
            "fifo_depth",
            "status",
            "cycles",
            "offchip_bytes",
            "onchip_bytes",
            "flops",
            "padded_flops",
            "allocated_flops_per_cycle",
            "compute_utilization",
            "bandwidth_utilization",
            "peak_bandwidth",
            "executed_flops",
            "executed_compute_utilization",
            "executed_bandwidth_utilization",
            "traffic_bytes",
            "memory_requests",
            "bus_bytes",
            "engine_steps",
            "wall_seconds",
        )
    ],
    metadata={"schema": "stepsim.tilings", "schema_version": "2"},
)


def tilings_table(rows: Sequence[Mapping[str, Any]], provenance: str) -> pa.Table:
    """Rows with the columns of `TILINGS_SCHEMA`; ``provenance`` goes into the file's metadata."""
    schema = TILINGS_SCHEMA.with_metadata(
        {**(TILINGS_SCHEMA.metadata or {}), b"provenance": provenance.encode()}
    )
    texts = [{**row, "tile": str(row["tile"])} for row in rows]
    return pa.Table.from_pylist(texts, schema=schema)
