"""Worker processes of this machine: fresh interpreters that end with the process they work for."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import threading
import time
from contextlib import suppress
from typing import Any

from joblib.externals import loky

__all__ = ["start_processes", "stop_processes"]

_GARBAGE_THRESHOLDS = (200_000, 20, 20)
"""Programs are many long-lived objects without cycles; looking for cycles finds none."""

_PARENT_CHECK_SECONDS = 1.0


def start_processes(jobs: int, module: str) -> Any:
    """An executor of joblib with ``jobs`` processes, which load ``module`` from now on.

    They are started afresh rather than forked, because this process has threads (Arrow, numba),
    and without importing the user's main module, so that scripts need no guard.
    """
    start = {"initializer": _begin, "initargs": (os.getpid(), module)}
    executor = loky.ProcessPoolExecutor(jobs, **start)
    executor.submit(_nothing)  # the first piece of work starts them all
    return executor


def stop_processes(executor: Any) -> None:
    """End the processes at once, with whatever they are at."""
    # Not by kill_workers=True, which fails in a thread of the executor while work is waiting.
    for process in list(executor._processes):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    executor.shutdown(wait=True)


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
