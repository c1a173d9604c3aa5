"""Worker processes of this machine: fresh interpreters that end with the process they work for."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from joblib.externals import loky

__all__ = ["WorkerProcesses"]

_GARBAGE_THRESHOLDS = (200_000, 20, 20)
"""Programs are many long-lived objects without cycles; looking for cycles finds none."""

_PARENT_CHECK_SECONDS = 1.0

_NOTICE_SECONDS = 2.0
"""Within which the executor notices that its processes have ended, if it can."""


class WorkerProcesses:
    """``jobs`` processes of joblib's executor, which load ``module`` from now on.

    They are started afresh rather than forked, because this process has threads (Arrow, numba),
    and without importing the user's main module, so that scripts need no guard. When one of them
    dies, all are ended, and every future that is not done raises ``BrokenExecutor``.
    """

    def __init__(self, jobs: int, module: str) -> None:
        start = {"initializer": _begin, "initargs": (os.getpid(), module)}
        self._executor = loky.ProcessPoolExecutor(jobs, **start)
        # The first piece of work starts them all.
        self._first = self._executor.submit(_nothing)

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call ``work`` in one of the processes. Raises BrokenExecutor when one has died."""
        future: Future[Any] = self._executor.submit(work, *arguments)
        return future

    @property
    def never_began(self) -> bool:
        """Whether they died before any of them was ready to work."""
        return self._first.done() and self._first.exception() is not None

    @property
    def has_died(self) -> bool:
        """Whether a process has died, be it noticed by the executor or not."""
        return not all(process.is_alive() for process in list(self._executor._processes.values()))

    def stop(self) -> None:
        """End the processes at once, with whatever they are at."""
        # Not by kill_workers=True, which fails in a thread of the executor while work is waiting.
        for process in list(self._executor._processes):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
        thread = self._executor._executor_manager_thread
        if thread is not None:
            thread.join(_NOTICE_SECONDS)
            if thread.is_alive():
                # Who died while sending leaves half an answer. The executor would wait for the
                # other half as long as there is anybody who could write it. Taken from the
                # connection first: the executor goes on at once, and closes it as well.
                writer = self._executor._result_queue._writer
                handle, writer._handle = writer._handle, None
                os.close(handle)
        self._executor.shutdown(wait=True)


def _nothing() -> None:
    pass


def _begin(parent: int, module: str) -> None:
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    gc.disable()
    importlib.import_module(module)
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    gc.enable()


def _end_with(parent: int) -> None:
    """A process whose parent was killed hears nothing of it and would wait for work forever."""
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_SECONDS)
    os._exit(1)
