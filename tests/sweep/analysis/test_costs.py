"""Which design points are Pareto-optimal, and over which traces they are compared."""

from __future__ import annotations

import itertools
import math
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.errors import SweepError
from stepsim.sweep import (
    LeftOut,
    compare,
    curves,
    design_costs,
    open_table,
    run_sweep,
)
from stepsim.sweep.analysis.costs import _by_trace
from stepsim.sweep.analysis.labels import TRACE_COLUMNS
from tests.sweep.support import rewrite, routing_file, tiny


@pytest.mark.slow
def test_costs_are_means_and_the_frontier_dominates(done: Path) -> None:
    costs = design_costs(done, "onchip_bytes", "cycles")
    rows = open_table(done).to_table().to_pylist()
    for cost in costs:
        own = [row for row in rows if row["point"] == cost.point]
        assert cost.runs == len(own) == 6
        assert cost.y == math.fsum(row["cycles"] for row in own) / 6
        better = [c for c in costs if c.x <= cost.x and c.y <= cost.y and c.point != cost.point]
        assert cost.pareto_optimal is not any((c.x, c.y) != (cost.x, cost.y) for c in better)
    assert {cost.pareto_optimal for cost in costs} == {True, False}
    assert [cost.label for cost in costs] == [
        "tile=2 machine.hbm.channels=8",
        "tile=2 machine.hbm.channels=32",
        "tile=dynamic machine.hbm.channels=8",
        "tile=dynamic machine.hbm.channels=32",
    ]


def failing(
    monkeypatch: pytest.MonkeyPatch, folder: Path, designs: Sequence[tuple[int, set[int]]]
) -> Path:
    """A sweep of six traces, in which each design takes ``cycles`` x trace and fails on some."""
    from dataclasses import replace

    from stepsim.simulation.running.batches import ManyRuns

    real, calls = ManyRuns.totals, itertools.count()

    def run(self: ManyRuns, *args: object, **options: object) -> object:
        design, trace = divmod(next(calls), 6)
        cycles, failures = designs[design]
        totals = real(self, *args, **options)  # type: ignore[arg-type]
        status = "limit" if trace in failures else "ok"
        return replace(totals, cycles=cycles * (trace + 1), status=status)

    monkeypatch.setattr(ManyRuns, "totals", run)
    tiles = [1, 2, 3, 4, 6][: len(designs)]
    run_sweep(tiny(grid={"tile": tiles}, chunk=6), folder)
    return folder


def means(folder: Path) -> list[tuple[int, float, int, int]]:
    costs = design_costs(folder, "allocated_flops_per_cycle", "cycles")
    return [(c.point, c.y, c.runs, c.lost) for c in costs]


@pytest.mark.slow
def test_design_points_are_compared_over_traces_that_all_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second is twice as slow everywhere, and over its own finished runs the faster one.
    failing(monkeypatch, tmp_path, [(10, set()), (20, {3, 4, 5}), (15, {5})])
    costs = design_costs(tmp_path, "cycles", "cycles")
    assert means(tmp_path) == [(0, 20.0, 3, 0), (1, 40.0, 3, 3), (2, 30.0, 3, 1)]
    assert [cost.pareto_optimal for cost in costs] == [True, False, False]
    assert (costs.traces, costs.all_traces, costs.left_out) == (3, 6, ())
    assert costs.remark.startswith("means over 3 of 6 traces, those that all design points")


@pytest.mark.slow
def test_curves_are_over_traces_that_all_points_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, tmp_path, [(10, set()), (20, {3, 4, 5}), (1, {1, 2, 3, 4, 5})])
    found = curves(tmp_path, "tile", ["cycles"])
    ((line,), (remark,)) = found.metrics["cycles"], found.remarks
    assert [(p.x, p.y, p.runs) for p in line.points] == [(1, 20.0, 3), (2, 40.0, 3)]
    assert remark == (
        "mean cycles: over 3 of 6 traces, on which all points shown have it; 1 design left out "
        "that lost too many runs:\n  tile=3"
    )


@pytest.mark.slow
def test_a_hopeless_design_point_does_not_spoil_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, tmp_path, [(1, {0, 1, 2, 3, 4}), (10, set()), (20, {5})])
    costs = design_costs(tmp_path, "cycles", "cycles")
    assert means(tmp_path) == [(1, 30.0, 5, 0), (2, 60.0, 5, 1)]
    assert costs.left_out == (LeftOut(0, "tile=1", 1, 5),)
    assert (costs.traces, len(costs), costs[0], costs[1:]) == (5, 2, costs.points[0], costs[1:])


@pytest.mark.slow
def test_of_many_failures_two_points_are_still_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, tmp_path, [(10, set()), (20, {1, 2, 3, 4, 5})])
    assert means(tmp_path) == [(0, 10.0, 1, 0), (1, 20.0, 1, 5)]


def test_design_points_without_common_traces_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, tmp_path, [(10, {0, 1, 2}), (20, {3, 4, 5})])
    with pytest.raises(SweepError) as caught:
        design_costs(tmp_path, "onchip_bytes", "cycles")
    assert "finished no trace in common" in str(caught.value)
    assert "of 6 traces\n  'tile=1' finished 3\n  'tile=2' finished 3\n" in str(caught.value)


