"""Compiling a block of full size, and a search over compiled designs, in processor seconds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from stepsim.sweep import tune

TRIALS = 200


def test_a_block_of_full_size_on_the_command_line(tmp_path: Path) -> None:
    """Under 10 s of processor time, start-up included; the engine is compiled before."""
    command = [sys.executable, "-m", "stepsim", "compile", "gpt2-medium", "--out", str(tmp_path)]
    subprocess.run([*command, "--batch", "1"], check=True, capture_output=True, timeout=300)
    before = os.times()
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    after = os.times()
    used = after.children_user - before.children_user
    assert used + after.children_system - before.children_system < 10


def test_a_search_of_200_designs_of_full_size(tmp_path: Path) -> None:
    """Under 3 minutes with two processes."""
    spec: dict[str, Any] = {
        "workload": "compiled",
        "machine": "u55c",
        "parameters": {"phase": "decode", "shrink": False},
        "grid": {
            "tile": [16, 32, 64], "unroll": [256, 512, 1024, 2048, 4096],
            "order": ["reductions_outermost", "reductions_innermost", "tokens_outermost"],
            "vectors": ["tile", "narrow"], "budget": [100_000, 1_000_000, 41_000_000],
        },
        "search": {"objectives": ["cycles"], "sampler": "tpe", "trials": TRIALS, "batch": 8},
    }  # fmt: skip
    start = time.perf_counter()
    found = tune(spec, tmp_path / "out", jobs=2)
    assert len(found.trials) == TRIALS
    assert time.perf_counter() - start < 180
