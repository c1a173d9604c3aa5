"""``stepsim why`` on the published layer of Qwen against ``stepsim run``, in CPU seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.processes import STEPSIM, run_measured

MOST = 2.5
"""Times what a run takes; the program is run some thirty times."""


@pytest.fixture
def layer(tmp_path: Path) -> list[str]:
    random = np.random.default_rng(1)
    routing = tmp_path / "routing.npz"
    np.savez(routing, data=np.array([random.choice(128, 8, False) for _ in range(64)]))
    return ["moe", "--routing", str(routing), "--model", "qwen3-30b-a3b", "--tile", "32"]


def test_an_explanation_costs_a_few_runs(benchmark: BenchmarkFixture, layer: list[str]) -> None:
    commands = {name: [*STEPSIM, name, *layer, "--json"] for name in ("run", "why")}
    for command in commands.values():
        run_measured(command)
    seconds = {
        name: min(run_measured(command)[0] for _ in range(5)) for name, command in commands.items()
    }
    benchmark(lambda: run_measured(commands["why"]))
    benchmark.extra_info["ratio"] = round(seconds["why"] / seconds["run"], 2)
    benchmark.extra_info["seconds"] = {name: round(each, 3) for name, each in seconds.items()}
    assert seconds["why"] <= MOST * seconds["run"], seconds
