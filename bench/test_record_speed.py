"""What recording costs, as a ratio of CPU times of the same runs in one process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.networks import chain, random_loads
from stepsim.kernels import Journal, execute
from stepsim.lowering import Image, build_image
from stepsim.simulation import prepare, record_of
from stepsim.workloads import Data, Moe
from tests.simulation.test_many import choices, two_experts

MOST = 1.20


def _qwen() -> Image:
    random = np.random.default_rng(1)
    rows = np.array([random.choice(128, 8, False) for _ in range(64)])
    data = Data.of(routing=rows)
    built = Moe.of(model="qwen3-30b-a3b", tile=32, config="published", data=data).build(data)
    return prepare(built.program).image(built.bindings(data))


def _small() -> Image:
    program, routing = two_experts()
    return prepare(program).image({routing: choices(1)[0]})


def _least(work: Callable[[], Any], least: float, repeats: int) -> float:
    begin = time.process_time()
    for _ in range(repeats):
        work()
    return min(least, (time.process_time() - begin) / repeats)


@pytest.mark.parametrize(
    ("make", "repeats"),
    [
        pytest.param(lambda: build_image(chain(500, 500, 2)), 1, id="chain"),
        pytest.param(lambda: build_image(chain(500, 500, 8, "Flatten")), 1, id="flatten"),
        pytest.param(lambda: build_image(chain(500, 500, 2, "Flatten")), 1, id="back-pressure"),
        pytest.param(_qwen, 1, id="qwen"),
        pytest.param(lambda: build_image(random_loads(64, 40)), 1, id="memory"),
        pytest.param(_small, 50, id="small"),
    ],
)
def test_recording_costs_a_fifth_at_most(
    benchmark: BenchmarkFixture, make: Callable[[], Image], repeats: int
) -> None:
    image = make()

    def recorded() -> None:
        record_of(execute(image, journal=Journal()))

    execute(image)
    recorded()
    off = on = float("inf")
    gc.disable()
    for _ in range(40):
        off = _least(lambda: execute(image), off, repeats)
        on = _least(recorded, on, repeats)
    gc.enable()
    benchmark(recorded)
    benchmark.extra_info["ratio"] = round(on / off, 3)
    assert on / off <= MOST
