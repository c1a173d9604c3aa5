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
    ArgError : it is not an int from 1.
    """
    return usable_cpus() if given is None else THREADS.checked(f"{where} threads", given)


def in_threads(
    jobs: Sequence[Callable[[Callable[[], bool]], _Result]],
    threads: int,
    progress: Callable[[int], None] = lambda done: None,
) -> list[_Result]:
    """Do all jobs on some threads; what they return, in their order.

    A job is given a function that says whether it should stop early: after an error of another job,
    which is raised at once, or an interrupt. ``progress`` is called with the number of jobs done.
    """
    if threads == 1:
        made = []
        for number, job in enumerate(jobs, 1):
            made.append(job(lambda: False))
            progress(number)
        return made
    stop = Event()
    with futures.ThreadPoolExecutor(threads) as pool:
        try:
            under_way = [pool.submit(job, stop.is_set) for job in jobs]
            # An error ends all jobs when it comes, not when those before it are done.
            for number, future in enumerate(futures.as_completed(under_way), 1):
                future.result()
                progress(number)
        except BaseException:
            # First of all, or threads that are stopped begin the next job.
            pool.shutdown(wait=False, cancel_futures=True)
            stop.set()
            raise
    return [future.result() for future in under_way]
