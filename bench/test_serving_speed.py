"""Speed of the scheduler of services, in CPU time; printed with ``-s``.

Goals on a quiet core: Mooncake's conversation trace on eight engines in 1.0 s, from the read trace
to the metrics; 200 000 steps/s of 256 requests that generate; at most 1 GB. Limits are half of the
speeds, for cores that are not quiet. Time grows as the number of requests.
"""

from __future__ import annotations

import math
import resource
import time

import numpy as np
import pytest

from stepsim.serving import (
    Engine,
    LinearSteps,
    Outcomes,
    Requests,
    SchedulerSettings,
    TraceRequests,
    benchmark_metrics,
)
from tests.serving.yardstick import CONVERSATION, conversation_of, serve
from tests.shared import NO_TRACES, recorded

_TURNS = 5


@recorded(CONVERSATION, NO_TRACES)
def test_conversation_speed() -> None:
    requests = TraceRequests(str(CONVERSATION)).requests()
    seconds = []
    for _ in range(_TURNS):
        begin = time.process_time()
        outcomes = conversation_of(requests)
        totals = serve(outcomes)
        metrics = benchmark_metrics(outcomes.times(), totals.last_end / 1e9)
        seconds.append(time.process_time() - begin)
    fastest = min(seconds)
    tokens = int(outcomes.generated.sum())
    assert metrics.completed == len(requests)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"conversation x8: {fastest:.2f} s (goal 1.0), {len(requests) / fastest:,.0f} requests/s, "
        f"{tokens / fastest / 1e6:.1f} M output tokens/s, {most} MB"
    )
    assert fastest < 2.0
    assert most < 1000


@pytest.mark.parametrize("running", [16, 256])
def test_speed_of_steps(running: int) -> None:
    requests = Requests.of(np.full(running, 100), np.full(running, 4000))
    settings = SchedulerSettings(num_blocks=100_000, max_num_seqs=256, max_num_batched_tokens=8192)
    fastest = float("inf")
    for _ in range(_TURNS):
        engine = Engine(
            Outcomes(requests, settings.completed()), time=_time().compiled(), keeps_rows=False
        )
        begin = time.process_time()
        engine.run()
        fastest = min(fastest, (time.process_time() - begin) / engine.steps)
    print(f"{running} running: {1e-3 / fastest:,.0f} thousand steps/s")
    assert 1 / fastest > 100_000


def test_time_grows_as_the_number_of_requests() -> None:
    sizes = (40_000, 320_000)
    seconds = [min(_overloaded(count) for _ in range(_TURNS)) for count in sizes]
    exponent = math.log(seconds[1] / seconds[0]) / math.log(sizes[1] / sizes[0])
    print(f"exponent {exponent:.2f}: {seconds[0]:.2f} s, {seconds[1]:.2f} s")
    assert exponent < 1.3


def _overloaded(count: int) -> float:
    """Seconds of a service in which most of the requests wait most of the time."""
    rng = np.random.default_rng(1)
    requests = Requests.of(
        rng.integers(50, 500, count), rng.integers(20, 200, count),
        arrival_ns=np.arange(count) * 1_000_000,
    )  # fmt: skip
    settings = SchedulerSettings(num_blocks=3000, max_num_seqs=128, max_num_batched_tokens=2048)
    engine = Engine(
        Outcomes(requests, settings.completed()), time=_time().compiled(), keeps_rows=False
    )
    begin = time.process_time()
    engine.run()
    return time.process_time() - begin


def _time() -> LinearSteps:
    return LinearSteps(step_ns=8_000_000, token_ns=40_000, decode_context_ns=80)
