"""Comparing sweeps, and choosing among the design points of one."""

from __future__ import annotations

import itertools
import math
import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.errors import SweepError
from stepsim.sweep import (
    DesignCost,
    LeftOut,
    compare,
    design_costs,
    frontier,
    open_table,
    plan_sweep,
    run_sweep,
)
from stepsim.sweep.analysis.compare import BETTER
from stepsim.sweep.analysis.differences import key_differences
from stepsim.sweep.analysis.plot import plot_designs
from stepsim.sweep.schema import METRICS
from tests.sweep.support import TINY, tiny


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep") / "out"
    run_sweep(tiny(), folder)
    return folder


def test_a_sweep_compared_with_itself_is_equal(done: Path) -> None:
    found = compare(done, done)
    assert len(found.changes) == 24
    assert {change.ratio for change in found.changes} == {1.0}
    assert (found.only_before, found.only_after, found.mean_ratio) == (0, 0, 1.0)


def test_regressions_come_first(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from stepsim.simulation import Prepared

    real, calls = Prepared.run, []

    def run(self: Prepared, *args: object, **options: object) -> object:
        totals = real(self, *args, **options)  # type: ignore[arg-type]
        calls.append(1)
        factor = {3: 2, 5: 3}.get(len(calls), 1)
        return replace(totals, cycles=totals.cycles * factor)

    monkeypatch.setattr(Prepared, "run", run)
    run_sweep(tiny(grid={"tile": [2], "machine.hbm.channels": [8]}), tmp_path)
    found = compare(done, tmp_path)
    assert [change.ratio for change in found.changes] == [3.0, 2.0, 1.0, 1.0, 1.0, 1.0]
    design = "tile=2 machine.hbm.channels=8"
    assert [change.label for change in found.changes[:2]] == [
        f"{design} layer=1 step=1",
        f"{design} layer=0 step=2",
    ]
    assert (found.only_before, found.only_after) == (18, 0)
    assert found.mean_ratio == pytest.approx(6 ** (1 / 6))
    assert found.to_arrow()["ratio"].to_pylist()[0] == 3.0


def test_other_memory_models_are_told_with_metrics_that_depend_on_them(
    done: Path, tmp_path: Path
) -> None:
    run_sweep(tiny(memory_model="paper"), tmp_path)
    for metric in ("onchip_bytes", "offchip_bytes", "allocated_compute"):
        assert compare(done, tmp_path, metric).remark.startswith(
            f"{metric} is counted by the memory model published in A and by paper in B, so ratios"
        )
        assert compare(tmp_path, tmp_path, metric).remark == ""
    found = compare(done, tmp_path)
    assert (found.memory_models_before, found.memory_models_after) == (("published",), ("paper",))
    assert (found.remark, found.mean_ratio) == ("", 1.0)


def test_only_metrics_that_are_not_told_of_are_the_same_with_any_memory_model(
    done: Path, tmp_path: Path
) -> None:
    run_sweep(tiny(memory_model="paper"), tmp_path)
    for metric in METRICS:
        found = compare(done, tmp_path, metric)
        assert found.remark or all(change.ratio in (1.0, None) for change in found.changes)


def test_sweeps_without_common_runs_are_refused(done: Path, tmp_path: Path) -> None:
    run_sweep(tiny(grid={"tile": [4]}), tmp_path)
    with pytest.raises(SweepError, match="have no run in common"):
        compare(done, tmp_path)
    with pytest.raises(SweepError, match="'status' holds string, expected numbers"):
        compare(done, done, "status")


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory, done: Path) -> Path:
    """The sweep `done` with rows as of a worse version: two runs at a limit, one that raised."""
    folder = tmp_path_factory.mktemp("limited") / "out"
    shutil.copytree(done, folder)
    (path, *_) = sorted((folder / "runs").rglob("part.parquet"))
    runs = pq.ParquetFile(path).read()
    rows = runs.to_pylist()
    for row in rows[1:3]:
        row["status"] = "limit"
    pq.write_table(pa.Table.from_pylist(rows[:5], schema=runs.schema), path)
    path = folder / "failures" / path.parent.name / path.name
    failures = pq.ParquetFile(path).read()
    bad = [
        {**row, "stage": "run", "error": error, "message": f"because of {error}"}
        for row, error in ((rows[1], "limit"), (rows[2], "limit"), (rows[5], "ValueError"))
    ]
    pq.write_table(pa.Table.from_pylist(bad, schema=failures.schema), path)
    return folder


