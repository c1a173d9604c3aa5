"""Speed on the points of Figure 9: warm, one core, the simulation alone."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from stepsim.results import Result
from stepsim.simulation import simulate
from stepsim.workloads import Data, Moe

POINTS = [
    (model, tile)
    for model in ("mixtral-8x7b", "qwen3-30b-a3b")
    for tile in (8, 16, 32, 64, "dynamic")
]
FAST = {(model, tile) for model, tile in POINTS if "qwen" in model or tile == "dynamic"}


@pytest.mark.parametrize(("model", "tile"), POINTS)
def test_point(benchmark: BenchmarkFixture, routing: Any, model: str, tile: int | str) -> None:
    data = Data.of(routing=routing[model])
    built = Moe.of(model=model, tile=tile, config="published", data=data).build(data)

    def run() -> Result:
        return simulate(built.program, bindings=built.bindings(data))

    run()
    result = benchmark.pedantic(run, rounds=3)
    seconds = min(result.wall_seconds, run().wall_seconds)
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
        "import resource\n"
        "from stepsim.simulation import simulate\n"
        "from stepsim.workloads import Data, Moe\n"
        f"data = Data.of(routing={routing[model].tolist()})\n"
        f"layer = Moe.of(model={model!r}, tile={tile!r}, config='published', data=data)\n"
        "built = layer.build(data)\n"
        "simulate(built.program, bindings=built.bindings(data))\n"
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
