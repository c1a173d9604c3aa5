"""From the engine's final records to the columns of a result's tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.frozen import NamedTuple
from stepsim.kernels import INFINITY, MEMORY_TAIL as MEMORY_TAIL, Cause, Status
from stepsim.lowering import Image, UnitOrigin
from stepsim.results import (
    OF_FIFOS,
    OF_UNITS,
    RECEIVERS,
    Events,
    Tables,
    fifo_occupancy,
    unit_occupancy,
)
from stepsim.simulation.outcome.open_waits import open_cycles, open_waits

if TYPE_CHECKING:
    from stepsim.simulation.outcome.energy import UnitEnergy


OFF_CHIP: Final = "off-chip memory"
"""What units wait for in place of neighbors, other than those that receive from a network."""

STATES = {
    Status.READY: "ready",
    Status.WAIT_INPUT: "waits for a token",
    Status.WAIT_OUTPUT: "waits for a slot",
    Status.WAIT_MEMORY: "waits for memory",
    Status.WAIT_DECISION: "waits to merge",
    Status.DONE: "done",
    Status.FAILED: "failed",
    Status.NO_SPACE: "ready",
    Status.PARKED: "waits for a slot",
    Status.NO_PACES: "ready",
}
"""The activity of a unit, by its Status."""


def run_length(execution: Any, *, unfinished: bool = True) -> int:
    """The largest final clock of all units that did not fail, the memory node included.

    With ``unfinished=False`` only units that returned normally count.
    """
    states = execution.units["state"]
    counted = states != Status.FAILED if unfinished else states == Status.DONE
    # Columns alone: a record of a unit is long.
    clocks = execution.units["clk"][counted]
    if not len(clocks):
        return 0
    last = int(clocks.max())
    memory = clocks[execution.units["port"][counted] >= 0]
    return max(last, int(memory.max()) + MEMORY_TAIL) if len(memory) else last


def last_unit(execution: Any) -> int | None:
    """The unit by which a run is as long as it is, the first of several; None without any.

    After one with a port, the end of the memory node is the last event.
    """
    units = execution.units
    counted = units["state"] != Status.FAILED
    if not counted.any():
        return None
    ends = np.where(counted, units["clk"] + MEMORY_TAIL * (units["port"] >= 0), -1)
    return int(ends.argmax())


_OF_UNITS = (
    "state", "fires", "clk", "busy", "memory", "before", "after", "requests", "traffic", "flops",
)  # fmt: skip
_OF_CHANNELS = ("producer", "consumer", "wait_in", "wait_out", "cap", "sent", "removed")


class _Records(NamedTuple):
    """What the tables are made of: copies, for the memory of a run is many times as large."""

    units: Mapping[str, NDArray[np.int64]]
    channels: Mapping[str, NDArray[np.int64]]
    unit_names: tuple[str, ...]
    unit_ops: tuple[str, ...]
    origins: tuple[UnitOrigin, ...]
    channel_names: tuple[str, ...]
    events: Events | None
    energy: UnitEnergy | None
    unit_chips: tuple[int, ...]


def tables_of(
    image: Image,
    execution: Any,
    cycles: int,
    events: Events | None = None,
    energy: UnitEnergy | None = None,
) -> Tables:
    """The tables of a run, to be made from its final records when they are asked for."""
    units, channels = execution.units, execution.channels
    of_units = {name: units[name].copy() for name in _OF_UNITS}
    of_channels = {name: channels[name].copy() for name in _OF_CHANNELS}
    _book_open_waits(of_units, of_channels, execution, cycles)
    records = _Records(
        of_units,
        of_channels,
        image.unit_names,
        image.unit_ops,
        image.unit_origins,
        image.channel_names,
        events,
        energy,
        image.unit_chips,
    )
    return Tables(partial(_unit_columns, records, cycles), partial(_fifo_columns, records))


def _book_open_waits(
    units: Mapping[str, NDArray[np.int64]],
    channels: Mapping[str, NDArray[np.int64]],
    execution: Any,
    cycles: int,
) -> None:
    """Add the waits of blocked units, up to the end of the run."""
    waits = open_waits(execution, cycles)
    length = cycles - waits.begin
    units["before"][waits.unit[waits.first]] += length[waits.first]
    of_memory = (waits.cause == Cause.MEMORY) | (waits.cause == Cause.PACKET)
    units["memory"][waits.unit[of_memory]] += length[of_memory]
    for_slots = waits.cause == Cause.SLOT
    np.add.at(channels["wait_out"], waits.fifo[for_slots], length[for_slots])
    for_tokens = ~(waits.first | of_memory | for_slots)
    np.add.at(channels["wait_in"], waits.fifo[for_tokens], length[for_tokens])


def _unit_columns(records: _Records, cycles: int) -> dict[str, Any]:
    """One row per unit; the breakdown adds up to ``cycles`` (or to a failed unit's later clock)."""
    units, channels = records.units, records.channels
    count = len(records.unit_names)
    wait_in = np.bincount(channels["consumer"], channels["wait_in"], count).astype(np.int64)
    wait_out = np.bincount(channels["producer"], channels["wait_out"], count).astype(np.int64)
    blocked = open_cycles(units["state"], units["clk"], cycles)
    idle = np.maximum(cycles, units["clk"]) - units["clk"] - blocked
    peers, longest = _longest_waits(records)
    states = [STATES[Status(state)] for state in units["state"].tolist()]
    return {
        "unit": np.arange(count, dtype=np.int32),
        "name": records.unit_names,
        "operator": records.unit_ops,
        "state": states,
        "firings": units["fires"],
        "final_clock": units["clk"],
        "busy": units["busy"],
        "wait_input": wait_in,
        "wait_output": wait_out,
        "wait_memory": units["memory"],
        "before": units["before"],
        "after": units["after"] + idle,
        "longest_wait": peers,
        "longest_wait_cycles": longest,
        "requests": units["requests"],
        "offchip_bytes": units["traffic"],
        "flops": units["flops"],
        **{name: [getattr(one, name) for one in records.origins] for name in UnitOrigin._fields},
        **_measured(records.events, unit_occupancy, OF_UNITS, count),
        **({} if records.energy is None else records.energy.columns()),
        **({"chip": records.unit_chips} if records.unit_chips else {}),
    }


def _longest_waits(records: _Records) -> tuple[list[str | None], list[int | None]]:
    """What every unit waited for longest, and how long; of equal waits the first one counts."""
    best: list[int] = records.units["memory"].tolist()
    text: list[str | None] = [
        None if cycles <= 0 else RECEIVERS.get(op, OFF_CHIP)
        for cycles, op in zip(best, records.unit_ops, strict=True)
    ]
    names = records.unit_names
    columns = ("producer", "consumer", "wait_in", "wait_out")
    rows = zip(*(records.channels[column].tolist() for column in columns), strict=True)
    for name, (producer, consumer, wait_in, wait_out) in zip(
        records.channel_names, rows, strict=True
    ):
        if wait_in > best[consumer]:
            best[consumer] = wait_in
            text[consumer] = wait_phrase(names[producer], "to send", name)
        if wait_out > best[producer]:
            best[producer] = wait_out
            text[producer] = wait_phrase(names[consumer], "to make room", name)
    return text, [cycles if what else None for cycles, what in zip(best, text, strict=True)]


def wait_phrase(peer: str, verb: str, channel: str) -> str:
    """The unit that was waited for, and its action."""
    # FIFOs are named after their producer; the name is added only if it differs.
    return f"{peer} {verb}" if channel == peer else f"{peer} {verb} ('{channel}')"


def _fifo_columns(records: _Records) -> dict[str, Any]:
    """One row per FIFO."""
    channels, names = records.channels, records.unit_names
    return {
        "fifo": np.arange(len(records.channel_names), dtype=np.int32),
        "name": records.channel_names,
        "producer": [names[u] for u in channels["producer"].tolist()],
        "consumer": [names[u] for u in channels["consumer"].tolist()],
        "depth": [None if cap >= INFINITY else cap for cap in channels["cap"].tolist()],
        "sent": channels["sent"],
        "received": channels["removed"],
        "producer_wait": channels["wait_out"],
        "consumer_wait": channels["wait_in"],
        **_measured(records.events, fifo_occupancy, OF_FIFOS, len(records.channel_names)),
    }


def _measured(
    events: Events | None,
    measure: Callable[[Events], dict[str, Any]],
    columns: Iterable[str],
    rows: int,
) -> dict[str, Any]:
    """Columns of recorded runs, null in all others."""
    return dict.fromkeys(columns, [None] * rows) if events is None else measure(events)
