"""Start-up: cold compile, and whole processes whose engine is compiled. CPU seconds of children."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.processes import STEPSIM, run_measured

SMALL = """
import stepsim as st
with st.Program("small", compute_bw=1024) as program:
    rows = st.linear_load(st.spec(64, 64), tile=(16, 64))
    weight = st.linear_load(st.spec(64, 64), tile=(64, 64), ref=rows)
    st.linear_store(st.map(st.fn.matmul, rows, weight.flatten(0, 1).flatten(0, 1)), "out")
print(st.simulate(program))
"""


@pytest.fixture(scope="module", autouse=True)
def bytecode() -> Any:
    """As installed: the bytecode of the package is there, whatever the environment says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


def _seconds(benchmark: BenchmarkFixture, command: list[str]) -> float:
    """The median of some runs whose files are in the cache of the system."""
    run_measured(command)
    seconds = [run_measured(command)[0] for _ in range(7)]
    benchmark.extra_info["cpu_seconds"] = statistics.median(seconds)
    benchmark.pedantic(lambda: run_measured(command), rounds=2)
    return statistics.median(seconds)


def _peak_mib(command: list[str]) -> float:
    """Peak resident memory of a process."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_maxrss / 1024


def test_cold_compile(
    benchmark: BenchmarkFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPSIM_CACHE_DIR", str(tmp_path))
    seconds, _ = benchmark.pedantic(lambda: run_measured([*STEPSIM, "warmup"]), rounds=1)
    assert seconds < 30


def test_help(benchmark: BenchmarkFixture) -> None:
    assert _seconds(benchmark, [*STEPSIM, "--help"]) < 0.25


def test_small_program(benchmark: BenchmarkFixture) -> None:
    assert _seconds(benchmark, [sys.executable, "-c", SMALL]) < 0.35


@pytest.mark.parametrize("tile", ["16", "32", "dynamic"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_warm_run(
    benchmark: BenchmarkFixture, routing: Any, tmp_path: Path, tile: str, form: str
) -> None:
    table = tmp_path / "routing.npy"
    np.save(table, routing["qwen3-30b-a3b"])
    command = [*STEPSIM, "run", "moe", "--model", "qwen3-30b-a3b", "--routing", str(table)]
    command += ["--tile", tile, *(["--json"] if form == "json" else [])]
    assert _seconds(benchmark, command) < 0.6
    assert _peak_mib(command) < 150
