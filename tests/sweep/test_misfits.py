"""A design that does not fit some of the batches costs its runs on these only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from stepsim.cli.main import main
from stepsim.errors import SweepError
from stepsim.sweep import estimate_seconds, open_table, plan_sweep, run_sweep
from stepsim.trace_io import ParquetStream, RequestTrace, replay, replay_rows

REQUESTS = RequestTrace(
    np.arange(10, 16), np.array([6, 5, 4, 3, 2, 2]), arrival_seconds=np.arange(6) * 1.0
)
STEPS = list(replay(REQUESTS, 4, step_seconds=1.0))
"""Batches that grow from 1 request and shrink again; so does the longest request."""


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    path = tmp_path / "steps.parquet"
    with ParquetStream(path) as out:
        out.write(replay_rows(STEPS))
    return path


def attention(steps: Path, **changes: Any) -> dict[str, Any]:
    return {
        "workload": "attention",
        "model": "qwen3-30b-a3b-step",
        "traces": {"files": [str(steps)]},
        "parameters": {"kv_tile": 1, "regions": 2},
        "grid": {"max_length": [14, 16]},
        **changes,
    }


@pytest.mark.slow
def test_they_become_failures_that_name_the_step(steps: Path, tmp_path: Path) -> None:
    plan = plan_sweep(attention(steps))
    assert {len(step.requests) for step in STEPS} >= {1, 2, 3}
    small, large = (
        [step.step for step in STEPS if step.kv_lengths.max() >= tokens] for tokens in (14, 16)
    )
    assert len(STEPS) > len(small) > len(large) > 0
    assert [text.split(" batches")[0] for text in plan.misfits] == [
        f"design point 0 (max_length=14): does not fit {len(small)} of {len(STEPS)}",
        f"design point 1 (max_length=16): does not fit {len(large)} of {len(STEPS)}",
    ]
    assert estimate_seconds(plan) > 0
    summary = run_sweep(plan, tmp_path / "out")
    assert summary.errors == {"ParameterError": len(small) + len(large)}
    assert summary.simulated == plan.runs - summary.failures
    rows = open_table(tmp_path / "out", "failures").to_table().to_pylist()
    assert [row["step"] for row in rows] == small + large
    for row in rows:
        assert row["stage"] == "build"
        assert row["message"].startswith(f"steps.parquet step {row['step']}: max_length: ")


def test_they_are_named_before_the_first_run(
    steps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(attention(steps), sort_keys=False))
    with pytest.raises(SystemExit, match="0"):
        main(["sweep", "run", str(path), "--dry-run"])
    err = capsys.readouterr().err
    assert "runs that become failures:\n  design point 0 (max_length=14): does not fit" in err
    assert "max_length: expected a multiple of the KV tile of 1 that holds the longest" in err


def test_what_fits_no_batch_is_refused(steps: Path) -> None:
    with pytest.raises(SweepError) as caught:
        plan_sweep(attention(steps, grid={"max_length": [16, 8]}))
    text = str(caught.value)
    assert text.startswith("sweep, design point 1 (max_length=8): does not fit ")
    assert "the first is steps.parquet step 0: max_length: expected a multiple of" in text
