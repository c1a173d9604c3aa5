"""Runs of one image that differ in the depths of its FIFOs, made by the engine's batch.

Depths stand in the records of the FIFOs, which are among the words that every run of a batch begins
with; they are changed in place from run to run. A run of a small program then costs little beyond
its simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import StepSimError
from stepsim.frozen import frozen
from stepsim.kernels import INFINITY, Execution, execute_batch
from stepsim.lowering import Image
from stepsim.simulation.outcome.totals import ending_of
from stepsim.simulation.running.limits import Limits


@frozen
class DepthRuns:
    """The outcome of runs with other FIFO depths, in their order.

    Attributes
    ----------
    status : "ok", "deadlock", "failed" or "limit" of every run.
    cycles : length of every run ``[runs]``; how far it came, where it is not ok.
    producer_wait : cycles that the producers waited for a slot ``[runs, fifos]``.
    consumer_wait : cycles that the consumers waited for a token ``[runs, fifos]``.
    blocked : whether a producer waited for a slot when the run ended ``[runs, fifos]``.
    """

    status: tuple[str, ...]
    cycles: NDArray[np.int64]
    producer_wait: NDArray[np.int64]
    consumer_wait: NDArray[np.int64]
    blocked: NDArray[np.bool_]


def run_depths(
    image: Image,
    depths: Sequence[Mapping[int, int | None]],
    *,
    limits: Limits | None = None,
    keep: frozenset[int] = frozenset(),
    check: Callable[[Execution], StepSimError | None] | None = None,
) -> DepthRuns:
    """Run an image once for each of many choices of depths, by number of FIFO; None is unbounded.

    Parameters
    ----------
    keep, check : FIFOs whose tokens a run keeps, and what may object to a run by them.

    Raises
    ------
    LoweringError
        The tokens of a run do not fit the memory of this machine.
    """
    runs, fifos = len(depths), len(image.channels)
    bounds = limits or Limits()
    rows = np.tile(image.channels["cap"], (runs, 1))
    for row, chosen in zip(rows, depths, strict=True):
        for fifo, depth in chosen.items():
            row[fifo] = INFINITY if depth is None else depth
    status = [""] * runs
    cycles = np.zeros(runs, np.int64)
    waits = np.zeros((2, runs, fifos), np.int64)
    blocked = np.zeros((runs, fifos), np.bool_)

    def note(run: int, execution: Execution) -> None:
        ended, _ = ending_of(execution)
        if ended == "ok" and check is not None and check(execution) is not None:
            ended = "failed"
        status[run] = ended
        channels = execution.channels
        waits[0, run], waits[1, run] = channels["wait_out"], channels["wait_in"]
        blocked[run] = channels["pwait"] != 0

    def fail(run: int, error: Exception) -> None:
        raise error

    totals = execute_batch(
        image,
        np.zeros(0, np.int64),
        np.zeros((runs, 0), np.int64),
        depths=rows,
        max_cycles=bounds.max_cycles or INFINITY,
        max_steps=bounds.max_steps or INFINITY,
        max_wall_seconds=bounds.max_wall_seconds or float("inf"),
        history=keep,
        every=True,
        on_stop=note,
        on_error=fail,
    )
    cycles[:] = totals.totals["cycles"]
    return DepthRuns(tuple(status), cycles, waits[0], waits[1], blocked)
