"""How many runs go on at the same time in the threads of this process."""

from __future__ import annotations

import os
from typing import Final

from stepsim.arguments import Range

__all__ = ["THREADS", "thread_count", "usable_cpus"]

THREADS: Final = Range(1024, "that run at the same time")


def usable_cpus() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count(where: str, given: int | None) -> int:
    """The number of threads that was given, or one for every usable processor.

    Raises
    ------
    ArgError : it is no int from 1.
    """
    return usable_cpus() if given is None else THREADS.checked(f"{where} threads", given)
