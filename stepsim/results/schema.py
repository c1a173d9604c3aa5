"""Arrow schemas of a result: every column carries its unit and its definition."""

from __future__ import annotations

from typing import Final

from stepsim.results.columns import schema

__all__ = ["FIFOS_SCHEMA", "RUN_SCHEMA", "UNITS_SCHEMA"]

_UNITS: Final = (
    "unit", "name", "operator", "state", "firings", "final_clock", "busy", "wait_input",
    "wait_output", "wait_memory", "before", "after", "longest_wait", "longest_wait_cycles",
    "requests", "offchip_bytes", "flops",
)  # fmt: skip

UNITS_SCHEMA: Final = schema(
    "units", _UNITS, required=set(_UNITS) - {"longest_wait", "longest_wait_cycles"}
)

_FIFOS: Final = (
    "fifo", "name", "producer", "consumer", "depth", "sent", "received", "producer_wait",
    "consumer_wait",
)  # fmt: skip

FIFOS_SCHEMA: Final = schema("fifos", _FIFOS, required=set(_FIFOS) - {"depth"})

_RUN: Final = (
    "program", "status", "cycles", "offchip_bytes", "bus_bytes", "memory_requests", "flops",
    "bandwidth_utilization", "peak_bandwidth", "tokens", "undelivered_tokens", "engine_steps",
    "wall_seconds", "provenance",
)  # fmt: skip

RUN_SCHEMA: Final = schema("run", _RUN, required=set(_RUN) - {"bandwidth_utilization"})
