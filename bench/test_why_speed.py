"""``stepsim why`` on the published layer of Qwen against ``stepsim run``, and a long critical path,
in CPU seconds."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import stepsim as st
from bench.processes import STEPSIM, run_measured
from stepsim.explain import critical_path
from stepsim.graph import Program
from stepsim.simulation import prepare

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


def test_a_critical_path_of_half_a_million_segments(benchmark: BenchmarkFixture) -> None:
    def repeated(times: int) -> Program:
        with Program("long", compute_bw=8) as program:
            x = st.linear_load(st.spec(4, 4), (4, 4)).flatten(0, 1)
            x.repeat(times).flatten(0, 1).consume()
        return program

    str(critical_path(repeated(4)))  # what is imported and compiled does not count
    prepared = prepare(repeated(2**18))
    begin = time.process_time()
    found = benchmark.pedantic(lambda: critical_path(prepared), rounds=1)
    text = found.folded()
    seconds = time.process_time() - begin
    benchmark.extra_info["segments"] = found.segments.num_rows
    assert "131070 x (" in text
    assert seconds < 3
