"""Cost per token of units with many inputs or outputs, against the same unit with few."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from pytest_benchmark.fixture import BenchmarkFixture

from bench.networks import merge_at_once, reassemble
from stepsim.kernels import execute
from stepsim.lowering import Image, Network, build_image

TOKENS = 400_000
FEW, MANY = 4, 4096


def _seconds(image: Image) -> float:
    begin = time.process_time()
    assert execute(image).finished
    return time.process_time() - begin


def _growth(network: Callable[[int], Network], repeats: int = 7) -> float:
    """Cost per token with many branches over that with few; the best of runs in alternation."""
    few, many = build_image(network(FEW)), build_image(network(MANY))
    pairs = [(_seconds(few), _seconds(many)) for _ in range(repeats + 1)][1:]
    return min(b for _, b in pairs) / min(a for a, _ in pairs)


def test_merge_of_many_inputs(benchmark: BenchmarkFixture) -> None:
    growth = benchmark.pedantic(lambda: _growth(lambda n: merge_at_once(n, TOKENS, 2)), rounds=1)
    benchmark.extra_info["cost_of_4096_over_4_inputs"] = round(growth, 2)
    assert growth < 1.5


def test_reassemble_of_many_inputs(benchmark: BenchmarkFixture) -> None:
    """Each selector chooses all inputs, whose tokens come in random order.

    Sorting them and reading inputs far apart in memory costs more with many; a scan of all inputs
    for every token would cost sixty times as much.
    """

    def network(inputs: int) -> Network:
        return reassemble(inputs, TOKENS // 4, inputs, Random(1))

    growth = benchmark.pedantic(lambda: _growth(network), rounds=1)
    benchmark.extra_info["cost_of_4096_over_4_inputs"] = round(growth, 2)
    assert growth < 12
