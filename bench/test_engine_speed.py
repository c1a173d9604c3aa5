"""Speed of the engine on synthetic chains: firings per second, and its growth with the graph."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.networks import chain
from stepsim.kernels.driver import execute
from stepsim.lowering import build_image

FIRINGS = 3_000_000


def _best_rate(units: int, op: str, repeats: int = 5) -> float:
    """Firings per second, the best of a few runs (machines are noisy)."""
    image = build_image(chain(units, FIRINGS // units, 8, op))
    runs = [execute(image) for _ in range(repeats)]
    return max(float(run.globals.steps) / run.wall_seconds for run in runs)


@pytest.mark.parametrize("op", ["UnaryMap", "Flatten"])
def test_chain_of_a_thousand_units(benchmark: BenchmarkFixture, op: str) -> None:
    image = build_image(chain(1000, FIRINGS // 1000, 8, op))
    execute(image)
    run = benchmark(execute, image)
    rate = _best_rate(1000, op)
    benchmark.extra_info["million_firings_per_second"] = round(rate / 1e6, 1)
    assert run.finished
    assert rate >= 15e6


def test_cost_per_firing_does_not_grow_with_the_graph(benchmark: BenchmarkFixture) -> None:
    def ratio() -> float:
        return _best_rate(30, "UnaryMap") / _best_rate(3000, "UnaryMap")

    growth = benchmark.pedantic(ratio, rounds=1)
    benchmark.extra_info["cost_3000_over_30_units"] = round(growth, 2)
    assert growth <= 1.5


def test_cost_per_firing_does_not_grow_with_the_run(benchmark: BenchmarkFixture) -> None:
    def rate(tokens: int) -> float:
        image = build_image(chain(100, tokens, 8))
        runs = [execute(image) for _ in range(5)]
        return max(float(run.globals.steps) / run.wall_seconds for run in runs)

    growth = benchmark.pedantic(lambda: rate(3_000) / rate(30_000), rounds=1)
    benchmark.extra_info["cost_of_a_tenfold_run"] = round(growth, 2)
    assert growth <= 1.5
