"""Runs and a sweep that reports are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.cli.main import main
from stepsim.sweep import Tuning, run_sweep, tune
from tests.report.html.browser import find_browser

Command = Callable[..., int]


@pytest.fixture(scope="session")
def command() -> Command:
    """Run ``stepsim``; the exit code."""

    def call(*arguments: object) -> int:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return int(ended.value.code or 0)

    return call


@pytest.fixture(scope="session")
def moe_run(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """The file of a layer of 128 experts, of which eight have rows: 2,444 units."""
    folder = tmp_path_factory.mktemp("moe")
    np.save(folder / "routing.npy", np.tile(np.arange(8), (3, 1)))
    path = folder / "run.parquet"
    options = ["--model", "qwen3-30b-a3b", "--routing", folder / "routing.npy", "--tile", 4]
    assert command("run", "moe", *options, "--out", path) == 0
    return path


@pytest.fixture(scope="session")
def recorded_run(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """A small run with its timeline and its critical path."""
    path = tmp_path_factory.mktemp("recorded") / "run.parquet"
    sizes = ["--batch", 8, "--hidden", 16, "--intermediate", 32, "--tile", 4, "--tile-inter", 8]
    assert command("run", "swiglu", *sizes, "--record", "--out", path) == 0
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = find_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield made
        made.close()


STUCK = """
import stepsim as st

def center() -> st.Program:
    "Rows minus their sum, with FIFOs that are too short."
    with st.Program("center", compute_bw=1024, fifo_depth=2) as program:
        x = st.linear_load(st.spec(64, 512), tile=(16, 64))
        total = x.accum(st.fn.add, rank=1)
        st.linear_store(st.map(st.fn.add, x, total.unsqueeze(0).expand(8)), "y")
    return program
"""


@pytest.fixture(scope="session")
def stuck_run(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """A run that ended in a deadlock."""
    folder = tmp_path_factory.mktemp("stuck")
    (folder / "stuck.py").write_text(STUCK)
    assert command("run", f"{folder / 'stuck.py'}:center", "--out", folder / "run.parquet") == 1
    return folder / "run.parquet"


SMALL_MODEL = {
    "model_dim": 64, "experts": {"count": 4, "active": 2, "inner_dim": 32}, "name": "small",
}  # fmt: skip


def small_search(folder: Path, constraint: str) -> Tuning:
    """Try all sixteen design points of a small space."""
    spec = {
        "name": "search",
        "workload": "moe",
        "model": SMALL_MODEL,
        "traces": {"synthetic": {"tokens": 16, "layers": 2, "steps": 1, "seed": 3}},
        "grid": {"tile": [1, 2, 4, "dynamic"], "tile_inter": [16, 32],
                 "machine.hbm.channels": [8, 16]},
        "search": {"objectives": ["cycles", "onchip_bytes"], "sampler": "grid", "trials": 16,
                   "constraints": [constraint]},
    }  # fmt: skip
    return tune(spec, folder, jobs=1)


@pytest.fixture(scope="session")
def small_sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six design points on two layers and two steps."""
    folder = tmp_path_factory.mktemp("sweep") / "tiles"
    spec = {
        "name": "tiles",
        "workload": "moe",
        "model": SMALL_MODEL,
        "traces": {"synthetic": {"tokens": 16, "layers": 2, "steps": 2, "seed": 3}},
        "parameters": {"tile_inter": 16},
        "grid": {"tile": [2, 4, "dynamic"], "machine.hbm.channels": [8, 16]},
    }
    summary = run_sweep(spec, folder, jobs=1)
    assert not summary.failures
    return folder
