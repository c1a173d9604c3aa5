"""Start-up: cold compile, and whole processes whose engine is compiled. CPU seconds of children.

The page cli.md states how long engines take to compile, as measured here.
"""

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

import stepsim
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


COLD = {"runs": 30, "": 100}
"""CPU seconds to compile the engine that a first run waits for, and all that warmup knows.

Five sixths of it are what numba does in Python for each of some 300 kernels: types, then code for
LLVM. An engine of recorded runs has another type of state, so that its kernels take as long again.
"""


@pytest.mark.parametrize("engine", COLD)
def test_cold_compile(
    benchmark: BenchmarkFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setenv("STEPSIM_CACHE_DIR", str(tmp_path))
    command = [*STEPSIM, "warmup", *filter(None, [engine])]
    seconds, _ = benchmark.pedantic(lambda: run_measured(command), rounds=1)
    benchmark.extra_info["cpu_seconds"] = seconds
    assert seconds < COLD[engine]


def test_help(benchmark: BenchmarkFixture) -> None:
    assert _seconds(benchmark, [*STEPSIM, "--help"]) < 0.25


def test_small_program(benchmark: BenchmarkFixture) -> None:
    assert _seconds(benchmark, [sys.executable, "-c", SMALL]) < 0.35


FILE = """
import stepsim as st

def linear(rows: int = 64, tile: int = 16) -> st.Program:
    with st.Program("linear", compute_bw=1024) as program:
        x = st.linear_load(st.spec(rows, 256), tile=(tile, 256)).flatten(0, 1)
        w = st.linear_load(st.spec(256, 512), tile=(256, 64), ref=x).flatten(0, 1)
        st.linear_store(st.map(st.fn.matmul, x.unsqueeze(0).expand(8), w), "y")
    return program
"""
"""A file of the user."""

RUNS = {
    "file": ["linear.py"],
    "swiglu": ["swiglu", "--config", "published", "--tile", "64", "--tile-inter", "64"],
}


@pytest.mark.parametrize("name", RUNS)
def test_warm_run_beside_numpy(
    benchmark: BenchmarkFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The least CPU time of alternating processes: a run, and one that only imports numpy."""
    (tmp_path / "linear.py").write_text(FILE, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(Path(stepsim.__file__).parents[1]))
    monkeypatch.chdir(tmp_path)
    run, numpy = [*STEPSIM, "run", *RUNS[name]], [sys.executable, "-c", "import numpy"]
    run_measured(run)
    turns = [(run_measured(run)[0], run_measured(numpy)[0]) for _ in range(15)]
    ratio = min(ours for ours, _ in turns) / min(theirs for _, theirs in turns)
    benchmark.extra_info["times_import_numpy"] = ratio
    benchmark.pedantic(lambda: run_measured(run), rounds=2)
    assert ratio <= 2.5


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
