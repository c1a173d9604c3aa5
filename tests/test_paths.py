"""Paths that no file can have are refused wherever a file or a folder is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim import load_machine
from stepsim.cli.main import main
from stepsim.errors import StepSimError, WorkloadError
from stepsim.sweep import design_costs, load_spec, open_table, plan_sweep, run_sweep
from stepsim.trace_io import (
    detect_trace_format,
    import_trace,
    load_requests,
    read_kv_lengths,
    read_origin,
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


def test_a_colon_in_a_relative_path_is_no_scheme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("sweep:1")
    folder.mkdir()
    with st.Program("copy") as program:
        st.linear_store(st.linear_load(st.spec(4, 4), tile=(2, 4)), "out")
    run = st.simulate(program, record=True)
    run.to_parquet(folder / "run.parquet")
    st.results.write_events(run, folder / "events.parquet")
    table = synthetic_routing(4, 8, 2, seed=0)
    write_routing([table], folder / "routing.parquet")
    assert (read_routing(folder / "routing.parquet").experts == table.experts).all()
    assert read_origin(folder / "routing.parquet") == {}
    with pytest.raises(SystemExit) as ended:
        main(["report", "sweep:1/run.parquet", "--out", "sweep:1/run.html"])
    assert not ended.value.code
    service = st.serve(
        source={"name": "fixed", "count": 2, "prompt_tokens": 3, "output_tokens": 2},
        steps="linear:1000,10,1", num_blocks=20, out=folder / "service",
    )  # fmt: skip
    assert service.metrics["completed"] == 2
    run_sweep(tiny(grid={"tile": [2]}), folder / "swept")
    assert open_table(folder / "swept").count_rows() > 0
