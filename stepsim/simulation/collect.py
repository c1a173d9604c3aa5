"""From the engine's final records to the tables of a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepsim.kernels.layout import INFINITY, Status
from stepsim.lowering import Image
from stepsim.results import FIFOS_SCHEMA, UNITS_SCHEMA

__all__ = ["MEMORY_TAIL", "fifo_table", "run_length", "unit_table"]

MEMORY_TAIL = 3
"""Cycles from the end of the last memory operator to the end of the memory node."""

_STATES = {
    Status.READY: "ready",
    Status.WAIT_INPUT: "waits for a token",
    Status.WAIT_OUTPUT: "waits for a slot",
    Status.WAIT_MEMORY: "waits for memory",
    Status.WAIT_DECISION: "waits to merge",
    Status.DONE: "done",
    Status.FAILED: "failed",
    Status.NO_SPACE: "ready",
}


def run_length(execution: Any, *, unfinished: bool = True) -> int:
    """The largest final clock of all units that did not fail, the memory node included.

    With ``unfinished=False`` only units that returned normally count.
    """
    states = execution.units["state"]
    units = execution.units[states != Status.FAILED if unfinished else states == Status.DONE]
    if not len(units):
        return 0
    last = int(units["clk"].max())
    memory = units[units["port"] >= 0]
    return max(last, int(memory["clk"].max()) + MEMORY_TAIL) if len(memory) else last


def unit_table(image: Image, execution: Any, cycles: int) -> pa.Table:
    """One row per unit; the breakdown adds up to ``cycles`` (or to a failed unit's later clock)."""
    units, channels = execution.units, execution.channels
    count = len(units)
    wait_in = np.bincount(channels["consumer"], channels["wait_in"], count).astype(np.int64)
    wait_out = np.bincount(channels["producer"], channels["wait_out"], count).astype(np.int64)
    horizon = np.maximum(cycles, units["clk"])
    peers, longest = _longest_waits(image, units, channels)
    states = [_STATES[Status(state)] for state in units["state"]]
    columns = {
        "unit": np.arange(count, dtype=np.int32),
        "name": list(image.unit_names),
        "operator": list(image.unit_ops),
        "state": states,
        "firings": units["fires"],
        "final_clock": units["clk"],
        "busy": units["busy"],
        "wait_input": wait_in,
        "wait_output": wait_out,
        "wait_memory": units["memory"],
        "before": units["before"],
        "after": units["after"] + horizon - units["clk"],
        "longest_wait": peers,
        "longest_wait_cycles": longest,
        "requests": units["requests"],
        "offchip_bytes": units["traffic"],
        "flops": units["flops"],
    }
    return _table(columns, UNITS_SCHEMA)


def _longest_waits(
    image: Image, units: NDArray[np.void], channels: NDArray[np.void]
) -> tuple[list[str | None], list[int | None]]:
    best = [0] * len(units)
    text: list[str | None] = [None] * len(units)
    for u, record in enumerate(units):
        if record["memory"] > 0:
            best[u], text[u] = int(record["memory"]), "off-chip memory"
    for c, record in enumerate(channels):
        name = image.channel_names[c]
        producer, consumer = int(record["producer"]), int(record["consumer"])
        if record["wait_in"] > best[consumer]:
            best[consumer] = int(record["wait_in"])
            text[consumer] = _phrase(image.unit_names[producer], "to send", name)
        if record["wait_out"] > best[producer]:
            best[producer] = int(record["wait_out"])
            text[producer] = _phrase(image.unit_names[consumer], "to make room", name)
    return text, [cycles if what else None for cycles, what in zip(best, text, strict=True)]


def _phrase(peer: str, verb: str, channel: str) -> str:
    # FIFOs are named after their producer; say it only when it tells more.
    return f"{peer} {verb}" if channel == peer else f"{peer} {verb} ('{channel}')"


def fifo_table(image: Image, execution: Any) -> pa.Table:
    """One row per FIFO."""
    channels = execution.channels
    depths = [None if cap >= INFINITY else int(cap) for cap in channels["cap"]]
    columns = {
        "fifo": np.arange(len(channels), dtype=np.int32),
        "name": list(image.channel_names),
        "producer": [image.unit_names[u] for u in channels["producer"]],
        "consumer": [image.unit_names[u] for u in channels["consumer"]],
        "depth": depths,
        "sent": channels["sent"],
        "received": channels["removed"],
        "producer_wait": channels["wait_out"],
        "consumer_wait": channels["wait_in"],
    }
    return _table(columns, FIFOS_SCHEMA)


def _table(columns: dict[str, Any], schema: pa.Schema) -> pa.Table:
    arrays = [
        pa.array(
            np.ascontiguousarray(column) if isinstance(column, np.ndarray) else column,
            type=schema.field(name).type,
        )
        for name, column in columns.items()
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