def test_new_failures_are_the_worst_regressions(done: Path, limited: Path) -> None:
    found = compare(done, limited)
    before = {row["run"]: row["cycles"] for row in open_table(done).to_table().to_pylist()}
    assert [(f.error, f.message) for f in found.new_failures] == [
        ("limit", "because of limit"),
        ("limit", "because of limit"),
        ("ValueError", "because of ValueError"),
    ]
    assert all(f.before == before[f.run] for f in found.new_failures)
    assert found.new_failures[0].label == "tile=2 machine.hbm.channels=8 layer=0 step=1"
    assert (len(found.changes), found.recovered, found.failing_in_both) == (21, 0, 0)
    assert (found.only_before, found.only_after) == (0, 0)
    table = found.to_arrow()
    assert table.num_rows == 24
    assert table.slice(0, 4)["error"].to_pylist() == ["limit", "limit", "ValueError", None]
    assert table.slice(0, 4)["after"].null_count == 3

    found = compare(limited, done)
    assert (found.new_failures, len(found.changes), found.recovered) == ((), 21, 3)
    assert (found.only_before, found.only_after) == (0, 0)
    found = compare(limited, limited)
    assert (found.new_failures, found.recovered, found.failing_in_both) == ((), 0, 3)


def test_a_sweep_of_which_nothing_ends_well_any_more_is_compared(
    done: Path, limited: Path, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    for source, folder in ((done, good), (limited, bad)):
        shutil.copytree(source, folder)
        for path in sorted((folder / "runs").rglob("part.parquet"))[1:]:
            path.unlink()
    (path,) = (bad / "runs").rglob("part.parquet")
    runs = pq.ParquetFile(path).read()
    pq.write_table(runs.slice(1, 2), path)
    found = compare(good, bad)
    assert (len(found.new_failures), found.changes, found.only_before) == (3, (), 3)
    assert found.mean_ratio is None
    found = compare(bad, good)
    assert (found.recovered, found.changes, found.only_after) == (3, (), 3)


@pytest.mark.parametrize(
    ("metric", "ratios"),
    [
        ("cycles", [3.0, 1.5, 1.0, 0.5]),
        ("bandwidth_utilization", [0.5, 1.0, 1.5, 3.0]),
        # Three times is further from equal than half, half than once and a half.
        ("engine_steps", [3.0, 0.5, 1.5, 1.0]),
    ],
)
def test_what_became_worse_comes_first(
    done: Path, tmp_path: Path, metric: str, ratios: list[float]
) -> None:
    shutil.copytree(done, tmp_path / "out")
    (path, *_) = sorted((tmp_path / "out" / "runs").rglob("part.parquet"))
    runs = pq.ParquetFile(path).read()
    rows = runs.to_pylist()[:4]
    for row, factor in zip(rows, [0.5, 1.0, 1.5, 3.0], strict=True):
        row[metric] = type(row[metric])(row[metric] * factor)
    pq.write_table(pa.Table.from_pylist(rows, schema=runs.schema), path)
    found = compare(done, tmp_path / "out", metric)
    changed = {row["run"] for row in rows}
    seen = [round(c.ratio or 0, 2) for c in found.changes if c.run in changed]
    assert seen == ratios


def test_a_metric_that_was_0_is_worse_when_it_is_not_any_more(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path / "out")
    (path, *_) = sorted((tmp_path / "out" / "runs").rglob("part.parquet"))
    runs = pq.ParquetFile(path).read()
    rows = runs.to_pylist()
    for row, bytes_ in zip(rows, [0, 0, 10, 10, 10, 10], strict=True):
        row["offchip_bytes"] = bytes_
    pq.write_table(pa.Table.from_pylist(rows, schema=runs.schema), path)
    shutil.copytree(tmp_path / "out", tmp_path / "more")
    rows[1]["offchip_bytes"] = 5
    path = tmp_path / "more" / path.relative_to(tmp_path / "out")
    pq.write_table(pa.Table.from_pylist(rows, schema=runs.schema), path)
    (worst, *_) = compare(tmp_path / "out", tmp_path / "more", "offchip_bytes").changes
    assert (worst.before, worst.after, worst.ratio) == (0, 5, None)
    (*_, best) = compare(tmp_path / "more", tmp_path / "out", "offchip_bytes").changes
    assert (best.before, best.after, best.ratio) == (5, 0, 0)


def test_every_metric_has_a_direction_or_none_on_purpose() -> None:
    assert set(METRICS) - set(BETTER) == {"tokens", "engine_steps"}
    assert set(BETTER) <= set(METRICS)
    assert all((BETTER[name] == "larger") is ("utilization" in name) for name in BETTER)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"parameters": {"tile_inter": 32, "fifo_depth": 4}},
            ["fifo_depth: 2 in A, 4 in B"],
        ),
        (
            {"grid": {"tile": [2, "dynamic"], "machine.hbm.channels": [16, 64]}},
            ["machine.hbm.channels: 8, 32 in A, 16, 64 in B"],
        ),
        (
            {"limits": {"max_cycles": 10**9}},
            ["limits.max_cycles: null in A, 1000000000 in B"],
        ),
        (
            {"model": {**TINY["model"], "inner_dim": 32}},
            ["model.inner_dim: 64 in A, 32 in B"],
        ),
        # Values that both have say nothing next to one that they have not in common.
        (
            {"grid": {"tile": [2, 4]}, "parameters": {"tile_inter": 16}},
            ["tile_inter: 32 in A, 16 in B"],
        ),
        (
            {"traces": {"synthetic": {"tokens": 12, "layers": 2, "steps": 3, "seed": 2}}},
            ["trace: synthetic (seed 1, skew 1) (content "],
        ),
    ],
)
def test_what_differs_between_sweeps_without_common_runs_is_named(
    done: Path, tmp_path: Path, changes: dict[str, Any], expected: list[str]
) -> None:
    run_sweep(tiny(**changes), tmp_path)
    with pytest.raises(SweepError) as caught:
        compare(done, tmp_path)
    message, *lines = str(caught.value).splitlines()
    assert f"{done} (A) and {tmp_path} (B) have no run in common" in message
    found = [line.strip() for line in lines]
    assert len(found) == len(expected)
    for line, start in zip(found, expected, strict=True):
        assert line.startswith(start)