@pytest.mark.slow
def test_copies_of_a_trace_count_each(tmp_path: Path) -> None:
    names = [routing_file(tmp_path, name) for name in ("a.npy", "b.npy")]
    (tmp_path / "c").mkdir()
    names.append(routing_file(tmp_path / "c", "a.npy"))
    run_sweep(tiny(traces={"files": names}, grid={"tile": [2, 4]}), tmp_path / "out")
    costs = design_costs(tmp_path / "out", "onchip_bytes", "cycles")
    assert [(cost.runs, cost.lost) for cost in costs] == [(6, 0), (6, 0)]
    assert (costs.traces, costs.all_traces, costs.remark) == (6, 6, "")


@pytest.mark.slow
def test_runs_that_are_not_there_yet_are_as_failures(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path / "out")
    (tmp_path / "out" / "summary.json").unlink()  # or the file would be missed
    paths = sorted((tmp_path / "out" / "runs").rglob("part.parquet"))
    table = pq.ParquetFile(paths[1]).read()
    rewrite(paths[1], table.slice(0, 4))
    paths[3].unlink()
    costs = design_costs(tmp_path / "out", "onchip_bytes", "cycles")
    assert [(c.point, c.runs, c.lost) for c in costs] == [(0, 4, 0), (1, 4, 2), (2, 4, 0)]
    whole = {row["run"]: row["cycles"] for row in open_table(done).to_table().to_pylist()}
    first = [whole[run] for run in pq.ParquetFile(paths[0]).read()["run"].to_pylist()[:4]]
    assert costs[0].y == math.fsum(first) / 4
    assert (costs.missing, costs.designs) == (2 + 6, 4)
    found = compare(done, tmp_path / "out")
    assert (found.missing_before, found.missing_after, found.only_before) == (0, 8, 8)


def test_metrics_that_were_not_kept_cannot_be_compared(tmp_path: Path) -> None:
    run_sweep(tiny(metrics=["cycles"], grid={"tile": [4]}), tmp_path)
    expected = "none of 6 runs has {}; add them to the key 'metrics'"
    # Cycles are there.
    with pytest.raises(SweepError, match=expected.format("onchip_bytes")):
        design_costs(tmp_path, "onchip_bytes", "cycles")
    with pytest.raises(SweepError, match=expected.format("onchip_bytes and flops")):
        design_costs(tmp_path, "onchip_bytes", "flops")
    with pytest.raises(SweepError, match=expected.format("flops")):
        compare(tmp_path, tmp_path, "flops")
    with pytest.raises(SweepError, match="none of 6 runs has regions; choose among cycles, "):
        compare(tmp_path, tmp_path, "regions")


@pytest.mark.slow
def test_sweeps_in_which_no_run_succeeded_say_so(tmp_path: Path) -> None:
    run_sweep(tiny(limits={"max_cycles": 5}, grid={"tile": [4]}), tmp_path)
    expected = r"no run succeeded \(6 x limit\)"
    with pytest.raises(SweepError, match=expected):
        design_costs(tmp_path, "onchip_bytes", "cycles")
    with pytest.raises(SweepError, match=expected):
        compare(tmp_path, tmp_path)
    one_step = {"synthetic": {"tokens": 12, "seed": 1}}
    run_sweep(tiny(traces=one_step, grid={"tile": [4]}), tmp_path / "good")
    with pytest.raises(
        SweepError, match="mean step of design point 'moe tiny' is 0, expected costs above 0"
    ):
        design_costs(tmp_path / "good", "cycles", "step")


def test_traces_are_told_apart_by_all_their_columns_and_copies_by_their_order() -> None:
    dice = random.Random(5)
    names = (*TRACE_COLUMNS, "trace_id", "lengths_id")
    rows = [
        {
            "point": dice.randrange(3),
            "model": "one",
            **{name: dice.choice(["a", "b", None] if "_id" in name else [0, 1]) for name in names},
            "trace": dice.choice(["x", "y"]),
            "lengths": dice.choice(["z", None]),
            "cycles": number,
            "bytes": number / 2,
        }
        for number in range(600)
    ]
    seen: dict[tuple[Any, ...], int] = {}
    expected: dict[int, dict[tuple[Any, ...], tuple[float, float]]] = {}
    for row in rows:
        trace = tuple(row[name] for name in names)
        copy = seen[row["point"], trace] = seen.get((row["point"], trace), -1) + 1
        expected.setdefault(row["point"], {})[(*trace, copy)] = row["cycles"], row["bytes"]
    assert max(seen.values()) > 1
    table = pa.concat_tables([pa.Table.from_pylist(rows[:200]), pa.Table.from_pylist(rows[200:])])
    numbers: dict[int, tuple[Any, ...]] = {}
    for point, costs in _by_trace(table, ["cycles", "bytes"]).items():
        traces = {pair: trace for trace, pair in expected.pop(point).items()}
        assert len(costs.traces) == len(traces)
        for number, *pair in zip(costs.traces, *costs.metrics, strict=True):
            trace = traces[pair[0], pair[1]]
            # The same trace has one number in all design points, and another one another number.
            assert numbers.setdefault(number, trace) == trace
    assert not expected
    assert len(set(numbers.values())) == len(numbers)
