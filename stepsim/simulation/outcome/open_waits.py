"""Waits that a run ends with: what blocked units still wait for when nothing can run.

The engine books a wait when it is over. Those that never are begin at the clock of the unit and
last to the end of the run.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.frozen import NamedTuple
from stepsim.kernels import EAGER_MERGE, INFINITY, KINDS, REASSEMBLE, Cause, Status

_CAUSES: Final = {
    Status.WAIT_INPUT: Cause.TOKEN,
    Status.WAIT_OUTPUT: Cause.SLOT,
    Status.WAIT_MEMORY: Cause.MEMORY,
    Status.WAIT_DECISION: Cause.DECISION,
    Status.PARKED: Cause.SLOT,
}
"""What a blocked unit waits for; one that is ready was stopped by a limit and waits for nothing."""


class OpenWaits(NamedTuple):
    """One entry for each unit that was blocked before the end of the run, by unit.

    Attributes
    ----------
    unit : its number.
    cause : of `Cause`.
    fifo : that it waits on, the first of several; of the order of arrivals that of the first head;
        -1 for the memory and the network on chip.
    begin : its clock.
    first : whether it waits for its first token, which is booked as ``before``.
    """

    unit: NDArray[np.int64]
    cause: NDArray[np.int64]
    fifo: NDArray[np.int64]
    begin: NDArray[np.int64]
    first: NDArray[np.bool_]


def open_cycles(
    states: NDArray[np.int64], clocks: NDArray[np.int64], cycles: NDArray[np.int64] | int
) -> NDArray[np.int64]:
    """How long units have been blocked at the end of a run of so many cycles; 0 for all others."""
    blocked = np.isin(states, list(_CAUSES))
    return np.where(blocked, np.maximum(cycles - clocks, 0), 0)


def awaited_inputs(unit: Any, channels: Any, params: NDArray[np.int64]) -> list[int]:
    """The channels that a unit in state WAIT_INPUT waits for a token of.

    A merge or a reassemble looks at several heads before it takes any.
    """
    first, kind = int(unit["in0"]), KINDS[int(unit["kind"])]
    if kind is EAGER_MERGE and unit["pc"] == 0:
        several = [int(c) for c in params[first : first + int(unit["nin"])]]
    elif kind is REASSEMBLE and unit["pc"] == 1:
        entry = int(unit["entry"])
        several = [int(params[first + v]) for v in params[entry + 1 : entry + 1 + params[entry]]]
    else:
        return [int(unit["wait_channel"])]
    ends = ((c, channels[c]) for c in several)
    return [c for c, ch in ends if ch["sent"] == ch["removed"] and not ch["closed"]]


def _first_head(unit: Any, execution: Any) -> int:
    """The input of a merge whose head came first."""
    channels, first = execution.channels, int(unit["in0"])
    inputs = execution.params[first : first + int(unit["nin"])].tolist()
    stamps = []
    for fifo in inputs:
        ch = channels[fifo]
        at = int(ch["start"]) + (int(ch["removed"]) & int(ch["mask"]))
        there = ch["sent"] != ch["removed"]
        stamps.append(int(execution.slots[at]["stamp"]) if there else INFINITY)
    return int(inputs[int(np.argmin(stamps))])


def open_waits(execution: Any, cycles: int) -> OpenWaits:
    """The waits that a run of so many cycles ended with; none in a run that is ok."""
    units, channels = execution.units, execution.channels
    unit = np.flatnonzero(open_cycles(units["state"], units["clk"], cycles))
    states, fifo = units["state"][unit], np.full(len(unit), -1, np.int64)
    for place, (number, state) in enumerate(zip(unit.tolist(), states.tolist(), strict=True)):
        record = units[number]
        if state in (Status.WAIT_OUTPUT, Status.PARKED):
            fifo[place] = record["wait_channel"]
        elif state == Status.WAIT_INPUT:
            awaited = awaited_inputs(record, channels, execution.params)
            # A limit may stop a merge between the arrival of its last head and its next step.
            fifo[place] = awaited[0] if awaited else _first_head(record, execution)
        elif state == Status.WAIT_DECISION:
            fifo[place] = _first_head(record, execution)
    causes = np.array([_CAUSES[Status(state)] for state in states.tolist()], np.int64)
    causes[(causes == Cause.MEMORY) & (units["port"][unit] < 0)] = Cause.PACKET
    # The same rule as of the engine: what a unit waits for before its first firing is its own.
    by_input = (causes == Cause.TOKEN) | (causes == Cause.DECISION)
    first = by_input & (units["fires"][unit] == 0)
    return OpenWaits(unit, causes, fifo, units["clk"][unit].copy(), first)


def book_open_waits(rows: NDArray[np.void], execution: Any, cycles: int) -> None:
    """Add the waits that a run of a batch ended with to the UNIT_TOTALS of its units."""
    waits, channels = open_waits(execution, cycles), execution.channels
    for unit, cause, fifo, begin, first in zip(*(c.tolist() for c in waits), strict=True):
        row, length = rows[unit], cycles - begin
        if first:
            row["before"] += length
            continue
        if cause in (Cause.MEMORY, Cause.PACKET):
            row["memory"] += length
            whole, at = int(row["memory"]), -1
        elif cause == Cause.SLOT:
            row["wait_out"] += length
            whole, at = int(channels[fifo]["wait_out"]) + length, 2 * fifo + 1
        else:
            row["wait_in"] += length
            whole, at = int(channels[fifo]["wait_in"]) + length, 2 * fifo
        # Of equal waits the first one counts, as in the engine: the memory, then FIFO by FIFO.
        if (-whole, at) < (-int(row["longest"]), int(row["longest_at"])):
            row["longest"], row["longest_at"] = whole, at
