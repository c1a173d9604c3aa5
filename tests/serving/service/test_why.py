"""Where the time of requests went: parts that add up to the ns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stepsim.serving.answers.breakdown import breakdowns
from stepsim.serving.clock import JumpingClock
from stepsim.serving.requests.requests import Requests
from stepsim.serving.scheduling.interface import Batch
from stepsim.serving.service.loop import run
from stepsim.serving.service.tables import requests_table
from stepsim.serving.steps.interface import StepTime
from tests.serving.service.doubles import OneByOne, PerToken, three


def test_parts_of_three_requests() -> None:
    requests = three()
    ran = run(requests, OneByOne(requests), PerToken(), JumpingClock(7))
    table = requests_table(requests, ran.requests)
    found = breakdowns(table, [ran.steps])
    first = found[0]
    assert first is not None
    assert [(p.stage, p.bound, p.ns) for p in first.parts] == [
        ("prefill", "compute", 160), ("decode", "compute", 110), ("between steps", "", 7)
    ]  # fmt: skip


class _Scripted:
    """Batches that a test has written down."""

    running = waiting = free_blocks = 0

    def __init__(self, batches: list[list[tuple[int, int, int, bool]]], ends: dict[int, list[int]]):
        self._batches = batches
        self._ends = ends
        self._at = -1

    def arrive(self, request: int) -> None:
        pass

    def schedule(self, now_ns: int) -> Batch:
        self._at += 1
        r, new, before, emits = zip(*self._batches[self._at], strict=True)
        request, tokens, done = (np.array(values, np.int64) for values in (r, new, before))
        return Batch(request, tokens, done, np.array(emits, np.bool_))

    def complete(self, end_ns: int) -> NDArray[np.int64]:
        return np.array(self._ends.get(self._at, []), np.int64)


class _Named:
    def time(self, step: int, batch: Batch) -> StepTime:
        return StepTime(10**step, bound="compute" if step % 2 else "memory")


def test_preempted_request() -> None:
    # Request 1: a prompt in two steps, a token, a step without it, computed again, two tokens.
    batches = [
        [(0, 4, 0, True)],
        [(0, 1, 4, True), (1, 4, 0, False)],
        [(0, 1, 5, True), (1, 2, 4, True)],
        [(0, 1, 6, True)],
        [(1, 3, 0, False)],
        [(1, 4, 3, True)],
        [(1, 1, 7, True)],
    ]
    requests = Requests.of([4, 6], [4, 3], arrival_ns=[0, 0])
    ran = run(requests, _Scripted(batches, {3: [0], 6: [1]}), _Named(), JumpingClock(3))
    table = requests_table(requests, ran.requests)
    assert table["preemptions"].to_pylist() == [0, 1]
    assert table["recomputed_tokens"].to_pylist() == [0, 7]
    found = breakdowns(table, [ran.steps])[1]
    assert found is not None
    assert [(p.stage, p.bound, p.ns) for p in found.to_first_token] == [
        ("queueing", "", 4), ("prefill", "memory", 100), ("prefill", "compute", 10),
        ("between steps", "", 3),
    ]  # fmt: skip
    assert [(p.stage, p.bound, p.ns) for p in found.afterwards] == [
        ("decode", "memory", 1_000_000), ("decode", "compute", 100_000),
        ("recomputation", "memory", 10_000), ("not scheduled", "compute", 1000),
        ("between steps", "", 12),
    ]  # fmt: skip
    assert found.e2el_ns == table["e2el_ns"][1].as_py()
