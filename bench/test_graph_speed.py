"""Speed of the graph layer: a 128-expert layer is built and totalled."""

from __future__ import annotations

import time
from typing import Any

from pytest_benchmark.fixture import BenchmarkFixture

from stepsim.workloads import Data, Moe


def _build_and_total(tile: Any) -> None:
    built = Moe(model="qwen3-30b-a3b", tile=tile).build(Data(rows=64))
    metrics = built.program.metrics(counting="published")
    assert metrics.off_chip_traffic is not None
    assert metrics.on_chip_memory is not None
    assert metrics.flops is not None


def test_a_layer_of_128_experts(benchmark: BenchmarkFixture) -> None:
    def both() -> float:
        begin = time.process_time()
        _build_and_total(32)
        _build_and_total("dynamic")
        return (time.process_time() - begin) / 2

    seconds = min(both() for _ in range(5))
    benchmark.pedantic(both, rounds=1)
    print(f"\n{seconds:.3f} CPU seconds")
    assert seconds < 0.2
