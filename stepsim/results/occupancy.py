"""The occupancy of FIFOs and on-chip memory in a recorded run."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.results.events import Events

OF_FIFOS: Final = (
    "mean_tokens", "peak_tokens", "mean_bytes", "peak_bytes", "full_cycles", "empty_cycles",
)  # fmt: skip
OF_UNITS: Final = ("onchip_peak_bytes", "peak_buffers", "peak_buffer_bytes")
"""Columns of FIFOs and units that are null for runs that were not recorded."""


def fifo_occupancy(events: Events) -> dict[str, Any]:
    """Columns of every FIFO; a token takes its slot from ``sent`` to ``freed``."""
    rows = [_occupancy(events, fifo) for fifo in range(len(events.fifos))]
    return {name: [row[i] for row in rows] for i, name in enumerate(OF_FIFOS)}


def _occupancy(events: Events, fifo: int) -> tuple[Any, ...]:
    """The columns of one FIFO. Tokens are sent and released in the same order."""
    own, cycles, depth = events.tokens(fifo), events.cycles, int(events.depths[fifo])
    sent = np.minimum(events.sent[own], cycles)
    freed = np.minimum(events.freed[own], cycles)
    nbytes = events.nbytes[own]
    full = None if depth == 0 else 0
    if not len(sent):
        return 0.0, 0, 0.0, 0, full, cycles
    stay = freed - sent
    # A slot that is freed in a cycle can be taken again in the same cycle.
    left = np.searchsorted(freed, sent, side="right")
    count = np.arange(1, len(sent) + 1)
    total = np.concatenate(([0], np.cumsum(nbytes)))
    # A token that occupies no time, because the run is over, does not count.
    there = stay > 0
    before = np.concatenate(([0], freed[:-1]))
    empty = cycles - int(np.maximum(freed - np.maximum(sent, before), 0).sum())
    if 0 < depth <= len(sent):
        # The FIFO is full from the last of ``depth`` tokens until the first of them leaves.
        full = int(np.maximum(freed[: len(sent) - depth + 1] - sent[depth - 1 :], 0).sum())
    return (
        float(stay.sum()) / cycles if cycles else 0.0,
        int((count - left)[there].max(initial=0)),
        float((stay * nbytes).sum()) / cycles if cycles else 0.0,
        int((total[1:] - total[left])[there].max(initial=0)),
        full,
        empty,
    )


def levels(
    begin: NDArray[np.int64], end: NDArray[np.int64], amount: NDArray[np.int64], cycles: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Times at which a sum changes, ascending from 0, and its value from each of them on.

    Every amount counts from its beginning to its end, within the length of the run.
    """
    at = np.minimum(np.concatenate((begin, end)), cycles)
    change = np.concatenate((amount, -amount))
    order = np.argsort(at, kind="stable")
    at, value = at[order], np.cumsum(change[order])
    last = np.append(at[1:] != at[:-1], True) if len(at) else np.zeros(0, bool)
    at, value = at[last], value[last]
    if not len(at) or at[0] > 0:
        at, value = np.concatenate(([0], at)), np.concatenate(([0], value))
    return at, value


def unit_occupancy(events: Events) -> dict[str, Any]:
    """Columns of every unit; null where a size has no known bound."""
    count = len(events.units)
    buffers, held = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for unit in np.unique(events.buffers["unit"]).tolist():
        own = events.buffers[events.buffers["unit"] == unit]
        for peaks, amount in ((buffers, np.ones(len(own), np.int64)), (held, own["nbytes"])):
            peaks[unit] = levels(own["begin"], own["end"], amount, events.cycles)[1].max()
    working = events.working.tolist()
    return {
        "onchip_peak_bytes": [
            None if w < 0 else w + b for w, b in zip(working, held.tolist(), strict=True)
        ],
        "peak_buffers": buffers,
        "peak_buffer_bytes": held,
    }


def onchip_levels(events: Events) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """On-chip memory of all operators over time; None where a size is not known."""
    if (events.working < 0).any():
        return None
    ends = np.maximum(events.final_clocks, events.started)
    return levels(
        np.concatenate((events.started, events.buffers["begin"])),
        np.concatenate((ends, events.buffers["end"])),
        np.concatenate((events.working, events.buffers["nbytes"])),
        events.cycles,
    )


def onchip_peak(events: Events) -> int | None:
    """Most bytes that the operators held at one time."""
    found = onchip_levels(events)
    return None if found is None else int(found[1].max())
