"""Columns of the files that the command line writes: name, type, unit and definition of each."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

__all__ = ["COLUMNS"]

_INT, _REAL, _TEXT = pa.int64(), pa.float64(), pa.string()

_FIELDS: Final[tuple[tuple[str, pa.DataType, str, str], ...]] = (
    ("status", _TEXT, "", "ok, deadlock, failed or limit"),
    ("cycles", _INT, "cycles", "length of the run"),
    ("offchip_bytes", _INT, "bytes", "off-chip loads and stores, as memory_model counts them"),
    ("onchip_bytes", _INT, "bytes", "on-chip memory, as memory_model counts it"),
    ("flops", _INT, "FLOPs", "work as memory_model counts it, padding rows included"),
    ("padded_flops", _INT, "FLOPs", "the part of flops spent on padding rows"),
    ("allocated_flops_per_cycle", _INT, "FLOPs/cycle", "compute bandwidth allocated"),
    (
        "compute_utilization",
        _REAL,
        "fraction",
        "flops / cycles / allocated_flops_per_cycle; executed where that exceeds 1",
    ),
    (
        "bandwidth_utilization",
        _REAL,
        "fraction",
        "offchip_bytes / cycles / peak_bandwidth; executed where that exceeds 1",
    ),
    ("peak_bandwidth", _REAL, "bytes/cycle", "off-chip bandwidth of the machine at best"),
    ("executed_flops", _INT, "FLOPs", "work of the operators in the run, padding rows included"),
    (
        "executed_compute_utilization",
        _REAL,
        "fraction",
        "executed_flops / cycles / allocated_flops_per_cycle",
    ),
    (
        "executed_bandwidth_utilization",
        _REAL,
        "fraction",
        "traffic_bytes / cycles / peak_bandwidth",
    ),
    ("traffic_bytes", _INT, "bytes", "payload moved off chip in the run"),
    ("memory_requests", _INT, "requests", "off-chip requests"),
    ("bus_bytes", _INT, "bytes", "off-chip requests x request size"),
    ("engine_steps", _INT, "firings", "unit firings executed"),
    ("wall_seconds", _REAL, "seconds", "simulation alone, without compilation"),
    ("machine", _TEXT, "JSON", "the resolved machine"),
    ("model", _TEXT, "", "model as given"),
    ("shape", _TEXT, "", "shape of the attention heads"),
    ("attention", _TEXT, "", "shape of the attention heads"),
    ("variant", _TEXT, "", "variant of the published figure"),
    ("strategy", _TEXT, "", "how attention shares out the requests"),
    ("batch", _INT, "tokens", "rows, tokens or requests of the run"),
    ("hidden", _INT, "columns", "width of rows"),
    ("intermediate", _INT, "columns", "inner dimension"),
    ("tile", _TEXT, "rows", "height of a tile, or dynamic"),
    ("tile_inter", _INT, "columns", "tile width along the inner dimension"),
    ("kv_tile", _INT, "tokens", "cached tokens per tile"),
    ("block", _INT, "requests", "requests of a block; coarse only"),
    ("micro_batches", _TEXT, "JSON", "requests of each micro-batch"),
    ("max_length", _INT, "tokens", "tokens reserved in the cache of each request"),
    ("compute_bw", _INT, "FLOPs/cycle", "compute bandwidth of each operator"),
    ("pack_bw", _INT, "FLOPs/cycle", "the same of operators that pack rows"),
    ("moe_bw", _INT, "FLOPs/cycle", "compute bandwidth of each operator of the experts"),
    ("attention_bw", _INT, "FLOPs/cycle", "compute bandwidth of each attention operator"),
    ("qkv_bw", _INT, "FLOPs/cycle", "compute bandwidth of each QKV generation"),
    ("par_dispatch", _INT, "requests/cycle", "requests that a memory operator makes"),
    ("dtype", _TEXT, "", "type of all scalars"),
    ("fifo_depth", _INT, "tokens", "capacity of each queue"),
    ("regions", _INT, "regions", "regions that share the work; null is one per expert"),
    ("regions_built", _INT, "regions", "regions that got work"),
    ("expert_regions", _INT, "regions", "regions that the experts share; null is one per expert"),
    ("attention_regions", _INT, "regions", "regions of QKV generation and attention"),
    ("diagnosis", _TEXT, "JSON", "why the run did not end well; null if it did"),
    ("provenance", _TEXT, "JSON", "program, versions, bindings, seed"),
    ("workload", _TEXT, "", "moe, attention, swiglu or decoder"),
    ("memory_model", _TEXT, "", "published or paper: how bytes and FLOPs are counted"),
    ("config", _TEXT, "", "published if settings were taken from there, else null"),
    ("routing", _TEXT, "JSON", "source, identity and load of the routing trace"),
    ("kv_lengths", _TEXT, "JSON", "source, identity and spread of the cached lengths"),
    ("busiest_units", _TEXT, "JSON", "the units that worked longest, with their accounts"),
)

COLUMNS: Final = {
    name: pa.field(name, kind, metadata={"unit": unit, "definition": definition})
    for name, kind, unit, definition in _FIELDS
}
"""Field of each name. Whatever is nested stands as JSON text."""
