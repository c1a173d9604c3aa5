"""The loop of a service with a compiled scheduler; equal to `run` with the same rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels import NO_TIME, ServiceStatus
from stepsim.serving.clock import JumpingClock, TickingClock
from stepsim.serving.requests.requests import Requests
from stepsim.serving.scheduling.engine import CompiledTime, Engine
from stepsim.serving.scheduling.outcomes import Outcomes
from stepsim.serving.scheduling.settings import SchedulerRules
from stepsim.serving.service.loop import Limits, Loop, Ran, Watch, negative, stuck
from stepsim.serving.service.record import (
    NEVER,
    NUMBERS,
    Ints,
    Ragged,
    RequestRecord,
    RequestRows,
    StepRows,
    step_rows,
)
from stepsim.serving.steps.interface import StepModel, StepTime

_BETWEEN_LOOKS: Final = 100_000
"""Steps after which a loop that runs by itself reports how far it is."""

_KERNEL: Final = {
    "start_ns": "start",
    "length_ns": "length",
    "requests": "entries",
    "new_tokens": "new",
    "before_tokens": "context",
    "running": "running",
    "waiting": "waiting",
    "free_blocks": "free_blocks",
}
"""Columns of the compiled loop by those of `StepRows`."""


def run_compiled(
    requests: Requests,
    rules: SchedulerRules,
    steps: StepModel,
    clock: JumpingClock | TickingClock,
    *,
    limits: Limits | None = None,
    watch: Watch | None = None,
) -> Ran:
    """Serve all requests. Where the step model is compiled as well, it is not known which steps
    computed a request.

    Raises
    ------
    ArgError : a request is longer than allowed, or than the KV cache.
    ServingError : nothing can run and nothing will arrive, although requests are not finished.
    """
    limits = Limits() if limits is None else limits
    outcomes = Outcomes(requests, rules)
    spans = RequestRecord(requests.prompt_tokens)
    one = EngineRun(outcomes, steps, clock, spans)
    status = one.advance(limits=limits, watch=watch)
    rows = one.record.rows()
    if status == ServiceStatus.STUCK:
        raise stuck(requests, request_rows(outcomes, None), one.engine, one.engine.now_ns)
    end = int(rows.end_ns[-1]) if len(rows) else 0
    done = "ok" if status == ServiceStatus.DONE else "limit"
    computed = None if one.is_compiled else spans.rows().spans
    return Ran(request_rows(outcomes, computed), rows, done, end)


class EngineRun:
    """An engine with its step model.

    Parameters
    ----------
    place : the number of the engine among all of them.

    Attributes
    ----------
    record : its steps.
    is_compiled : whether the step model is, so that the loop runs by itself.
    """

    def __init__(
        self,
        outcomes: Outcomes,
        steps: StepModel,
        clock: JumpingClock | TickingClock,
        spans: RequestRecord,
        due: Ints | None = None,
        *,
        place: int = 0,
        stops_at_finish: bool = False,
    ) -> None:
        compiled: Callable[[], CompiledTime] | None = getattr(steps, "compiled", None)
        self.is_compiled = compiled is not None
        time = None if compiled is None else compiled()
        self.engine = Engine(
            outcomes, clock=clock, time=time, due=due, stops_at_finish=stops_at_finish
        )
        self.record = EngineRecord(self.engine, getattr(steps, "how", type(steps).__name__))
        self._outcomes, self._steps = outcomes, steps
        self._spans = spans
        self._clock = clock
        self._number, self._place = 0, place
        self._is_blocked = False

    @property
    def next_ns(self) -> int:
        """When the next step can begin, as far as arrivals are known; NO_TIME without any."""
        engine = self.engine
        if (engine.running or engine.waiting) and not self._is_blocked:
            return engine.now_ns
        coming = engine.coming_ns
        return NO_TIME if coming is None else self._clock.after_idle(engine.now_ns, coming)

    def push(self, request: int, arrival_ns: int | None = None) -> None:
        """Have a request arrive here, by default at its time."""
        self.engine.push(request, arrival_ns)

    def advance(
        self, until_ns: int = NO_TIME, limits: Limits | None = None, watch: Watch | None = None
    ) -> ServiceStatus:
        """Run until all is done, the next step would begin at ``until_ns`` or later, or, if the
        engine stops there, requests have finished.

        Raises
        ------
        ServingError : the step model gives a negative time.
        """
        most = None if limits is None else limits.max_steps
        before = self.engine.steps
        status = (
            self._alone(until_ns, most, watch)
            if self.is_compiled
            else self._asking(until_ns, most, watch)
        )
        # It had the time for a step and began none.
        self._is_blocked = self.engine.steps == before and self.engine.now_ns < until_ns
        return status

    def _asking(self, until_ns: int, most: int | None, watch: Watch | None) -> ServiceStatus:
        """Run with a step model that is asked for every step."""
        engine = self.engine
        while True:
            status = engine.run(until_ns)
            if status != ServiceStatus.NEEDS_TIME or self._number == most:
                return status
            batch, start = engine.batch, engine.now_ns
            taken = self._steps.time(self._number, batch)
            if taken.ns < 0:
                raise negative(self._number, taken)
            self._spans.step(self._number, start, start + taken.ns, batch)
            self.record.add(taken)
            self._number += 1
            if watch is not None:
                watch(self._loop(start + taken.ns))

    def _alone(self, until_ns: int, most: int | None, watch: Watch | None) -> ServiceStatus:
        """Run with a compiled step model."""
        engine = self.engine
        while True:
            limit = engine.steps + _BETWEEN_LOOKS
            status = engine.run(until_ns, limit if most is None else min(limit, most))
            if status != ServiceStatus.FULL or engine.steps == most:
                return status
            if watch is not None:
                watch(self._loop(engine.now_ns))

    def _loop(self, now_ns: int) -> Loop:
        return Loop(now_ns, self._outcomes.finished, self.record, self._place)


class EngineRecord:
    """The steps of an engine, with what a step model said of each; a compiled one is ``how``."""

    def __init__(self, engine: Engine, how: str) -> None:
        self.engine = engine
        self._how = how
        self._taken: list[StepTime] = []
        self._rows = engine.take_rows()

    def __len__(self) -> int:
        return len(self._taken) or len(self._all())

    def add(self, taken: StepTime) -> None:
        """Let the step at hand take so long."""
        self._taken.append(taken)
        self.engine.go_on(taken.ns)

    def rows(self, first: int = 0) -> StepRows:
        """The rows of the steps that have ended, from the step ``first`` on."""
        rows = self._all()[first:]
        count = len(rows)
        numbers = {
            field: np.ascontiguousarray(rows[column], np.int64) for field, column in _KERNEL.items()
        }
        if not self._taken:
            unknown = np.full(count, NEVER, np.int64)
            columns = [numbers.get(name, unknown) for name in NUMBERS]
            return step_rows(columns, [""] * count, [self._how] * count)
        taken = self._taken[first : first + count]
        numbers["cycles"] = _known([one.cycles for one in taken])
        numbers["offchip_bytes"] = _known([one.offchip_bytes for one in taken])
        columns = [numbers[name] for name in NUMBERS]
        return step_rows(columns, [one.bound for one in taken], [one.how for one in taken])

    def _all(self) -> NDArray[np.void]:
        new = self.engine.take_rows()
        if len(new):
            self._rows = np.concatenate((self._rows, new[new["entries"] > 0]))
        return self._rows


def request_rows(outcomes: Outcomes, spans: Ragged | None) -> RequestRows:
    """What became of the requests of engines."""
    room, used = outcomes.token_begin, outcomes.generated
    offsets = np.concatenate(([0], np.cumsum(used))).astype(np.int64)
    place = np.arange(offsets[-1]) + np.repeat(room[:-1] - offsets[:-1], used)
    arrived = np.where(_has_arrived(outcomes), outcomes.arrival_ns, NEVER)
    return RequestRows(
        arrived, outcomes.scheduled_ns.copy(), outcomes.end_ns.copy(),
        outcomes.cached_tokens.copy(), outcomes.recomputed_tokens.copy(),
        outcomes.preemptions.copy(), Ragged(offsets, outcomes.token_ns[place]), spans,
    )  # fmt: skip


def _has_arrived(outcomes: Outcomes) -> NDArray[np.bool_]:
    """Which requests have a certain time of arrival: those that no unfinished request precedes."""
    after = outcomes.requests.after
    ended = outcomes.end_ns[np.maximum(after, 0)] >= 0
    found: NDArray[np.bool_] = (after < 0) | ended
    return found


def _known(values: Sequence[int | None]) -> Ints:
    return np.array([NEVER if value is None else value for value in values], np.int64)
