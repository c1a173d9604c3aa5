"""Runs at the same time in threads of this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from threading import Event
from typing import TYPE_CHECKING, Final, TypeVar

from stepsim.arguments import Range
from stepsim.deferred import deferred

if TYPE_CHECKING:
    from concurrent import futures
else:
    futures = deferred("concurrent.futures")

_Result = TypeVar("_Result")

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


def in_threads(
    jobs: Sequence[Callable[[Callable[[], bool]], _Result]], threads: int
) -> list[_Result]:
    """Do all jobs on some threads; what they return, in their order.

    A job is given a function that says whether it should stop early: after an error of another job,
    which is raised at once, or an interrupt.
    """
    if threads == 1:
        return [job(lambda: False) for job in jobs]
    stop = Event()
    with futures.ThreadPoolExecutor(threads) as pool:
        try:
            under_way = [pool.submit(job, stop.is_set) for job in jobs]
            # An error ends all jobs when it comes, not when those before it are done.
            for future in futures.as_completed(under_way):
                future.result()
        except BaseException:
            # First of all, or threads that are stopped begin the next job.
            pool.shutdown(wait=False, cancel_futures=True)
            stop.set()
            raise
    return [future.result() for future in under_way]
