"""Arrow schemas of a result: every column carries its unit and its definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stepsim.results.columns import ENERGY, ENERGY_OF_UNITS, schema
from stepsim.results.occupancy import OF_FIFOS, OF_UNITS

if TYPE_CHECKING:
    import pyarrow as pa

    ENERGY_RUN_SCHEMA: pa.Schema
    ENERGY_STALLS_SCHEMA: pa.Schema
    ENERGY_UNITS_SCHEMA: pa.Schema
    FIFOS_SCHEMA: pa.Schema
    """Columns of the FIFOs of a run."""

    RUN_SCHEMA: pa.Schema
    """Columns of the totals of a run."""

    STALLS_SCHEMA: pa.Schema
    """Columns of the stall breakdown of the units of a run."""

    TIMELINE_SCHEMA: pa.Schema
    UNITS_SCHEMA: pa.Schema
    """Columns of the units of a run: the stall breakdown and what they hold."""

_STALLS: Final = (
    "unit", "name", "operator", "state", "firings", "final_clock", "busy", "wait_input",
    "wait_output", "wait_memory", "before", "after", "longest_wait", "longest_wait_cycles",
    "requests", "offchip_bytes", "flops",
)  # fmt: skip

ORIGIN: Final = ("label", "function", "source")
"""Columns that say where in the user's program a unit comes from; null where it has none."""

_UNITS: Final = (*_STALLS, *ORIGIN, *OF_UNITS)

_FIFOS: Final = (
    "fifo", "name", "producer", "consumer", "depth", "sent", "received", "producer_wait",
    "consumer_wait", *OF_FIFOS,
)  # fmt: skip

_RUN: Final = (
    "program", "status", "cycles", "milliseconds", "offchip_bytes", "bus_bytes", "memory_requests",
    "flops", "bandwidth_utilization", "peak_bandwidth", "tokens", "undelivered_tokens",
    "engine_steps", "wall_seconds", "provenance", "onchip_peak_bytes", "outline",
)  # fmt: skip

_ENERGY: Final = tuple(name for name in ENERGY if name != "tokens_per_second")
"""The energy columns of tables of programs; only workloads have tokens."""

_TIMELINE: Final = (
    "bin", "begin", "end", "offchip_bytes_per_cycle", "offchip_share", "outstanding_requests",
    "queued_requests", "onchip_bytes_in_use", "fifo_bytes_in_use", "fifo_slots_in_use",
    "flops_per_cycle", "units_working", "units_waiting_input", "units_waiting_output",
    "units_waiting_memory", "units_waiting_network",
)  # fmt: skip

_LINK_TIMELINE: Final = ("link_name", "bin", "begin", "end", "link_load")

_RUN_NULLS: Final = {
    "milliseconds", "bandwidth_utilization", "onchip_peak_bytes", "edp", "outline",
}  # fmt: skip

_TABLES: Final = {
    # Of machines with a table of energies; the others have no columns for it.
    "ENERGY_RUN_SCHEMA": ("run", (*_RUN, *_ENERGY), _RUN_NULLS),
    "ENERGY_STALLS_SCHEMA": (
        "units",
        (*_STALLS, *ENERGY_OF_UNITS),
        {"longest_wait", "longest_wait_cycles", *ENERGY_OF_UNITS},
    ),
    "ENERGY_UNITS_SCHEMA": (
        "units",
        (*_UNITS, *ENERGY_OF_UNITS),
        {"longest_wait", "longest_wait_cycles", *ORIGIN, *OF_UNITS},
    ),
    "FIFOS_SCHEMA": ("fifos", _FIFOS, {"depth", *OF_FIFOS}),
    "RUN_SCHEMA": ("run", _RUN, _RUN_NULLS & {*_RUN}),
    "LINK_TIMELINE_SCHEMA": ("link_timeline", _LINK_TIMELINE, set()),
    # Sweeps and batches do not record runs.
    "STALLS_SCHEMA": ("units", _STALLS, {"longest_wait", "longest_wait_cycles"}),
    "TIMELINE_SCHEMA": ("timeline", _TIMELINE, {"offchip_share", "onchip_bytes_in_use"}),
    "UNITS_SCHEMA": ("units", _UNITS, {"longest_wait", "longest_wait_cycles", *ORIGIN, *OF_UNITS}),
}
"""Name of the table, its columns, and those of them that may be null."""


def __getattr__(name: str) -> Any:
    """Create a schema on first use, as runs without tables need none."""
    if name not in _TABLES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    table, columns, nullable = _TABLES[name]
    made = schema(table, columns, required=set(columns) - nullable)
    globals()[name] = made
    return made