def test_what_differs_between_workloads_or_in_part_only_is_named(
    done: Path, tmp_path: Path
) -> None:
    swiglu = {
        "workload": "swiglu",
        "parameters": {"batch": 8, "hidden": 16, "intermediate": 32, "tile_inter": 8, "tile": 4},
    }
    run_sweep(swiglu, tmp_path / "swiglu")
    assert key_differences(done, tmp_path / "swiglu") == ["workload: moe in A, swiglu in B"]
    grid = {"tile": [2], "machine.hbm.channels": [8]}
    run_sweep(tiny(grid=grid), tmp_path / "part")
    assert key_differences(done, tmp_path / "part") == [
        "tile: 2, dynamic in A, 2 in B",
        "machine.hbm.channels: 8, 32 in A, 8 in B",
    ]
    points = ([(2, 8), (4, 32)], [(2, 32), (4, 8)])
    for name, pairs in zip("ab", points, strict=True):
        listed = [{"tile": tile, "machine.hbm.channels": n} for tile, n in pairs]
        run_sweep(tiny(grid={}, points=listed), tmp_path / name)
    with pytest.raises(SweepError, match="what differs: how the same values are combined"):
        compare(tmp_path / "a", tmp_path / "b")


def routing_file(folder: Path, name: str) -> str:
    np.save(folder / name, np.array([[[0, 1], [2, 3]], [[4, 5], [1, 0]]]))
    return str(folder / name)


