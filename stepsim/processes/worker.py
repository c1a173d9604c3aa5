"""The work of every worker process, however it was started."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from stepsim.errors import WorkerError

_PARENT_CHECK_SECONDS = 1.0


def check_may_start() -> None:
    """Refuse to start processes where Python does not let this one have children.

    Raises
    ------
    WorkerError : this is a daemonic process of ``multiprocessing``, such as a worker of its Pool.
    """
    own = multiprocessing.current_process()
    if own.daemon:
        raise WorkerError(
            f"worker processes cannot be started in '{own.name}', a daemonic process of "
            "multiprocessing (such as a worker of multiprocessing.Pool), which must not have "
            "children; use jobs=1 (--jobs 1) here, or start that process with daemon=False"
        )


def outcome_of(work: Callable[..., Any], *arguments: Any) -> bytes:
    """Whether the work succeeded, and its result or error, pickled."""
    try:
        return pickle.dumps((True, work(*arguments)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        error.add_note(f"in a worker process:\n{traceback.format_exc()}")
        return pickle.dumps((False, error))


def end_with_parent(parent: int, clean_up: Callable[[], None] | None = None) -> None:
    """End this process when its parent is gone, which nobody reports to it.

    It would go on with its work, or wait for more forever.
    """
    threading.Thread(target=_end_with, args=(parent, clean_up), daemon=True).start()


def _end_with(parent: int, clean_up: Callable[[], None] | None) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_SECONDS)
    if clean_up is not None:
        clean_up()
    os._exit(1)
