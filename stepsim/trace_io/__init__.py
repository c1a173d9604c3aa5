"""Traces from outside: expert routing, KV-cache lengths and requests, read, checked and written.

A routing table comes in from .npy, .npz, Parquet, Arrow IPC or any object with
``__arrow_c_stream__``, and goes out as Parquet or over the same interface, in the versioned schema
of :func:`routing_schema`. A request trace has the schema of :func:`requests_schema`. Every value is
checked on the way in. :func:`import_trace` converts the formats of other tools in constant memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepsim.deferred import names_of

if TYPE_CHECKING:
    from stepsim.trace_io.detection import detect_trace_format, is_routing_table
    from stepsim.trace_io.formats import Content, Format, ImportJob, trace_formats
    from stepsim.trace_io.importing import (
        ImportProgress,
        ImportSummary,
        import_trace,
        load_requests,
        summarize_routing,
    )
    from stepsim.trace_io.kv import KvFile, open_kv_lengths, read_kv_lengths
    from stepsim.trace_io.options import TRACE_OPTIONS, check_options
    from stepsim.trace_io.origin import read_origin
    from stepsim.trace_io.parts import RoutingPart
    from stepsim.trace_io.replaying import DecodeStep, replay, replay_rows, replay_schema
    from stepsim.trace_io.requests import RequestTrace, read_requests
    from stepsim.trace_io.routing import read_routing, read_routing_batches, routing_parts
    from stepsim.trace_io.schema import (
        REQUESTS_SCHEMA_VERSION,
        SCHEMA_VERSION,
        requests_schema,
        routing_schema,
    )
    from stepsim.trace_io.stats import LayerLoad, routing_statistics
    from stepsim.trace_io.summary import RoutingCounter, RoutingSummary
    from stepsim.trace_io.synthetic import synthetic_routing
    from stepsim.trace_io.table import RoutingTable, write_routing
    from stepsim.trace_io.validate import Place
    from stepsim.trace_io.windows import (
        Window,
        disjoint,
        nearest_windows,
        select_windows,
        window_at,
        window_stdevs,
    )
    from stepsim.trace_io.writer import ParquetStream

__all__ = [
    "REQUESTS_SCHEMA_VERSION",
    "SCHEMA_VERSION",
    "TRACE_OPTIONS",
    "Content",
    "DecodeStep",
    "Format",
    "ImportJob",
    "ImportProgress",
    "ImportSummary",
    "KvFile",
    "LayerLoad",
    "ParquetStream",
    "Place",
    "RequestTrace",
    "RoutingCounter",
    "RoutingPart",
    "RoutingSummary",
    "RoutingTable",
    "Window",
    "check_options",
    "detect_trace_format",
    "disjoint",
    "import_trace",
    "is_routing_table",
    "load_requests",
    "nearest_windows",
    "open_kv_lengths",
    "read_kv_lengths",
    "read_origin",
    "read_requests",
    "read_routing",
    "read_routing_batches",
    "replay",
    "replay_rows",
    "replay_schema",
    "requests_schema",
    "routing_parts",
    "routing_schema",
    "routing_statistics",
    "select_windows",
    "summarize_routing",
    "synthetic_routing",
    "trace_formats",
    "window_at",
    "window_stdevs",
    "write_routing",
]

__getattr__ = names_of(__name__, {
    "detection": ("detect_trace_format", "is_routing_table"),
    "formats": ("Content", "Format", "ImportJob", "trace_formats"),
    "importing": (
        "ImportProgress", "ImportSummary", "import_trace", "load_requests", "summarize_routing",
    ),
    "kv": ("KvFile", "open_kv_lengths", "read_kv_lengths"),
    "options": ("TRACE_OPTIONS", "check_options"),
    "origin": ("read_origin",),
    "parts": ("RoutingPart",),
    "replaying": ("DecodeStep", "replay", "replay_rows", "replay_schema"),
    "requests": ("RequestTrace", "read_requests"),
    "routing": ("read_routing", "read_routing_batches", "routing_parts"),
    "schema": ("REQUESTS_SCHEMA_VERSION", "SCHEMA_VERSION", "requests_schema", "routing_schema"),
    "stats": ("LayerLoad", "routing_statistics"),
    "summary": ("RoutingCounter", "RoutingSummary"),
    "synthetic": ("synthetic_routing",),
    "table": ("RoutingTable", "write_routing"),
    "validate": ("Place",),
    "windows": (
        "Window", "disjoint", "nearest_windows", "select_windows", "window_at", "window_stdevs",
    ),
    "writer": ("ParquetStream",),
})  # fmt: skip
