"""What the page of a sweep shows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from stepsim.report.html import SweepTables, sweep_document
from stepsim.results.columns import field
from stepsim.sweep import run_sweep
from stepsim.sweep.analysis.common_traces import compared_traces
from stepsim.sweep.analysis.costs import design_costs

METRIC = field("cycles", "int64", "cycles", "length of the run")


def tables(points: int, traces: int) -> SweepTables:
    rows = [(point, trace) for point in range(points) for trace in range(traces)]
    runs = pa.table(
        {
            "point": pa.array([point for point, _ in rows], pa.int32()),
            "layer": [trace for _, trace in rows],
            "window": pa.nulls(len(rows), pa.int32()),
            "cycles": [100 * point + trace for point, trace in rows],
            "flops": pa.nulls(len(rows), pa.int64()),
            "counting": ["executed"] * len(rows),
        }
    )
    runs = runs.set_column(3, METRIC, runs["cycles"])
    return SweepTables(
        name="made",
        runs=runs,
        traces=["layer", "window"],
        metrics=["cycles", "flops"],
        trace_of=np.array([10 * trace for _, trace in rows]),
        compare=lambda kept: compared_traces(
            np.array([point for point, _ in rows])[kept],
            np.array([10 * trace for _, trace in rows])[kept],
            traces,
        ),
        labels={point: f"tile={point}" for point in range(points)},
        designs={point: {"tile": point, "same": 1, "nested": {"a": point % 2}}
                 for point in range(points)},
        failures=pa.table({"design": ["d"], "error": ["deadlock"], "message": ["m"]}),
        missing=3,
        spec={"name": "made"},
        versions={},
    )  # fmt: skip


def test_axes_are_what_has_several_values() -> None:
    found = sweep_document(tables(3, 2))
    json.dumps(found, allow_nan=False)
    assert found["axes"] == {"tile": [0, 1, 2], "nested": ['{"a": 0}', '{"a": 1}', '{"a": 0}']}
    assert found["designs"] == ["tile=0", "tile=1", "tile=2"]
    assert (found["failed"], found["missing"], found["counting"]) == (1, 3, ["executed"])


def test_runs_have_design_trace_and_the_metrics_that_were_measured() -> None:
    found = sweep_document(tables(2, 3))
    assert found["runs"] == {
        "design": [0, 0, 0, 1, 1, 1],
        "trace": [0, 1, 2, 0, 1, 2],
        "cycles": [0, 1, 2, 100, 101, 102],
    }
    assert found["traces"] == {"layer": [0, 1, 2]}
    assert list(found["metrics"]) == ["cycles"]
    assert found["metrics"]["cycles"]["unit"] == "cycles"


def test_of_too_many_runs_some_traces_are_taken_for_all_designs() -> None:
    found = sweep_document(tables(4, 20_000))
    assert found["trace_step"] == 2
    assert len(found["runs"]["design"]) == 40_000
    kept = {trace for trace, d in zip(found["runs"]["trace"], found["runs"]["design"], strict=True)
            if d == 0}  # fmt: skip
    assert kept == set(range(0, 20_000, 2))


def test_without_runs_the_failures_are_shown() -> None:
    empty = tables(1, 1)
    none = replace(
        empty,
        runs=empty.runs.slice(0, 0),
        trace_of=np.zeros(0, np.int64),
        labels={},
        compare=lambda kept: ([], np.zeros(0, np.int64)),
    )
    found = sweep_document(none)
    assert (found["failed"], found["failures"]["rows"], found["metrics"]) == (1, 1, {})
    assert found["trace_count"] == 0


def test_runs_without_names_of_traces_are_on_one() -> None:
    made = tables(3, 1)
    found = sweep_document(replace(made, traces=["window"]))
    assert (found["traces"], found["trace_count"]) == ({}, 1)
    assert found["compared"] == {"0": {"designs": [0, 1, 2], "traces": [0]}}


def test_metrics_that_other_runs_have_are_compared_over_those() -> None:
    made = tables(2, 3)
    flops = pa.array([1, 2, 3, 4, None, 6], pa.int64())
    at = made.runs.schema.get_field_index("flops")
    found = sweep_document(replace(made, runs=made.runs.set_column(at, "flops", flops)))
    assert found["measured"] == {"cycles": 0, "flops": 1}
    assert {key: one["traces"] for key, one in found["compared"].items()} == {
        "0": [0, 1, 2],
        "0 1": [0, 2],
        "1": [0, 2],
    }


@pytest.mark.slow
def test_the_traces_are_those_of_the_command_pareto(tmp_path: Path) -> None:
    from stepsim.cli.report import _sweep_tables

    model = {
        "model_dim": 64, "experts": {"count": 4, "active": 2, "inner_dim": 32}, "name": "small",
    }  # fmt: skip
    spec = {
        "name": "partly",
        "workload": "moe",
        "model": model,
        "traces": {"synthetic": {"tokens": 16, "layers": 4, "steps": 4, "seed": 3}},
        "parameters": {"tile_inter": 16},
        "grid": {"tile": [2, 4, "dynamic"], "machine.hbm.channels": [8, 16]},
        # The first design point fails on all traces, the second on some.
        "limits": {"max_cycles": 1400},
    }
    summary = run_sweep(spec, tmp_path / "sweep", jobs=1)
    assert summary.failures
    costs = design_costs(tmp_path / "sweep", "onchip_bytes", "cycles")
    assert costs.left_out or costs.traces < costs.all_traces
    document = sweep_document(_sweep_tables(tmp_path / "sweep"))
    chosen = document["compared"]["0"]
    assert [document["designs"][d] for d in chosen["designs"]] == [one.label for one in costs]
    runs = document["runs"]
    for number, one in zip(chosen["designs"], costs, strict=True):
        kept = [
            cycles
            for cycles, design, trace in zip(
                runs["cycles"], runs["design"], runs["trace"], strict=True
            )
            if design == number and trace in chosen["traces"]
        ]
        assert sum(kept) / len(kept) == pytest.approx(one.y)


@pytest.mark.slow
def test_points_without_runs_are_left_out(small_sweep: Path) -> None:
    from stepsim.cli.report import _sweep_tables

    found = _sweep_tables(small_sweep)
    assert sorted(found.labels) == list(range(6))
    document = sweep_document(found)
    assert set(document["axes"]) == {"tile", "machine.hbm.channels"}
    assert len(document["runs"]["cycles"]) == 24
    assert min(document["runs"]["cycles"]) > 0