def test_the_name_of_a_trace_does_not_matter_to_a_comparison(tmp_path: Path) -> None:
    grid = {"tile": [2]}
    for name in ("a", "b"):
        files = [routing_file(tmp_path, f"{name}.npy")]
        run_sweep(tiny(traces={"files": files}, grid=grid), tmp_path / name)
    found = compare(tmp_path / "a", tmp_path / "b")
    assert (len(found.changes), found.only_before, found.only_after) == (2, 0, 0)
    with pytest.raises(SweepError, match="another sweep, it differs in spec"):
        run_sweep(tiny(traces={"files": files}, grid=grid), tmp_path / "a", resume=True)


def test_copies_of_a_trace_are_runs_of_their_own(tmp_path: Path) -> None:
    names = [routing_file(tmp_path, name) for name in ("a.npy", "b.npy", "c.npy")]
    run_sweep(tiny(traces={"files": names}, grid={"tile": [2]}), tmp_path / "three")
    run_sweep(tiny(traces={"files": names[2:]}, grid={"tile": [2]}), tmp_path / "one")
    assert len(set(open_table(tmp_path / "three").to_table()["run"].to_pylist())) == 6
    found = compare(tmp_path / "three", tmp_path / "one")
    assert (len(found.changes), found.only_before, found.only_after) == (2, 4, 0)


def test_costs_are_means_and_the_frontier_dominates(done: Path) -> None:
    costs = design_costs(done, "onchip_bytes", "cycles")
    rows = open_table(done).to_table().to_pylist()
    for cost in costs:
        own = [row for row in rows if row["point"] == cost.point]
        assert cost.runs == len(own) == 6
        assert cost.y == math.fsum(row["cycles"] for row in own) / 6
        better = [c for c in costs if c.x <= cost.x and c.y <= cost.y and c.point != cost.point]
        assert cost.on_frontier is not any((c.x, c.y) != (cost.x, cost.y) for c in better)
    assert {cost.on_frontier for cost in costs} == {True, False}
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

    from stepsim.simulation import Prepared

    real, calls = Prepared.run, itertools.count()

    def run(self: Prepared, *args: object, **options: object) -> object:
        design, trace = divmod(next(calls), 6)
        cycles, failures = designs[design]
        totals = real(self, *args, **options)  # type: ignore[arg-type]
        status = "limit" if trace in failures else "ok"
        return replace(totals, cycles=cycles * (trace + 1), status=status)

    monkeypatch.setattr(Prepared, "run", run)
    tiles = [1, 2, 3, 4, 6][: len(designs)]
    run_sweep(tiny(grid={"tile": tiles}, chunk=6), folder)
    return folder


def means(folder: Path) -> list[tuple[int, float, int, int]]:
    return [
        (c.point, c.y, c.runs, c.lost) for c in design_costs(folder, "allocated_compute", "cycles")
    ]


def test_design_points_are_compared_over_traces_that_all_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second is twice as slow everywhere, and over its own good runs the faster one.
    failing(monkeypatch, tmp_path, [(10, set()), (20, {3, 4, 5}), (15, {5})])
    costs = design_costs(tmp_path, "cycles", "cycles")
    assert means(tmp_path) == [(0, 20.0, 3, 0), (1, 40.0, 3, 3), (2, 30.0, 3, 1)]
    assert [cost.on_frontier for cost in costs] == [True, False, False]
    assert (costs.traces, costs.all_traces, costs.left_out) == (3, 6, ())
    assert costs.remark.startswith("means over 3 of 6 traces, those that all design points")


def test_a_hopeless_design_point_does_not_spoil_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, tmp_path, [(1, {0, 1, 2, 3, 4}), (10, set()), (20, {5})])
    costs = design_costs(tmp_path, "cycles", "cycles")
    assert means(tmp_path) == [(1, 30.0, 5, 0), (2, 60.0, 5, 1)]
    assert costs.left_out == (LeftOut(0, "tile=1", 1, 5),)
    assert (costs.traces, len(costs), costs[0], costs[1:]) == (5, 2, costs.points[0], costs[1:])


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


