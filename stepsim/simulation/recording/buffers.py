"""The buffers of a recorded run: when they were filled and released, and how large they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stepsim.graph import AccumBuffer, Bufferize, WiredUnit, Wiring
from stepsim.kernels import Payload
from stepsim.results import BUFFERED

if TYPE_CHECKING:
    from stepsim.simulation.running.image_run import ImageRun


def payload_bytes(tokens: NDArray[np.void], slots: NDArray[np.void]) -> NDArray[np.int64]:
    """Bytes that tokens carry themselves; the header of a tuple has the sum of its members."""
    area = tokens["rows"].astype(np.int64) * tokens["cols"]
    found: NDArray[np.int64] = (area * tokens["bits"] + 7) // 8
    tuples = tokens["kind"] == Payload.TUPLE
    if tuples.any():
        found[tuples] = slots["pub"][tokens["value"][tuples]]
    return found


def buffers_of(
    wiring: Wiring,
    run: ImageRun,
    tokens: NDArray[np.void],
    first: NDArray[np.int64],
    freed: NDArray[np.int64],
) -> NDArray[np.void]:
    """Records of `BUFFERED`.

    Parameters
    ----------
    tokens, freed : all tokens that were sent, by FIFO, and when their slots were free again.
    first : place of the first token of each FIFO.
    """
    makers = [u for u, unit in enumerate(wiring.units) if _makes_buffers(unit)]
    if not makers:
        return np.zeros(0, BUFFERED)
    released = _released(tokens, freed, run.execution.slots)
    parts = []
    for u in makers:
        unit = wiring.units[u]
        source, target = _ends(run, u)
        taken = int(run.execution.channels["removed"][source])
        took = slice(int(first[source]), int(first[source]) + taken)
        made = tokens["value"][int(first[target]) : int(first[target + 1])]
        blocks, sizes = _blocks(run, u, unit, made)
        begins = _first_inputs(unit, tokens["level"][took], run.execution.slots["rows"][made])
        # A unit that failed may have opened a buffer for a token that it did not take.
        times = np.append(freed[took] - 1, run.execution.units["clk"][u])
        part = np.zeros(len(blocks), BUFFERED)
        part["unit"] = u
        part["begin"] = times[begins[: len(blocks)]]
        part["end"] = released[blocks]
        part["end"][len(made) :] = run.totals.cycles
        part["nbytes"] = sizes
        parts.append(part)
    return np.concatenate(parts)


def _ends(run: ImageRun, u: int) -> tuple[int, int]:
    """The FIFOs in front of a unit with one input and one output, and behind it."""
    record, numbers = run.execution.units[u], run.execution.params
    return int(numbers[record["in0"]]), int(numbers[record["out0"]])


def _makes_buffers(unit: WiredUnit) -> bool:
    return isinstance(unit.operator, Bufferize | AccumBuffer)


def _first_inputs(
    unit: WiredUnit, levels: NDArray[np.int16], tiles: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Places of the tokens that open a buffer, among those that the unit took."""
    if isinstance(unit.operator, AccumBuffer):
        ends = np.flatnonzero(levels >= unit.operator.rank) + 1
    else:
        ends = np.cumsum(tiles, dtype=np.int64)
    return np.concatenate((np.zeros(1, np.int64), ends))


def _blocks(
    run: ImageRun, u: int, unit: WiredUnit, made: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Headers and bytes of the buffers of a unit; one that was not sent is the last."""
    record, slots = run.execution.units[u], run.execution.slots
    blocks, counts = made, slots["rows"][made].astype(np.int64)
    if isinstance(unit.operator, AccumBuffer):
        filled = math.prod(int(dim) for dim in unit.operator.buffer().dims)
    else:
        filled = int(record["filled"])
    if record["block"] >= 0 and filled > 0:
        blocks = np.append(blocks, record["block"])
        counts = np.append(counts, filled)
    ends = np.cumsum(counts)
    owner = np.repeat(np.arange(len(blocks)), counts)
    place = blocks[owner] + 1 + np.arange(len(owner)) - (ends - counts)[owner]
    sizes = np.zeros(len(blocks), np.int64)
    np.add.at(sizes, owner, payload_bytes(slots[place], slots))
    return blocks, sizes


def _released(
    tokens: NDArray[np.void], freed: NDArray[np.int64], slots: NDArray[np.void]
) -> NDArray[np.int64]:
    """When the last token that refers to a buffer was released, by the header of the buffer.

    Runs that keep all tokens never use a block again, so that a header is one buffer.
    """
    found = np.zeros(len(slots), np.int64)
    held, ends = tokens, freed
    while len(held):
        own = held["kind"] == Payload.BUFFER
        np.maximum.at(found, held["value"][own], ends[own])
        tuples = held["kind"] == Payload.TUPLE
        headers, ends = held["value"][tuples], ends[tuples]
        counts = slots["rows"][headers].astype(np.int64)
        owner = np.repeat(np.arange(len(headers)), counts)
        place = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
        held, ends = slots[headers[owner] + 1 + place], ends[owner]
    return found
