"""Speed of the engine on synthetic chains: firings per second, and its growth with the graph."""

from __future__ import annotations

import time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.networks import chain
from stepsim.kernels import execute
from stepsim.lowering import build_image

FIRINGS = 3_000_000


def _best_rate(units: int, tokens: int, repeats: int = 5) -> float:
    """Firings per CPU second, the best of a few runs."""
    image = build_image(chain(units, tokens, 8))
    least = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        run = execute(image)
        least = min(least, time.process_time() - begin)
    return float(run.globals.steps) / least


@pytest.mark.parametrize("op", ["UnaryMap", "Flatten"])
@pytest.mark.parametrize(("depth", "nanoseconds"), [(8, 15), (2, 21)])
def test_chain_of_a_thousand_units(
    benchmark: BenchmarkFixture, op: str, depth: int, nanoseconds: float
) -> None:
    """CPU time of a firing, the least of many runs."""
    image = build_image(chain(1000, 1000, depth, op))
    run = execute(image)
    assert run.finished
    seconds = float("inf")
    for _ in range(20):
        begin = time.process_time()
        execute(image)
        seconds = min(seconds, time.process_time() - begin)
    benchmark(execute, image)
    found = seconds / int(run.globals.steps) * 1e9
    benchmark.extra_info["nanoseconds_per_firing"] = round(found, 1)
    assert found <= nanoseconds


def test_cost_per_firing_does_not_grow_with_the_graph(benchmark: BenchmarkFixture) -> None:
    def ratio() -> float:
        return _best_rate(30, FIRINGS // 30) / _best_rate(3000, FIRINGS // 3000)

    growth = benchmark.pedantic(ratio, rounds=1)
    benchmark.extra_info["cost_3000_over_30_units"] = round(growth, 2)
    assert growth <= 1.5


def test_cost_per_firing_does_not_grow_with_the_run(benchmark: BenchmarkFixture) -> None:
    def ratio() -> float:
        return _best_rate(100, 3_000) / _best_rate(100, 30_000)

    growth = benchmark.pedantic(ratio, rounds=1)
    benchmark.extra_info["cost_of_a_tenfold_run"] = round(growth, 2)
    assert growth <= 1.5
