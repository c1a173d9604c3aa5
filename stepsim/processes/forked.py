"""Worker processes that are forked from this one and share its loaded modules at no cost.

This is possible only without threads of this process, as at the start of a command.
The threads of OpenBLAS, jemalloc and Arrow do no harm, since these libraries handle a fork.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import TypeVar

from stepsim.collection import rare_collection
from stepsim.processes.worker import check_may_start, end_with_parent, outcome_of

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


def can_fork() -> bool:
    """Whether a fork is safe: on Linux, without threads of Python that might hold a lock."""
    return sys.platform == "linux" and threading.active_count() == 1


class ForkedProcesses:
    """``jobs`` copies of this process, as it is now, that work for it.

    SIGINT and SIGHUP, which a terminal sends to all, are left to this process; it ends the others.

    Raises
    ------
    WorkerError : this process must not have children.
    """

    def __init__(self, jobs: int) -> None:
        check_may_start()
        context = multiprocessing.get_context("fork")
        self._processes: dict[Connection, ForkProcess] = {}
        parent = os.getpid()
        # Garbage collection of loaded objects would copy their pages.
        gc.freeze()
        held = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGHUP])
        try:
            for _ in range(jobs):
                ours, theirs = context.Pipe()
                inherited = [*self._processes, ours]
                process = context.Process(
                    target=_work, args=(theirs, inherited, parent), daemon=True
                )
                with warnings.catch_warnings():
                    # Python counts the threads of libraries too.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    process.start()
                theirs.close()
                self._processes[ours] = process
        except BaseException:
            self.stop()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            gc.unfreeze()

    def map(
        self,
        work: Callable[[Task], Outcome],
        tasks: Sequence[Task],
        done: Callable[[Task], None],
    ) -> list[Outcome]:
        """The results of the work, in the order of the tasks, which are started in that order.

        ``done`` is called with each task as it ends. The first error is raised at once, and ends
        the processes.

        Raises
        ------
        BrokenExecutor : a process was killed.
        """
        try:
            return self._mapped(work, tasks, done)
        except BaseException:
            self.stop()
            raise

    def _mapped(
        self,
        work: Callable[[Task], Outcome],
        tasks: Sequence[Task],
        done: Callable[[Task], None],
    ) -> list[Outcome]:
        found: dict[int, Outcome] = {}
        waiting = list(enumerate(tasks))[::-1]
        under_way: dict[Connection, int] = {}
        idle = list(self._processes)
        while len(found) < len(tasks):
            while idle and waiting:
                connection = idle.pop()
                number, task = waiting.pop()
                under_way[connection] = number
                with suppress(BrokenPipeError):  # nothing will be received either
                    connection.send((work, task))
            for ready in wait(list(under_way)):
                assert isinstance(ready, Connection)
                try:
                    data = ready.recv_bytes()
                except (EOFError, ConnectionResetError):
                    raise BrokenExecutor("a process ended before it had answered") from None
                succeeded, value = pickle.loads(data)
                if not succeeded:
                    raise value
                number = under_way.pop(ready)
                found[number] = value
                done(tasks[number])
                idle.append(ready)
        return [found[number] for number in range(len(tasks))]

    def stop(self) -> None:
        """End the processes immediately, whatever they are doing."""
        for process in self._processes.values():
            process.kill()
        for connection, process in self._processes.items():
            process.join()
            connection.close()
        self._processes.clear()


def _work(connection: Connection, inherited: Sequence[Connection], parent: int) -> None:
    """Answer requests until the parent closes the connection."""
    for one in inherited:
        # While a copy is open, the end of the other side goes unnoticed.
        one.close()
    end_with_parent(parent)
    with rare_collection():
        while True:
            try:
                work, task = connection.recv()
            except EOFError:
                return
            connection.send_bytes(outcome_of(work, task))
