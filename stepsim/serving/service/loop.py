"""The loop of a service: requests -> scheduler -> step model -> clock -> requests."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from stepsim.arguments import counted
from stepsim.errors import ServingError
from stepsim.serving.clock import Clock
from stepsim.serving.requests.requests import Requests
from stepsim.serving.scheduling.interface import Scheduler
from stepsim.serving.service.record import RequestRecord, RequestRows, StepRecord, StepRows
from stepsim.serving.steps.interface import StepModel, StepTime


class Recorded(Protocol):
    """Steps until now."""

    def __len__(self) -> int: ...

    def rows(self, first: int = 0) -> StepRows:
        """The rows from the step ``first`` on."""
        ...


@dataclass(frozen=True, slots=True)
class Loop:
    """Where a service is: what its progress line shows, and what is saved meanwhile.

    Attributes
    ----------
    now_ns : time of the service.
    finished : counts the requests that are done.
    steps : the steps until now, of the engine that has just ended one.
    engine : the number of that engine.
    """

    now_ns: int
    finished: Callable[[], int]
    steps: Recorded
    engine: int = 0


Watch = Callable[[Loop], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """When a service is stopped although requests are left.

    Attributes
    ----------
    max_steps : number of steps; None for no limit.
    until_ns : no step begins at or after this time; None for no limit.
    """

    max_steps: int | None = None
    until_ns: int | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Ran:
    """The end of a service.

    Attributes
    ----------
    status : ``ok``, or ``limit`` if it was stopped with requests left.
    end_ns : end of the last step.
    """

    requests: RequestRows
    steps: StepRows
    status: str
    end_ns: int


class Arrivals:
    """The requests that have not arrived yet, those without a certain time included."""

    def __init__(self, requests: Requests) -> None:
        known = np.flatnonzero(requests.after < 0)
        self._due = [(int(requests.arrival_ns[i]), int(i)) for i in known]
        heapq.heapify(self._due)
        self._requests = requests
        self._followers: dict[int, list[int]] = {}
        for i in np.flatnonzero(requests.after >= 0):
            self._followers.setdefault(int(requests.after[i]), []).append(int(i))

    @property
    def next_ns(self) -> int | None:
        """When the next one arrives; None if none is certain."""
        return self._due[0][0] if self._due else None

    def until(self, now_ns: int) -> list[tuple[int, int]]:
        """Take those that have arrived: time and request, in order."""
        found = []
        while self._due and self._due[0][0] <= now_ns:
            found.append(heapq.heappop(self._due))
        return found

    def ended(self, request: int, end_ns: int) -> None:
        """Let the requests come that follow one that has ended."""
        for i in self._followers.pop(request, ()):
            think = int(self._requests.think_ns[i])
            when = max(int(self._requests.arrival_ns[i]), end_ns + think)
            heapq.heappush(self._due, (when, i))


def run(
    requests: Requests,
    scheduler: Scheduler,
    steps: StepModel,
    clock: Clock,
    *,
    limits: Limits | None = None,
    watch: Watch | None = None,
) -> Ran:
    """Serve all requests.

    ``watch`` is called after every step.

    Raises
    ------
    ServingError : nothing can run and nothing will arrive, although requests are not finished; or
        a plugin's part returns what it must not.
    """
    limits = Limits() if limits is None else limits
    arrivals, left = Arrivals(requests), len(requests)
    record, log = RequestRecord(requests.prompt_tokens), StepRecord()
    first = arrivals.next_ns
    now = end = 0 if first is None else clock.first(first)
    status, idle = "ok", False
    while left:
        for when, request in arrivals.until(now):
            record.arrival[request] = when
            scheduler.arrive(request)
        over = limits.until_ns is not None and now >= limits.until_ns
        if over or (limits.max_steps is not None and len(log) >= limits.max_steps):
            status = "limit"
            break
        batch = scheduler.schedule(now)
        if not len(batch.request):
            arrival = arrivals.next_ns
            if arrival is not None:
                now = clock.after_idle(now, arrival)
            elif idle:
                raise stuck(requests, record.rows(), scheduler, now)
            # A step without tokens may have preempted requests, so that another one can run.
            idle = arrival is None
            continue
        idle = False
        taken = steps.time(len(log), batch)
        if taken.ns < 0:
            raise negative(len(log), taken)
        end = now + taken.ns
        record.step(len(log), now, end, batch)
        log.add(now, batch, taken, scheduler)
        done = scheduler.complete(end)
        record.finished(done, end)
        for request in done:
            arrivals.ended(int(request), end)
        left -= len(done)
        now = clock.after_step(end)
        if watch is not None:
            watch(Loop(end, partial(_count, record), log))
    return Ran(record.rows(), log.rows(), status, end)


def negative(step: int, taken: StepTime) -> ServingError:
    """The error of a step model that gives a negative time."""
    return ServingError(
        f"step {step}: the step model gives {taken.ns} ns; a step takes at least 0 ns"
    )


class Counts(Protocol):
    """What a scheduler knows of its requests and blocks."""

    @property
    def running(self) -> int: ...

    @property
    def free_blocks(self) -> int: ...


def stuck(requests: Requests, rows: RequestRows, scheduler: Counts, now_ns: int) -> ServingError:
    """The error of a service in which nothing can run: who waits, and for what."""
    here = np.flatnonzero((rows.arrival_ns >= 0) & (rows.finish_ns < 0))
    first = int(here[0])
    prompt, output = int(requests.prompt_tokens[first]), int(requests.output_tokens[first])
    return ServingError(
        f"the service is stuck at {now_ns / 1e9:.3f} s: {counted(len(here), 'request')} "
        f"cannot run, and no other will arrive. The first is request {first} of "
        f"{requests.source}, with {prompt:,} tokens of prompt and {output:,} to generate, while "
        f"{counted(scheduler.free_blocks, 'block')} are free and {scheduler.running:,} requests "
        "run; give more KV blocks or memory, or leave such requests out"
    )


def _count(record: RequestRecord) -> int:
    return record.done
