"""Traces from outside: expert-routing tables and KV-cache lengths, read, checked and written.

A routing table comes in from .npy, .npz, Parquet, Arrow IPC or any object with
``__arrow_c_stream__``, and goes out as Parquet or over the same interface, in the versioned schema
of :func:`routing_schema`. Every value is checked on the way in.
"""

from __future__ import annotations

from stepsim.trace_io.kv import read_kv_lengths
from stepsim.trace_io.routing import (
    RoutingPart,
    read_routing,
    read_routing_batches,
    routing_parts,
)
from stepsim.trace_io.schema import SCHEMA_VERSION, routing_schema
from stepsim.trace_io.stats import RoutingStatistics, routing_statistics
from stepsim.trace_io.synthetic import synthetic_routing
from stepsim.trace_io.table import RoutingTable, write_routing

__all__ = [
    "SCHEMA_VERSION",
    "RoutingPart",
    "RoutingStatistics",
    "RoutingTable",
    "read_kv_lengths",
    "read_routing",
    "read_routing_batches",
    "routing_parts",
    "routing_schema",
    "routing_statistics",
    "synthetic_routing",
    "write_routing",
]
