"""Many pieces of work, in this process or in several. The number of processes changes no result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

import stepsim.processes
from stepsim.collection import rare_collection
from stepsim.errors import ArgError, StepSimError

if TYPE_CHECKING:
    from stepsim.processes import ForkedProcesses, FreshProcesses

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


class Pool:
    """Where work is done: in worker processes, or here without them.

    Attributes
    ----------
    jobs : number of processes that work.
    """

    def __init__(
        self, jobs: int = 1, processes: FreshProcesses | ForkedProcesses | None = None
    ) -> None:
        self.jobs = jobs
        self._processes = processes

    def map(
        self,
        work: Callable[[Task], Outcome],
        tasks: Sequence[Task],
        done: Callable[[Task], None] | None = None,
    ) -> list[Outcome]:
        """The results of the work, in the order of the tasks, which are started in that order.

        ``done`` is called with each task as it ends. The first error is raised at once.

        Raises
        ------
        StepSimError : a process was killed.
        """
        notice = done or (lambda task: None)
        if self._processes is None:
            outcomes = []
            with rare_collection():
                for task in tasks:
                    outcomes.append(work(task))
                    notice(task)
            return outcomes
        try:
            return self._processes.map(work, tasks, notice)
        except BrokenExecutor as error:
            raise StepSimError(
                "a worker process was killed, most likely because memory ran out; use fewer jobs"
            ) from error


@contextmanager
def pool_of(jobs: int, module: str, *, fork: bool = False) -> Iterator[Pool]:
    """``jobs`` processes that have loaded ``module``; for one, this process itself.

    With ``fork`` they are copies of this process if that is safe, which saves loading its modules
    again. Only callers that control the whole process may use it, so that no other library of a
    script is forked in the middle of its work.

    Raises
    ------
    ArgError : ``jobs`` is below 1.
    WorkerError : this process must not have children, as a daemonic one.
    """
    if jobs < 1:
        raise ArgError(f"jobs: expected a whole number from 1, found {jobs}")
    if jobs == 1:
        yield Pool()
        return
    processes: FreshProcesses | ForkedProcesses
    if fork and stepsim.processes.can_fork():
        import_module(module)
        processes = stepsim.processes.ForkedProcesses(jobs)
    else:
        processes = stepsim.processes.FreshProcesses(jobs, module)
    try:
        yield Pool(jobs, processes)
    finally:
        processes.stop()
