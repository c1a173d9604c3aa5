"""Structured dtypes of a batch: many runs of one image in one call of the engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepsim.frozen import NamedTuple

BATCH = np.dtype(
    [
        ("runs", np.int64),  # 0: the state is a single run
        ("run", np.int64),  # the run at hand
        ("begun", np.int64),  # it is under way
        ("given_up", np.int64),  # it ends as it stands
        ("budget", np.int64),  # return to the caller after so much work
        ("every", np.int64),  # return to the caller after every run
        ("fixed", np.int64),  # words that every run begins with
        ("wants_units", np.int64),
    ],
    align=True,
)

TOTALS = np.dtype(
    [
        ("ended", np.int64),  # RunState
        ("unfinished", np.int64),  # units that have not ended
        ("failed", np.int64),  # units that have failed
        ("cycles", np.int64),
        ("offchip_bytes", np.int64),
        ("memory_requests", np.int64),
        ("flops", np.int64),
        ("tokens", np.int64),
        ("undelivered_tokens", np.int64),
        ("engine_steps", np.int64),
        ("effort", np.int64),  # work of the engine so far, in firings
    ],
    align=True,
)
"""What a run of a batch amounts to."""

UNIT_TOTALS = np.dtype(
    [
        ("state", np.int64),  # Status
        ("fires", np.int64),
        ("clk", np.int64),
        ("busy", np.int64),
        ("wait_in", np.int64),
        ("wait_out", np.int64),
        ("memory", np.int64),
        ("before", np.int64),
        ("after", np.int64),
        ("longest", np.int64),  # cycles of the longest wait
        ("longest_at", np.int64),  # twice its FIFO, and one for a slot of it; -1 for the memory
        ("requests", np.int64),
        ("traffic", np.int64),
        ("flops", np.int64),
    ],
    align=True,
)
"""What one unit did in a run of a batch; ``after`` ends with the unit."""


class Batch(NamedTuple):
    """Runs of one image that differ in words of its parameters.

    Attributes
    ----------
    image : words that every run begins with.
    words : the memory of the state, which begins with those; the slot arena comes last.
    places : of the parameters that differ.
    values : what they are, for one run after the other.
    memory_table : words of the memory's table that every run begins with; its cache stays.
    control : the one BATCH record.
    totals : TOTALS of every run.
    units : UNIT_TOTALS of every run, one unit after the other; empty unless wanted.
    """

    image: Any
    words: Any
    places: Any
    values: Any
    memory_table: Any
    control: Any
    totals: Any
    units: Any
