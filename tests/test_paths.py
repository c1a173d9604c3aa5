"""Paths that no file can have are refused wherever a file or a folder is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim import load_machine
from stepsim.errors import StepSimError, WorkloadError
from stepsim.sweep import design_costs, load_spec, open_table, plan_sweep, run_sweep
from stepsim.trace_io import (
    detect_trace_format,
    import_trace,
    load_requests,
    read_kv_lengths,
    read_routing,
    summarize_routing,
    synthetic_routing,
    write_routing,
)
from stepsim.workloads.loading import find_workload
from tests.sweep.support import tiny

NAMES = ["a" * 300, "a/" * 5000, "a\0b", "\ud800"]


def write(name: str) -> None:
    write_routing([synthetic_routing(4, 4, 2, seed=1)], name)


@pytest.mark.parametrize("name", NAMES, ids=["long", "deep", "null", "surrogate"])
@pytest.mark.parametrize(
    "use",
    [
        read_routing, read_kv_lengths, load_requests, summarize_routing, detect_trace_format,
        load_machine, find_workload, load_spec, open_table, write,
        lambda name: import_trace(name, "out.parquet"),
        lambda name: import_trace("routing.npy", name, experts=4),
        lambda name: plan_sweep(tiny(traces={"files": [name]})),
        lambda name: plan_sweep(tiny(model=name)),
        lambda name: plan_sweep(tiny(workload=f"{name}.py:f")),
        lambda name: run_sweep(tiny(grid={"tile": [2]}), name),
        lambda name: design_costs(name, "cycles", "onchip_bytes"),
    ],
)  # fmt: skip
def test_names_that_no_file_can_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[str], Any], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("routing.npy", np.array([[0, 1], [2, 3]]))
    with pytest.raises(StepSimError):
        use(name)
    assert [path.name for path in tmp_path.iterdir()] == ["routing.npy"]


def test_a_long_word_is_an_unknown_workload() -> None:
    with pytest.raises(WorkloadError, match="unknown workload 'aaa"):
        find_workload("a" * 300)
