"""The table of a comparison of tilings: one run per row, units in the field metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

__all__ = ["TILINGS_SCHEMA", "tilings_table"]


def _field(name: str, kind: pa.DataType, unit: str, definition: str) -> pa.Field:
    return pa.field(name, kind, metadata={"unit": unit, "definition": definition})


TILINGS_SCHEMA: Final = pa.schema(
    [
        _field("tile", pa.string(), "rows", "height of a tile, or dynamic"),
        _field("tile_inter", pa.int64(), "columns", "tile width along the inner dimension"),
        _field("compute_bw", pa.int64(), "FLOPs/cycle", "compute bandwidth of each operator"),
        _field("pack_bw", pa.int64(), "FLOPs/cycle", "the same of operators that pack rows"),
        _field("fifo_depth", pa.int64(), "tokens", "capacity of each queue"),
        _field("status", pa.string(), "", "ok, deadlock, failed or limit"),
        _field("cycles", pa.int64(), "cycles", "length of the run"),
        _field("offchip_bytes", pa.int64(), "bytes", "payload of all off-chip loads and stores"),
        _field("onchip_bytes", pa.int64(), "bytes", "on-chip memory of all operators"),
        _field("flops", pa.int64(), "FLOPs", "executed work, padding rows included"),
        _field("padded_flops", pa.int64(), "FLOPs", "the part of flops spent on padding rows"),
        _field(
            "allocated_flops_per_cycle", pa.int64(), "FLOPs/cycle", "compute bandwidth allocated"
        ),
        _field(
            "compute_utilization",
            pa.float64(),
            "fraction",
            "flops / cycles / allocated_flops_per_cycle",
        ),
        _field(
            "bandwidth_utilization",
            pa.float64(),
            "fraction",
            "offchip_bytes / cycles / peak bandwidth of the machine",
        ),
        _field("traffic_bytes", pa.int64(), "bytes", "payload moved off chip in the run"),
        _field("memory_requests", pa.int64(), "requests", "off-chip requests"),
        _field("bus_bytes", pa.int64(), "bytes", "off-chip requests x request size"),
        _field("engine_steps", pa.int64(), "firings", "unit firings executed"),
        _field("wall_seconds", pa.float64(), "seconds", "simulation alone, without compilation"),
    ],
    metadata={"schema": "stepsim.tilings", "schema_version": "1"},
)


def tilings_table(rows: Sequence[Mapping[str, Any]], provenance: str) -> pa.Table:
    """Rows with the columns of `TILINGS_SCHEMA`; ``provenance`` goes into the file's metadata."""
    schema = TILINGS_SCHEMA.with_metadata(
        {**(TILINGS_SCHEMA.metadata or {}), b"provenance": provenance.encode()}
    )
    texts = [{**row, "tile": str(row["tile"])} for row in rows]
    return pa.Table.from_pylist(texts, schema=schema)