def test_copies_of_a_trace_count_each(tmp_path: Path) -> None:
    names = [routing_file(tmp_path, name) for name in ("a.npy", "b.npy")]
    (tmp_path / "c").mkdir()
    names.append(routing_file(tmp_path / "c", "a.npy"))
    run_sweep(tiny(traces={"files": names}, grid={"tile": [2, 4]}), tmp_path / "out")
    costs = design_costs(tmp_path / "out", "onchip_bytes", "cycles")
    assert [(cost.runs, cost.lost) for cost in costs] == [(6, 0), (6, 0)]
    assert (costs.traces, costs.all_traces, costs.remark) == (6, 6, "")


def test_runs_that_are_not_there_yet_are_as_failures(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path / "out")
    paths = sorted((tmp_path / "out" / "runs").rglob("part.parquet"))
    table = pq.ParquetFile(paths[1]).read()
    pq.write_table(table.slice(0, 4), paths[1])
    paths[3].unlink()
    costs = design_costs(tmp_path / "out", "onchip_bytes", "cycles")
    assert [(c.point, c.runs, c.lost) for c in costs] == [(0, 4, 0), (1, 4, 2), (2, 4, 0)]
    whole = {row["run"]: row["cycles"] for row in open_table(done).to_table().to_pylist()}
    first = [whole[run] for run in pq.ParquetFile(paths[0]).read()["run"].to_pylist()[:4]]
    assert costs[0].y == math.fsum(first) / 4
    assert (costs.missing, costs.designs) == (2 + 6, 4)
    found = compare(done, tmp_path / "out")
    assert (found.missing_before, found.missing_after, found.only_before) == (0, 8, 8)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_sweep_without_any_run_yet_is_not_compared(
    done: Path, tmp_path: Path, swapped: bool
) -> None:
    empty = tmp_path / "out"
    (empty / "parts").mkdir(parents=True)
    shutil.copy(done / "sweep.json", empty)
    with pytest.raises(SweepError, match=f"^{empty}: no run is finished yet; continue the sweep"):
        compare(*((empty, done) if swapped else (done, empty)))


def labels_of(folder: Path, **changes: Any) -> list[str]:
    run_sweep(tiny(**{"grid": {}, "parameters": {"tile": 2, "tile_inter": 32}, **changes}), folder)
    return [cost.label for cost in design_costs(folder, "onchip_bytes", "cycles")]


def test_labels_hold_what_differs_and_nothing_else(tmp_path: Path) -> None:
    points: list[dict[str, Any]] = [{"tile_inter": 16}, {"regions": 3, "tile_inter": 32}]
    # Regions leave the defaults of the others as they are.
    assert labels_of(tmp_path / "listed", points=points) == [
        "tile_inter=16 regions=null",
        "tile_inter=32 regions=3",
    ]
    assert labels_of(tmp_path / "one") == ["moe tiny"]
    # A name stands for all that differs between machines, but not for what was changed.
    assert labels_of(tmp_path / "machines", grid={"machine": ["sda-1024", "sda-hdl"]}) == [
        "machine=sda-1024",
        "machine=sda-hdl",
    ]
    points = [{}, {"machine": "sda-hdl", "machine.onchip.bytes_per_cycle": 16}]
    assert labels_of(tmp_path / "changed", points=points) == [
        "machine=sda-1024 machine.onchip.bytes_per_cycle=64",
        "machine=sda-hdl machine.onchip.bytes_per_cycle=16",
    ]
    points = [{}, {"machine.description": "the same in other words"}]
    assert labels_of(tmp_path / "same", points=points) == [
        "moe tiny (design 0)",
        "moe tiny (design 1)",
    ]


def test_labels_of_runs_tell_all_of_them_apart(done: Path, tmp_path: Path) -> None:
    labels = [change.label for change in compare(done, done).changes]
    assert len(set(labels)) == 24
    files = []
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, np.arange(32).reshape(16, 1, 2) % 6)
        files.append(str(tmp_path / name))
    selection = {"files": files, "tokens": 8, "windows": "all"}
    run_sweep(tiny(traces=selection, grid={"tile": [2]}), tmp_path / "out")
    labels = [change.label for change in compare(tmp_path / "out", tmp_path / "out").changes]
    assert labels == [f"trace={name} window={i}" for name in ("a.npy", "b.npy") for i in (0, 1)]


