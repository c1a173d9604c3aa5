"""Arrow schemas of a sweep's tables, the same for every sweep: what does not apply is null.

Rows depend on the specification and the versions only: wall times are kept elsewhere.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from stepsim.results import UNITS_SCHEMA

__all__ = [
    "FAILURES_SCHEMA",
    "METRICS",
    "PARAMETERS",
    "RUNS_SCHEMA",
    "SWEEP_SCHEMA_VERSION",
    "UNIT_ROWS_SCHEMA",
]

SWEEP_SCHEMA_VERSION: Final = "2"


def _field(name: str, kind: pa.DataType, unit: str, definition: str, null: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=null, metadata={"unit": unit, "definition": definition})


def _schema(name: str, fields: list[pa.Field]) -> pa.Schema:
    metadata = {"schema": f"stepsim.sweep.{name}", "schema_version": SWEEP_SCHEMA_VERSION}
    return pa.schema(fields, metadata=metadata)


_METRICS: Final = [
    _field("cycles", pa.int64(), "cycles", "length of the run"),
    _field("traffic_bytes", pa.int64(), "bytes", "useful off-chip bytes that were moved"),
    _field("bus_bytes", pa.int64(), "bytes", "off-chip requests x request size"),
    _field("memory_requests", pa.int64(), "requests", "off-chip requests"),
    _field("flops", pa.int64(), "FLOPs", "floating-point operations, padding rows included"),
    _field("tokens", pa.int64(), "tokens", "tokens sent on all channels"),
    _field("engine_steps", pa.int64(), "firings", "unit firings executed"),
    _field("bandwidth_utilization", pa.float64(), "fraction", "traffic / cycles / peak"),
    _field("onchip_bytes", pa.int64(), "bytes", "on-chip memory by the symbolic metrics"),
    _field("offchip_bytes", pa.int64(), "bytes", "off-chip traffic by the symbolic metrics"),
    _field("allocated_compute", pa.int64(), "FLOPs/cycle", "compute of all operators together"),
]

METRICS: Final = tuple(str(field.name) for field in _METRICS)
"""Totals that a specification can choose from."""

_IDENTITY: Final = [
    _field("run", pa.string(), "", "key of the run: workload, parameters, machine, trace", False),
    _field("point", pa.int32(), "", "number of the design point", False),
    _field("workload", pa.string(), "", "kind of program", False),
    _field("model", pa.string(), "", "name of the model"),
    _field("parameters", pa.string(), "JSON", "every parameter of the workload", False),
    _field("machine", pa.string(), "", "name of the machine", False),
    _field("machine_json", pa.string(), "JSON", "the whole machine, changes included", False),
    _field("trace", pa.string(), "", "where the trace came from"),
    _field("trace_id", pa.string(), "SHA-256", "content of the trace"),
    _field("layer", pa.int32(), "", "layer of the trace"),
    _field("step", pa.int32(), "", "forward pass of the trace"),
    _field("window", pa.int32(), "", "batch of consecutive rows of the trace, from 0"),
    _field("lengths", pa.string(), "", "where the cache lengths of a decoder came from"),
    _field("lengths_id", pa.string(), "SHA-256", "content of these lengths"),
    _field("lengths_step", pa.int32(), "", "decode step of these lengths"),
    _field("lengths_window", pa.int32(), "", "batch of consecutive requests, from 0"),
    _field("batch", pa.int64(), "tokens", "rows of the workload"),
]

_PARAMETERS: Final = [
    _field("variant", pa.string(), "", "design of the published decoder figure"),
    _field("tile", pa.string(), "rows", "rows per tile, or 'dynamic'"),
    _field("tile_inter", pa.int64(), "columns", "columns per tile of the inner dim"),
    _field("regions", pa.int64(), "", "parallel regions"),
    _field("expert_regions", pa.int64(), "", "regions that the experts of a decoder share"),
    _field("attention", pa.string(), "", "model whose attention a decoder has"),
    _field("attention_regions", pa.int64(), "", "regions of a decoder's attention"),
    _field("strategy", pa.string(), "", "how requests are shared among regions"),
    _field("kv_tile", pa.int64(), "tokens", "tokens per tile of the cache"),
    _field("max_length", pa.int64(), "tokens", "tokens reserved per request"),
    _field("hidden", pa.int64(), "columns", "width of the activations"),
    _field("intermediate", pa.int64(), "columns", "width of the inner layer"),
    _field("compute_bw", pa.int64(), "FLOPs/cycle", "compute of one operator"),
    _field("moe_bw", pa.int64(), "FLOPs/cycle", "compute of one operator of the experts"),
    _field("attention_bw", pa.int64(), "FLOPs/cycle", "compute of one operator of attention"),
    _field("qkv_bw", pa.int64(), "FLOPs/cycle", "compute of one QKV generation"),
    _field("pack_bw", pa.int64(), "FLOPs/cycle", "compute of one operator that packs rows"),
    _field("par_dispatch", pa.int64(), "requests/cycle", "requests one operator issues"),
    _field("fifo_depth", pa.int64(), "tokens", "depth of channels without their own"),
]

PARAMETERS: Final = tuple(str(field.name) for field in _PARAMETERS)
"""Parameters with a column of their own."""

_VERSIONS: Final = [
    _field("stepsim_version", pa.string(), "", "version of stepsim", False),
    _field("model_version", pa.string(), "", "version of the timing model", False),
    _field("versions", pa.string(), "JSON", "versions of Python and of the packages", False),
]

RUNS_SCHEMA: Final = _schema(
    "runs",
    [
        *_IDENTITY,
        *_PARAMETERS,
        _field("active_experts", pa.int64(), "experts", "experts with at least one row"),
        _field("max_load", pa.int64(), "rows", "rows of the busiest expert"),
        _field("status", pa.string(), "", "ok, deadlock, failed or limit", False),
        *_METRICS,
        _field("memory_model", pa.string(), "", "how the symbolic metrics count", False),
        _field("program_hash", pa.string(), "SHA-256", "structure of the program", False),
        _field("image_hash", pa.string(), "SHA-256", "what the engine ran", False),
        *_VERSIONS,
    ],
)

FAILURES_SCHEMA: Final = _schema(
    "failures",
    [
        *_IDENTITY,
        _field("stage", pa.string(), "", "trace, build or run", False),
        _field("error", pa.string(), "", "kind of error, or the status of the run", False),
        _field("message", pa.string(), "", "what went wrong", False),
        *_VERSIONS,
    ],
)

UNIT_ROWS_SCHEMA: Final = _schema(
    "units", [_field("run", pa.string(), "", "key of the run", False), *UNITS_SCHEMA]
)
