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


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    """Batches that grow from 1 request and shrink again."""
    requests = RequestTrace(
        np.arange(10, 16), np.array([6, 5, 4, 3, 2, 2]), arrival_seconds=np.arange(6) * 1.0
    )
    path = tmp_path / "steps.parquet"
    with ParquetStream(path) as out:
        out.write(replay_rows(list(replay(requests, 4, step_seconds=1.0))))
    return path


def attention(steps: Path, **changes: Any) -> dict[str, Any]:
    return {
        "workload": "attention",
        "model": "qwen3-30b-a3b-step",
        "traces": {"files": [str(steps)]},
        "grid": {"strategy": ["dynamic", "interleaved"], "regions": [2]},
        **changes,
    }


def test_they_become_failures_that_name_the_step(steps: Path, tmp_path: Path) -> None:
    plan = plan_sweep(attention(steps))
    sizes = {trace.step: trace.rows or 0 for trace in plan.traces}
    assert {1, 2, 3} <= set(sizes.values())
    small = [step for step, size in sizes.items() if size < 2]
    odd = [step for step, size in sizes.items() if size % 2]
    assert [text.split(" batches")[0] for text in plan.misfits] == [
        f"design point 0 (strategy=dynamic, regions=2): does not fit {len(small)} of {len(sizes)}",
        f"design point 1 (strategy=interleaved, regions=2): does not fit {len(odd)} of "
        f"{len(sizes)}",
    ]
    assert estimate_seconds(plan) > 0
    summary = run_sweep(plan, tmp_path / "out")
    assert summary.errors == {"ParameterError": len(small) + len(odd)}
    assert summary.simulated == plan.runs - summary.failures
    rows = open_table(tmp_path / "out", "failures").to_table().to_pylist()
    assert [row["step"] for row in rows] == small + odd
    for row in rows:
        assert row["stage"] == "build"
        assert row["message"].startswith(f"steps.parquet step {row['step']}: regions: ")


def test_they_are_named_before_the_first_run(
    steps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(attention(steps), sort_keys=False))
    with pytest.raises(SystemExit, match="0"):
        main(["sweep", str(path), "--dry-run"])
    err = capsys.readouterr().err
    assert "runs that become failures:\n  design point 0 (strategy=dynamic, regions=2): does" in err
    assert "the first is steps.parquet step 0: regions: dynamic starts one request in each" in err


def test_what_fits_no_batch_is_refused(steps: Path) -> None:
    with pytest.raises(SweepError) as caught:
        plan_sweep(attention(steps, grid={"strategy": ["dynamic"], "regions": [2, 16]}))
    text = str(caught.value)
    assert text.startswith("sweep, design point 1 (strategy=dynamic, regions=16): does not fit ")
    assert "the first is steps.parquet step 0: regions: dynamic starts one request" in text
