"""Work in several processes: order, errors, and processes that die."""

from __future__ import annotations

import os

import pytest

from stepsim.errors import ArgError, StepSimError
from stepsim.reproduce import points_of
from stepsim.reproduce.pool import workers

TASKS = ["21", "8", "9", "x", "15"]


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_answers_and_errors(jobs: int) -> None:
    ended: list[str] = []
    good = [task for task in TASKS if task != "x"]
    with workers(jobs) as pool:
        assert pool.map(points_of, good, ended.append) == [points_of(task) for task in good]
        assert sorted(ended) == sorted(good)
        with pytest.raises(ArgError, match="unknown figure 'x'"):
            pool.map(points_of, TASKS)


@pytest.mark.slow
def test_a_killed_process() -> None:
    with (
        workers(2) as pool,
        pytest.raises(StepSimError, match=r"a worker process was killed.*use fewer jobs"),
    ):
        pool.map(os._exit, [1])
