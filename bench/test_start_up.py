"""Start-up: cold compile, warm process, help text."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

STEPSIM = [sys.executable, "-m", "stepsim"]


def _seconds(command: list[str], **options: Any) -> float:
    begin = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True, **options)
    return time.perf_counter() - begin


def test_cold_compile(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    environment = {**os.environ, "STEPSIM_CACHE_DIR": str(tmp_path)}
    seconds = benchmark.pedantic(lambda: _seconds([*STEPSIM, "warmup"], env=environment), rounds=1)
    assert seconds < 30


def test_help(benchmark: BenchmarkFixture) -> None:
    _seconds([*STEPSIM, "--help"])
    seconds = [_seconds([*STEPSIM, "--help"]) for _ in range(5)]
    benchmark.pedantic(lambda: _seconds([*STEPSIM, "--help"]), rounds=3)
    assert min(seconds) < 0.3


@pytest.mark.parametrize("tile", ["16", "dynamic"])
def test_warm_run(benchmark: BenchmarkFixture, routing: Any, tmp_path: Path, tile: str) -> None:
    table = tmp_path / "routing.npy"
    np.save(table, routing["qwen3-30b-a3b"])
    command = [*STEPSIM, "run", "moe", "--model", "qwen3-30b-a3b", "--routing", str(table)]
    command += ["--tile", tile, "--config", "published", "--json"]
    _seconds(command)
    seconds = [_seconds(command) for _ in range(3)]
    benchmark.pedantic(lambda: _seconds(command), rounds=2)
    assert min(seconds) < 2.0
