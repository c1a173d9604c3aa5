"""Recorded runs of a serving simulator on profiled tables, to the ns.

They are replayed twice: by the scheduler of the package, and by a plain one that shares nothing
with it but the times of steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from stepsim.reproduce.serving.recorded import Case, gaps_check, recorded_runs
from stepsim.reproduce.serving.replay import CLOCK, late_ns, replay
from stepsim.serving import Batch
from tests.serving.plain_recorded import Engine, Request, Settings
from tests.shared import SERVING_RUNS, recorded

pytestmark = recorded(SERVING_RUNS)


@dataclass(frozen=True)
class Found:
    """What became of a request, in ns."""

    queue: int
    ttft: int
    end: int
    gaps: list[int]


@dataclass(frozen=True)
class Run:
    """What became of a run; requests are in the order of arrival."""

    clock_ns: int
    totals: dict[str, int]
    requests: list[Found]


def by_the_package(case: Case) -> Run:
    found = replay(case)
    outcomes = found.outcomes
    tokens, begin = outcomes.token_ns, outcomes.token_begin.tolist()
    columns = (
        outcomes.last_chunk_ns - outcomes.arrival_ns,
        outcomes.first_token_ns - outcomes.arrival_ns,
        outcomes.end_ns,
    )
    requests = [
        Found(queue, ttft, end, np.diff(tokens[first:last]).tolist())
        for queue, ttft, end, first, last in zip(
            *(column.tolist() for column in columns), begin[:-1], begin[1:], strict=True
        )
    ]
    return Run(found.clock_ns, found.totals(), requests)


def by_plain_rules(case: Case) -> Run:
    one, given, steps = case.instance, case.requests(), case.steps()
    settings = Settings(
        blocks=case.blocks,
        block_tokens=case.block_tokens,
        budget=one["max_num_batched_tokens"],
        most_running=one["max_num_seqs"],
        chunked=one.get("chunked_prefill", True),
        caching=one.get("prefix_caching", True),
        reserve=one.get("reserve_full_isl", True),
        threshold=one.get("long_prefill_token_threshold", 0),
        log_ns=case.settings.get("log_interval_ns", CLOCK.log_ns),
        tick_ns=CLOCK.tick_ns,
    )
    assert given.prefix is not None
    offsets, labels = given.prefix.blocks(case.block_tokens)
    requests = [
        Request(arrival, prompt, output, labels[first:last].tolist())
        for arrival, prompt, output, first, last in zip(
            given.arrival_ns.tolist(),
            given.prompt_tokens.tolist(),
            given.output_tokens.tolist(),
            offsets[:-1],
            offsets[1:],
            strict=True,
        )
    ]

    def time(entries: list[tuple[int, int]]) -> int:
        new, before = np.array(entries).T
        return steps.time(0, Batch(new, new, before, new > 0)).ns

    outcome = Engine(settings, time).run(requests)
    totals = {
        "prefix_hit_tokens": outcome.hits,
        "lower_tier_hit_tokens": 0,
        "requested_prompt_tokens": outcome.requested,
        "generated_tokens": outcome.generated,
        "preemptions": outcome.preemptions,
        "recomputed_tokens": outcome.recomputed,
        "steps": outcome.steps,
    }
    found = []
    for request in requests:
        assert request.queue is not None
        assert request.ttft is not None
        assert request.end is not None
        found.append(Found(request.queue, request.ttft, request.end, request.gaps))
    return Run(outcome.clock + late_ns(case), totals, found)


def check(case: Case, run: Run) -> None:
    expected = case.expected()
    numbers = case.requests().number.tolist()
    found = dict(zip(numbers, run.requests, strict=True))
    if expected.requests:
        assert sorted(row["id"] for row in expected.requests) == sorted(numbers), case.name
    for row in expected.requests:
        request = found[row["id"]]
        where = f"{case.name}, request {row['id']}"
        assert request.queue == row["queue"], where
        assert request.ttft == row["ttft"], where
        if "gaps" in row:
            assert request.gaps == row["gaps"], where
        if "check" in row:
            assert gaps_check(request.gaps) == row["check"], where
        assert request.end == row["end"], where
    assert {name: run.totals[name] for name in expected.totals} == expected.totals, case.name
    assert run.clock_ns == expected.clock_ns, case.name


def replay_all(by: Callable[[Case], Run]) -> None:
    seen = 0
    for case in recorded_runs(SERVING_RUNS):
        check(case, by(case))
        seen += 1
    assert seen, f"no cases of one engine in {SERVING_RUNS}"


def test_serving_runs() -> None:
    replay_all(by_the_package)


@pytest.mark.slow
def test_serving_runs_by_plain_rules() -> None:
    replay_all(by_plain_rules)
