"""Decode steps of a served trace: batches of all sizes run with all three strategies."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from stepsim.sweep import open_table, plan_sweep, run_sweep
from stepsim.trace_io import ParquetStream, RequestTrace, load_requests, replay, replay_rows
from tests.shared import TRACES, needs_traces

PAGE = Path(__file__).parents[2] / "docs" / "workloads.md"
STRATEGIES = ["coarse", "interleaved", "dynamic"]
REGIONS = 4


def specification() -> dict[str, Any]:
    """The sweep of a day that the page on workloads shows."""
    (text,) = re.findall(r"# day\.yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    found: dict[str, Any] = yaml.safe_load(text)
    assert found["grid"] == {"strategy": STRATEGIES}
    return found


def all_run(trace: RequestTrace, batch: int, every: int, folder: Path) -> list[int]:
    """Sizes of the batches of every n-th step; each of them ran with every strategy."""
    found = list(islice(replay(trace, batch, step_seconds=0.03), 0, None, every))
    with ParquetStream(folder / "steps.parquet") as out:
        out.write(replay_rows(found))
    plan = plan_sweep({**specification(), "traces": {"files": [str(folder / "steps.parquet")]}})
    assert plan.misfits == ()
    summary = run_sweep(plan, folder / "out")
    assert (summary.failures, summary.simulated) == (0, len(STRATEGIES) * len(found))
    rows = open_table(folder / "out").to_table(["step", "batch", "offchip_bytes", "flops"])
    totals: dict[int, set[tuple[int, ...]]] = {}
    for row in rows.to_pylist():
        totals.setdefault(row.pop("step"), set()).add(tuple(row.values()))
    # The strategies do the same work.
    assert [len(work) for work in totals.values()] == [1] * len(found)
    return [len(step.requests) for step in found]


@pytest.mark.slow
def test_batches_that_grow_and_shrink(tmp_path: Path) -> None:
    contexts, tokens = np.array([30, 70, 5, 0, 64, 31, 100]), np.array([7, 6, 5, 4, 3, 2, 1])
    arrivals = np.array([0, 0.03, 0.03, 0.06, 0.06, 0.06, 0.06])
    sizes = all_run(RequestTrace(contexts, tokens, arrivals), 7, 1, tmp_path)
    assert {size % REGIONS for size in sizes} == set(range(REGIONS))
    assert min(sizes) < REGIONS < max(sizes)


@needs_traces
def test_a_recorded_trace(tmp_path: Path) -> None:
    whole = load_requests(TRACES / "AzureLLMInferenceTrace_conv.csv")
    trace = RequestTrace(
        whole.context_tokens[:60], whole.generated_tokens[:60], whole.arrival_seconds[:60]
    )
    sizes = all_run(trace, 16, 90, tmp_path)
    assert sum(size % REGIONS > 0 for size in sizes) > len(sizes) / 2