def test_metrics_that_were_not_kept_cannot_be_compared(tmp_path: Path) -> None:
    run_sweep(tiny(metrics=["cycles"], grid={"tile": [4]}), tmp_path)
    expected = "none of 6 runs has {}; keep what is missing with the key 'metrics'"
    # Cycles are there.
    with pytest.raises(SweepError, match=expected.format("onchip_bytes")):
        design_costs(tmp_path, "onchip_bytes", "cycles")
    with pytest.raises(SweepError, match=expected.format("onchip_bytes and flops")):
        design_costs(tmp_path, "onchip_bytes", "flops")
    with pytest.raises(SweepError, match=expected.format("flops")):
        compare(tmp_path, tmp_path, "flops")
    with pytest.raises(SweepError, match="none of 6 runs has regions; choose among cycles, "):
        compare(tmp_path, tmp_path, "regions")


def test_sweeps_without_a_good_run_say_so(tmp_path: Path) -> None:
    run_sweep(tiny(limits={"max_cycles": 5}, grid={"tile": [4]}), tmp_path)
    expected = r"no run ended well \(6 x limit\)"
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


def test_plot_writes_formats_that_matplotlib_knows(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    costs = [DesignCost(0, "a", 1, 1.0, 2.0, True), DesignCost(1, "b", 1, 2.0, 3.0, False)]
    plot_designs(costs, "x", "y", tmp_path / "p.png", "what the means are over")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SweepError, match="no format that matplotlib knows"):
        plot_designs(costs, "x", "y", tmp_path / "p.xyz")


def many_costs(count: int) -> list[DesignCost]:
    dice = random.Random(count)
    pairs = [(1e8 * dice.uniform(1, 8), 1e6 * dice.uniform(1, 8)) for _ in range(count)]
    best = frontier(pairs)
    label = "tile={} machine.hbm.channels=16 regions=16 compute_bw=4096 strategy=interleaved"
    return [DesignCost(i, label.format(i), 10, *pair, i in best) for i, pair in enumerate(pairs)]


@pytest.mark.parametrize("count", [1, 2, 20, 60])
def test_nothing_in_a_plot_covers_another_or_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    figure_module = pytest.importorskip("matplotlib.figure")
    drawn: list[Any] = []
    real = figure_module.Figure.savefig

    def savefig(figure: Any, *args: Any, **options: Any) -> None:
        drawn.append(figure)
        real(figure, *args, **options)

    monkeypatch.setattr(figure_module.Figure, "savefig", savefig)
    costs = many_costs(count)
    plot_designs(costs, "onchip_bytes", "cycles", tmp_path / "p.png")
    (axes,) = drawn[0].axes
    for axis in (axes.xaxis, axes.yaxis):
        assert not overlapping(axis.get_ticklabels())
    *numbers, names = axes.texts
    assert not overlapping(numbers)
    frame = axes.get_window_extent()
    for number in numbers:
        assert frame.containsx(number.get_window_extent().x1)
        assert frame.containsy(number.get_window_extent().y1)
    assert frame.x1 < names.get_window_extent().x0
    text = " ".join(names.get_text().split())
    for cost in costs:
        assert (f" {cost.label}" in text) is (cost.on_frontier or count <= 20)


def overlapping(texts: Sequence[Any]) -> list[tuple[str, str]]:
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    pairs = itertools.combinations(boxes, 2)
    return [(a, b) for (a, box), (b, other) in pairs if box.overlaps(other)]


def test_examples_of_the_documentation_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[2] / "docs" / "sweeps.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["sw"].open_table("swiglu-sweep").count_rows() == 4
    assert names["answer"].to_pydict()["channels"] == [16, 32]
    asked = re.findall(
        r"^stepsim query tiles \"(.*?)\"$", page.read_text(), re.DOTALL | re.MULTILINE
    )
    assert len(asked) == 4
    for sql in asked:
        names["sw"].query("swiglu-sweep", sql)
    (specification, *_) = re.findall(r"```yaml\n(.*?)```", page.read_text(), flags=re.DOTALL)
    (tmp_path / "tiles.yaml").write_text(specification)
    assert plan_sweep(tmp_path / "tiles.yaml").runs == 2000
