"""Several engines behind a router, each with its own scheduler, blocks and clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepsim.kernels import ServiceStatus
from stepsim.serving.clock import JumpingClock, TickingClock
from stepsim.serving.requests.requests import Requests
from stepsim.serving.scheduling.outcomes import Outcomes
from stepsim.serving.scheduling.settings import SchedulerRules
from stepsim.serving.service.compiled import EngineRun, request_rows
from stepsim.serving.service.loop import Watch, stuck
from stepsim.serving.service.record import Ints, RequestRecord, RequestRows, Sent, StepRows
from stepsim.serving.service.routers import ROUTERS, Seen
from stepsim.serving.steps.interface import StepModel


@dataclass(frozen=True, eq=False, slots=True)
class RanFleet:
    """The end of several engines.

    Attributes
    ----------
    steps : those of each engine.
    engine : the engine that served each request. [requests]
    sent : of requests whose prompt was computed elsewhere; None where there are none.
    """

    requests: RequestRows
    steps: list[StepRows]
    engine: Ints
    sent: Sent | None = None


def run_fleet(
    requests: Requests,
    rules: SchedulerRules,
    steps: Sequence[StepModel],
    clock: JumpingClock | TickingClock,
    router: str,
    watch: Watch | None = None,
) -> RanFleet:
    """Serve all requests with an engine for each step model.

    A request is sent to an engine when it arrives; one that follows another goes where that went.

    Raises
    ------
    ArgError : a request is longer than allowed, or than the KV cache.
    ServingError : nothing can run and nothing will arrive, although requests are not finished.
    """
    outcomes = Outcomes(requests, rules)
    spans = RequestRecord(requests.prompt_tokens)
    none = np.empty(0, np.int64)
    engines = [
        EngineRun(outcomes, model, clock, spans, due=none, place=place)
        for place, model in enumerate(steps)
    ]
    choose = ROUTERS[router](Seen(requests, rules.block_size, outcomes.end_ns), len(steps))
    engine = np.zeros(len(requests), np.int64)
    first = np.flatnonzero(requests.after < 0)
    for request in first[np.argsort(requests.arrival_ns[first], kind="stable")].tolist():
        arrival = int(requests.arrival_ns[request])
        for one in engines:
            one.advance(until_ns=arrival, watch=watch)
        engine[request] = choose(request, arrival)
        engines[engine[request]].push(request)
    for one in engines:
        if one.advance(watch=watch) == ServiceStatus.STUCK:
            raise stuck(requests, request_rows(outcomes, None), one.engine, one.engine.now_ns)
    for request in np.flatnonzero(requests.after >= 0).tolist():
        engine[request] = engine[requests.after[request]]
    computed = None if any(one.is_compiled for one in engines) else spans.rows().spans
    rows = request_rows(outcomes, computed)
    return RanFleet(rows, [one.record.rows() for one in engines], engine)
