"""Worker processes for runs of figures, and the compiled engines that they load."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

# The first run with assumptions loads this module; import it here so forked processes have it.
import stepsim.simulation.outcome.assumptions  # noqa: F401
from stepsim.kernels import engine_of, run_hardware
from stepsim.processes import Pool, pool_of
from stepsim.simulation import ensure_compiled


def workers(jobs: int, *, fork: bool = False) -> AbstractContextManager[Pool]:
    """``jobs`` processes that make runs, as `stepsim.processes.pool_of`.

    Raises
    ------
    ArgError : ``jobs`` is below 1.
    """
    return pool_of(jobs, "stepsim.reproduce.runs", fork=fork)


def make_ready(pool: Pool, models: Iterable[str] = (), *, hardware: bool = False) -> None:
    """Compile the engines that are not yet on disk, where every process loads them.

    Parameters
    ----------
    models : memory models of the runs, some of which have a separate engine.
    hardware : whether there are runs at the hardware level.
    """
    if pool.jobs > 1:
        ensure_compiled()
        for model in models:
            engine_of(model).make_ready()
        if hardware:
            run_hardware.make_ready()
