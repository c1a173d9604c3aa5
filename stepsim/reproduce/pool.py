"""Do many pieces of work, in this process or in several. The number of processes changes no result.

The processes find the compiled engine in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, as_completed
from contextlib import contextmanager
from typing import TypeVar

from stepsim.errors import StepSimError
from stepsim.processes import WorkerProcesses
from stepsim.simulation import ensure_compiled

__all__ = ["Pool", "workers"]

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


class Pool:
    """Where work is done: in the worker processes, or here when there is none."""

    def __init__(self, processes: WorkerProcesses | None) -> None:
        self._processes = processes

    def map(
        self,
        work: Callable[[Task], Outcome],
        tasks: Sequence[Task],
        done: Callable[[Task], None] | None = None,
    ) -> list[Outcome]:
        """What the work returns, in the order of the tasks, which are started in that order.

        ``done`` is called with each task as it ends. The first error is raised at once.

        Raises
        ------
        StepSimError : a process was killed.
        """
        notice = done or (lambda task: None)
        if self._processes is None:
            outcomes = []
            for task in tasks:
                outcomes.append(work(task))
                notice(task)
            return outcomes
        futures = [self._processes.submit(work, task) for task in tasks]
        which = dict(zip(futures, tasks, strict=True))
        try:
            for future in as_completed(futures):
                future.result()
                notice(which[future])
        except BrokenExecutor as error:
            raise StepSimError(
                "a worker process was killed, most likely because memory ran out; use fewer jobs"
            ) from error
        return [future.result() for future in futures]


@contextmanager
def workers(jobs: int) -> Iterator[Pool]:
    """``jobs`` processes; for one, this process itself."""
    if jobs == 1:
        yield Pool(None)
        return
    processes = WorkerProcesses(jobs, "stepsim.reproduce")
    try:
        ensure_compiled()
        yield Pool(processes)
    finally:
        processes.stop()
