"""Speed of the scheduler of services, in CPU time; printed with ``-s``.

Goals on a quiet core: Mooncake's conversation trace on eight engines in 1.0 s, from the read trace
to the metrics; 200 000 steps/s of 256 requests that generate; at most 1 GB. Limits are half of the
speeds, for cores that are not quiet. Instructions grow as the number of requests.
"""

from __future__ import annotations

import math
import resource
import subprocess
import sys
import time
from contextlib import nullcontext

import numpy as np
import pytest

from bench.callgrind import can_count, counted, counts_of, fixed_environment
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

_SIZES = (5_000, 40_000)
"""Requests of which instructions are counted: seconds depend on what else the machine does."""


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


@pytest.mark.skipif(not can_count(), reason="valgrind counts instructions here")
def test_work_grows_as_the_number_of_requests() -> None:
    command = [sys.executable, "-m", "bench.test_serving_speed"]
    subprocess.run(command, env=fixed_environment(), check=True)  # compiles what is not
    counts = counts_of([*command, "count"])
    few, many = (counts[str(count)] for count in _SIZES)
    exponent = math.log(many / few) / math.log(_SIZES[1] / _SIZES[0])
    print(f"exponent {exponent:.3f}: {few / 1e6:,.0f} and {many / 1e6:,.0f} million instructions")
    assert exponent < 1.05


def _overloaded(count: int) -> Engine:
    """A service in which most of the requests wait most of the time."""
    rng = np.random.default_rng(1)
    requests = Requests.of(
        rng.integers(50, 500, count), rng.integers(20, 200, count),
        arrival_ns=np.arange(count) * 1_000_000,
    )  # fmt: skip
    settings = SchedulerSettings(num_blocks=3000, max_num_seqs=128, max_num_batched_tokens=2048)
    return Engine(
        Outcomes(requests, settings.completed()), time=_time().compiled(), keeps_rows=False
    )


def _time() -> LinearSteps:
    return LinearSteps(step_ns=8_000_000, token_ns=40_000, decode_context_ns=80)


def _count(is_counted: bool) -> None:
    """Serve as many requests as each size says, and count the instructions."""
    _overloaded(100).run()
    for count in _SIZES:
        engine = _overloaded(count)
        with counted(str(count)) if is_counted else nullcontext():
            engine.run()


if __name__ == "__main__":
    _count("count" in sys.argv)
