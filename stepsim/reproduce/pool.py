"""Worker processes for runs of figures, and the engines that they find in the cache."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

# Loaded by the first run with assumptions: here, so that forked processes have it.
import stepsim.simulation.outcome.assumptions  # noqa: F401
from stepsim.kernels import engine_of, run_hardware
from stepsim.processes import Pool, pool_of
from stepsim.simulation import ensure_compiled


def workers(jobs: int, *, fork: bool = False) -> AbstractContextManager[Pool]:
    """``jobs`` processes that make runs, as of `stepsim.processes.pool_of`.

    Raises
    ------
    ArgError : ``jobs`` is below 1.
    """
    return pool_of(jobs, "stepsim.reproduce.runs", fork=fork)


def make_ready(pool: Pool, models: Iterable[str] = (), *, hardware: bool = False) -> None:
    """Compile engines if they are not on disk, from where every process loads them.

    Parameters
    ----------
    models : of memories that runs use, some of which have an engine of their own.
    hardware : whether there are runs at the hardware level.
    """
    if pool.jobs > 1:
        ensure_compiled()
        for model in models:
            engine_of(model).make_ready()
        if hardware:
            run_hardware.make_ready()
