"""Worker processes that are fresh interpreters."""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, TypeVar

import loky

from stepsim.errors import OutputError
from stepsim.processes.worker import check_may_start, end_with_parent, outcome_of

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")

_GARBAGE_THRESHOLDS = (200_000, 20, 20)
"""Threshold of garbage collection: programs are many long-lived objects without reference
cycles."""

_ATOMIC_BYTES = 2048
"""Bytes that a pipe writes atomically, less headers: at least 512 by POSIX, 4096 on Linux."""


class ResultLost(OutputError):
    """The result of a process is gone or cannot be read; it may be computed again."""


class FreshProcesses:
    """``jobs`` processes of loky's executor, which load ``module`` from now on.

    They are started afresh rather than forked, because this process has threads (Arrow, numba),
    and without importing the user's main module, so that scripts need no guard. When one of them
    dies, all are ended, and every future that is not done raises ``BrokenExecutor``.

    Large results come as files. A process that is killed while it writes into a pipe leaves half
    of a message, for whose end the executor would wait forever. A future whose file is gone raises
    `ResultLost`.

    Raises
    ------
    WorkerError : this process must not have children.
    """

    def __init__(self, jobs: int, module: str) -> None:
        check_may_start()
        self._stopped = False
        self._under_way: set[Future[Any]] = set()
        self._folder = tempfile.mkdtemp(prefix="stepsim-")
        try:
            with _signals_held():
                self._executor = loky.ProcessPoolExecutor(
                    jobs, initializer=_begin, initargs=(os.getpid(), module, self._folder)
                )
                # The first piece of work starts them all.
                self._first = self._executor.submit(_nothing)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call ``work`` in one of the processes. Raises BrokenExecutor when one has died."""
        inner = self._executor.submit(_outcome, self._folder, work, arguments)
        future: Future[Any] = Future()
        self._under_way.add(inner)
        inner.add_done_callback(partial(self._pass_on, future))
        return future

    def map(
        self,
        work: Callable[[Task], Outcome],
        tasks: Sequence[Task],
        done: Callable[[Task], None],
    ) -> list[Outcome]:
        """The results of the work, in the order of the tasks, which are started in that order.

        ``done`` is called with each task as it ends. The first error is raised at once.

        Raises
        ------
        BrokenExecutor : a process was killed.
        """
        futures = [self.submit(work, task) for task in tasks]
        which = dict(zip(futures, tasks, strict=True))
        for future in as_completed(futures):
            future.result()
            done(which[future])
        return [future.result() for future in futures]

    @property
    def never_began(self) -> bool:
        """Whether they died before any of them was ready to work."""
        return self._first.done() and self._first.exception() is not None

    def began(self) -> bool:
        """Wait until one of them is ready to work, or all have died; returns which."""
        return self._first.exception() is None

    def stop(self) -> None:
        """End the processes immediately, whatever they are doing."""
        self._stopped = True
        busy = bool(self._under_way) or not self._first.done()
        self._executor.shutdown(wait=True, kill_workers=busy)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _pass_on(self, future: Future[Any], inner: Future[bytes]) -> None:
        self._under_way.discard(inner)
        try:
            succeeded, value = _loaded(inner.result())
        # Errors of the work are values here; this one comes from the processes or from unpickling.
        except BaseException as error:
            if self._stopped and not isinstance(error, BrokenExecutor):
                error = BrokenExecutor("the processes were stopped")
            future.set_exception(error)
            return
        if succeeded:
            future.set_result(value)
        else:
            future.set_exception(value)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Processes that start in the block get no SIGINT and SIGHUP, which a terminal sends to all.

    It is for the process they work for to end them; those that are just starting, and one of
    loky's that clears up after the others, would complain with a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows, which has no hangups
        yield
        return
    held = [signal.SIGINT, signal.SIGHUP]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        # The process that clears up after the others would start with the first of them, after
        # which Python lets SIGINT through.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, held)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _nothing() -> None:
    pass


def _outcome(folder: str, work: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    """The pickled result or error of the work, or the name of the file that holds it."""
    data = outcome_of(work, *arguments)
    if len(data) <= _ATOMIC_BYTES:
        return data
    try:
        handle, name = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    except OSError as error:
        return pickle.dumps(_Unwritten(folder, OSError(error.errno, error.strerror)))
    return pickle.dumps(Path(name))


@dataclass(frozen=True)
class _Unwritten:
    """Why there is no file. Exceptions lose their cause when they are pickled."""

    folder: str
    cause: OSError

    def error(self) -> OutputError:
        error = OutputError(
            f"{self.folder}: a worker process cannot write its results there "
            f"({self.cause.strerror}); free some space, or set TMPDIR to another folder"
        )
        error.__cause__ = self.cause
        return error


def _loaded(data: bytes) -> tuple[bool, Any]:
    found = pickle.loads(data)
    if isinstance(found, Path):
        try:
            data = found.read_bytes()
        except OSError as error:
            raise ResultLost(
                f"{found}: the results of a worker process cannot be read ({error.strerror}); "
                "keep the folder of temporary files from being cleared, or set TMPDIR to another"
            ) from error
        with suppress(OSError):  # the folder goes in the end
            found.unlink()
        found = pickle.loads(data)
    return (False, found.error()) if isinstance(found, _Unwritten) else found


def _begin(parent: int, module: str, folder: str) -> None:
    end_with_parent(parent, partial(shutil.rmtree, folder, ignore_errors=True))
    gc.disable()
    importlib.import_module(module)
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    gc.enable()
