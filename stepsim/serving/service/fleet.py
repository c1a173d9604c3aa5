"""Several engines behind a router, each with its own scheduler, blocks and clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from stepsim.kernels import ServiceStatus
from stepsim.serving.clock import JumpingClock, TickingClock
from stepsim.serving.requests.requests import Requests
from stepsim.serving.scheduling.outcomes import Outcomes
from stepsim.serving.scheduling.settings import SchedulerRules
from stepsim.serving.service.compiled import EngineRun, request_rows
from stepsim.serving.service.loop import Watch, stuck
from stepsim.serving.service.record import Ints, RequestRecord, RequestRows, StepRows
from stepsim.serving.steps.interface import StepModel


@dataclass(frozen=True, eq=False, slots=True)
class RanFleet:
    """The end of several engines.

    Attributes
    ----------
    steps : those of each engine.
    engine : the engine that served each request. [requests]
    """

    requests: RequestRows
    steps: list[StepRows]
    engine: Ints


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
    engines = [EngineRun(outcomes, model, clock, spans, due=none) for model in steps]
    choose = _ROUTERS[router](outcomes, len(steps))
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


_Choose = Callable[[int, int], int]


def _round_robin(outcomes: Outcomes, engines: int) -> _Choose:
    turn = -1

    def choose(request: int, now_ns: int) -> int:
        nonlocal turn
        turn = (turn + 1) % engines
        return turn

    return choose


class _Outstanding:
    """Requests that each engine has not finished."""

    def __init__(self, outcomes: Outcomes, engines: int) -> None:
        self._ends = outcomes.end_ns
        self._open: list[list[int]] = [[] for _ in range(engines)]

    def least(self, now_ns: int, among: Sequence[int]) -> int:
        """The engine with the fewest, the first of several."""
        for k in among:
            self._open[k] = [r for r in self._open[k] if not 0 <= self._ends[r] <= now_ns]
        return min(among, key=lambda k: len(self._open[k]))

    def add(self, engine: int, request: int) -> None:
        """Send a request to an engine."""
        self._open[engine].append(request)


def _least_outstanding(outcomes: Outcomes, engines: int) -> _Choose:
    outstanding = _Outstanding(outcomes, engines)

    def choose(request: int, now_ns: int) -> int:
        found = outstanding.least(now_ns, range(engines))
        outstanding.add(found, request)
        return found

    return choose


def _prefix_aware(outcomes: Outcomes, engines: int) -> _Choose:
    """The engine that was sent the longest common prefix; of several the least busy one."""
    outstanding = _Outstanding(outcomes, engines)
    requests, size = outcomes.requests, outcomes.rules.block_size
    none = np.zeros(len(requests) + 1, np.int64), np.empty(0, np.int64)
    offsets, labels = none if requests.prefix is None else requests.prefix.blocks(size)
    sent: list[set[int]] = [set() for _ in range(engines)]

    def choose(request: int, now_ns: int) -> int:
        own = labels[offsets[request] : offsets[request + 1]].tolist()
        own = own[: int(requests.prompt_tokens[request]) // size]
        common = [_leading(own, known) for known in sent]
        most = max(common)
        among = [k for k in range(engines) if common[k] == most]
        found = outstanding.least(now_ns, among)
        outstanding.add(found, request)
        sent[found].update(own)
        return found

    return choose


def _leading(labels: list[int], known: set[int]) -> int:
    """How many labels are known, from the first on."""
    for place, label in enumerate(labels):
        if label not in known:
            return place
    return len(labels)


_ROUTERS: dict[str, Callable[[Outcomes, int], _Choose]] = {
    "round-robin": _round_robin,
    "least-outstanding": _least_outstanding,
    "prefix-aware": _prefix_aware,
}
