"""Do many pieces of work, in this process or in several. The number of processes changes no result.

The processes find the compiled engine in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, as_completed
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from stepsim.collection import rare_collection
from stepsim.errors import ArgError, StepSimError
from stepsim.forked import Died, ForkedProcesses, can_fork
from stepsim.kernels import engine_of, run_hardware
from stepsim.simulation import ensure_compiled

if TYPE_CHECKING:
    from stepsim.processes import WorkerProcesses

__all__ = ["Pool", "workers"]

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


class Pool:
    """Where work is done: in the worker processes, or here when there is none.

    Attributes
    ----------
    jobs : number of processes that work.
    """

    def __init__(
        self, jobs: int = 1, processes: WorkerProcesses | ForkedProcesses | None = None
    ) -> None:
        self.jobs = jobs
        self._processes = processes

    def make_ready(self, models: Iterable[str] = (), *, hardware: bool = False) -> None:
        """Compile engines if they are not on disk, from where every process loads them.

        Parameters
        ----------
        models : of memories that runs use, some of which have an engine of their own.
        hardware : whether there are runs at the hardware level.
        """
        if self._processes is not None:
            ensure_compiled()
            for model in models:
                engine_of(model).make_ready()
            if hardware:
                run_hardware.make_ready()

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
            with rare_collection():
                for task in tasks:
                    outcomes.append(work(task))
                    notice(task)
            return outcomes
        try:
            if isinstance(self._processes, ForkedProcesses):
                return self._processes.map(work, tasks, notice)
            futures = [self._processes.submit(work, task) for task in tasks]
            which = dict(zip(futures, tasks, strict=True))
            for future in as_completed(futures):
                future.result()
                notice(which[future])
            return [future.result() for future in futures]
        except (BrokenExecutor, Died) as error:
            raise StepSimError(
                "a worker process was killed, most likely because memory ran out; use fewer jobs"
            ) from error


@contextmanager
def workers(jobs: int, *, fork: bool = False) -> Iterator[Pool]:
    """``jobs`` processes; for one, this process itself.

    With ``fork`` they are copies of this process where that is safe, which saves them to load what
    it has loaded. Only who knows all of this process may ask for it, so that no library that a
    script uses beside us is copied in the midst of its work.

    Raises
    ------
    ArgError : ``jobs`` is below 1.
    """
    if jobs < 1:
        raise ArgError(f"jobs: expected a whole number from 1, found {jobs}")
    if jobs == 1:
        yield Pool()
        return
    processes: WorkerProcesses | ForkedProcesses
    if fork and can_fork():
        # Loaded by the first run with assumptions, which each process has sooner or later.
        import stepsim.simulation.outcome.assumptions  # noqa: F401

        processes = ForkedProcesses(jobs)
    else:
        from stepsim.processes import WorkerProcesses

        processes = WorkerProcesses(jobs, "stepsim.reproduce")
    try:
        yield Pool(jobs, processes)
    finally:
        processes.stop()
