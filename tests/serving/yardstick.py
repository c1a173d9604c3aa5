"""A workload to measure with: Mooncake's conversation trace on eight engines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepsim.kernels import ServiceStatus
from stepsim.serving import (
    Engine,
    JumpingClock,
    LinearSteps,
    Outcomes,
    Requests,
    SchedulerSettings,
    TraceRequests,
)
from tests.shared import TRACES

CONVERSATION = TRACES / "mooncake_conversation_trace.jsonl"

_ENGINES = 8
_TIME = LinearSteps(step_ns=8_000_000, token_ns=40_000, decode_context_ns=80)
_SETTINGS = SchedulerSettings(
    pool="recorded", num_blocks=2048, block_size=512, max_num_batched_tokens=8192, max_num_seqs=256
)


@dataclass(frozen=True)
class Totals:
    """Sums over all engines; times in ns."""

    steps: int
    hit_tokens: int
    prompt_tokens: int
    preemptions: int
    last_end: int
    ttft: int
    latency: int


@dataclass(frozen=True)
class FromOne(JumpingClock):
    """Idle time jumps to the next arrival, and the first look is at 1 ns."""

    def first(self, arrival_ns: int) -> int:
        return max(1, arrival_ns)


def conversation(count: int | None = None) -> Outcomes:
    """The first requests of the trace, for engines that take every eighth of them."""
    return conversation_of(TraceRequests(str(CONVERSATION), count=count).requests())


def conversation_of(requests: Requests) -> Outcomes:
    """The same of requests of the trace."""
    return Outcomes(requests, _SETTINGS.completed())


def serve(outcomes: Outcomes) -> Totals:
    """Serve all requests."""
    requests = outcomes.requests
    time, steps = _TIME.compiled(), 0
    for number in range(_ENGINES):
        due = np.arange(number, len(requests), _ENGINES)
        engine = Engine(outcomes, time=time, clock=FromOne(), due=due, keeps_rows=False)
        assert engine.run() == ServiceStatus.DONE
        steps += engine.steps
    arrival = outcomes.arrival_ns
    return Totals(
        steps=steps,
        hit_tokens=int(outcomes.all_cached_tokens.sum()),
        prompt_tokens=int(requests.prompt_tokens.sum()),
        preemptions=int(outcomes.preemptions.sum()),
        last_end=int(outcomes.end_ns.max()),
        ttft=int((outcomes.first_token_ns - arrival).sum()),
        latency=int((outcomes.end_ns - arrival).sum()),
    )
