"""Speed on the points of Figure 9: warm, one core, the simulation alone."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from stepsim.simulation import simulate
from stepsim.workloads import moe_layer, published_config

POINTS = [
    (model, tile)
    for model in ("mixtral-8x7b", "qwen3-30b-a3b")
    for tile in (8, 16, 32, 64, "dynamic")
]
FAST = {(model, tile) for model, tile in POINTS if "qwen" in model or tile == "dynamic"}


@pytest.mark.parametrize(("model", "tile"), POINTS)
def test_point(benchmark: BenchmarkFixture, routing: Any, model: str, tile: int | str) -> None:
    workload = moe_layer(**published_config(model, 64, tile), indices=routing[model])
    simulate(workload.program)
    result = benchmark.pedantic(lambda: simulate(workload.program), rounds=3)
    seconds = min(result.wall_seconds, simulate(workload.program).wall_seconds)
    rate = result.memory_requests / seconds
    benchmark.extra_info["simulation_seconds"] = round(seconds, 4)
    benchmark.extra_info["million_requests_per_second"] = round(rate / 1e6)
    assert seconds <= (0.4 if (model, tile) in FAST else 1.5)
    if "mixtral" in model:
        assert rate >= 60e6


@pytest.mark.parametrize(("model", "tile"), POINTS)
def test_peak_memory(
    benchmark: BenchmarkFixture, routing: Any, model: str, tile: int | str
) -> None:
    """Peak resident memory of a whole process, in MB."""
    code = (
        "import resource, numpy as np\n"
        "from stepsim.simulation import simulate\n"
        "from stepsim.workloads import moe_layer, published_config\n"
        f"table = np.array({routing[model].tolist()})\n"
        f"simulate(moe_layer(**published_config({model!r}, 64, {tile!r}), indices=table).program)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
    )

    def run() -> int:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    peak = benchmark.pedantic(run, rounds=1)
    benchmark.extra_info["peak_mb"] = peak
    assert peak < 500
