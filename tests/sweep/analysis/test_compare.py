"""Two sweeps side by side."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.errors import SweepError
from stepsim.results.columns import MEASURES
from stepsim.sweep import (
    compare,
    open_table,
    run_sweep,
)
from stepsim.sweep.analysis import key_differences
from stepsim.sweep.analysis.measured import COUNTED
from tests.samples import sampled
from tests.sweep.support import TINY, rewrite, routing_file, tiny


@pytest.mark.slow
def test_a_sweep_compared_with_itself_is_equal(done: Path) -> None:
    found = compare(done, done)
    assert len(found.changes) == 24
    assert {change.ratio for change in found.changes} == {1.0}
    assert (found.only_before, found.only_after, found.mean_ratio) == (0, 0, 1.0)


@pytest.mark.slow
def test_regressions_come_first(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from stepsim.simulation.running.batches import ManyRuns

    real, calls = ManyRuns.totals, []

    def run(self: ManyRuns, *args: object, **options: object) -> object:
        totals = real(self, *args, **options)  # type: ignore[arg-type]
        calls.append(1)
        factor = {3: 2, 5: 3}.get(len(calls), 1)
        return replace(totals, cycles=totals.cycles * factor)

    monkeypatch.setattr(ManyRuns, "totals", run)
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


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep `done` with bytes and FLOPs counted as the published experiments did."""
    folder = tmp_path_factory.mktemp("published") / "out"
    run_sweep(tiny(counting="published"), folder)
    return folder


@pytest.mark.slow
def test_times_need_a_clock(done: Path, tmp_path: Path) -> None:
    with pytest.raises(SweepError, match=r"none of 24 runs has milliseconds; .* states clock_ghz"):
        compare(done, done, "milliseconds")
    clocked = tmp_path / "out"
    run_sweep(tiny(grid={"tile": [4], "machine.clock_ghz": [0.5]}), clocked)
    found = compare(clocked, clocked, "milliseconds")
    assert all(change.ratio == 1 for change in found.changes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "metric",
    sampled((one for one in MEASURES if one != "milliseconds"), "cycles", "flops", "offchip_bytes"),
)
def test_metrics_that_depend_on_how_they_are_counted_say_so(
    done: Path, published: Path, metric: str
) -> None:
    found = compare(done, published, metric)
    assert (found.countings_before, found.countings_after) == (("executed",), ("published",))
    assert (metric in COUNTED) is bool(found.remark)
    if metric in COUNTED:
        assert found.remark.startswith(
            f"{metric} is counted as executed in A and as published in B, so the ratios compare"
        )
        assert found.title == f"{metric} (executed, published)"
    else:
        assert found.title == metric
        assert all(change.ratio in (1.0, None) for change in found.changes)
    assert compare(published, published, metric).remark == ""


@pytest.mark.slow
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
    rewrite(path, pa.Table.from_pylist(rows[:5], schema=runs.schema))
    path = folder / "failures" / path.parent.name / path.name
    failures = pq.ParquetFile(path).read()
    bad = [
        {**row, "stage": "run", "error": error, "message": f"because of {error}"}
        for row, error in ((rows[1], "limit"), (rows[2], "limit"), (rows[5], "ValueError"))
    ]
    rewrite(path, pa.Table.from_pylist(bad, schema=failures.schema))
    return folder


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_sweep_of_which_nothing_succeeds_any_more_is_compared(
    done: Path, limited: Path, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    for source, folder in ((done, good), (limited, bad)):
        shutil.copytree(source, folder)
        (folder / "summary.json").unlink()  # or the files would be missed
        for path in sorted((folder / "runs").rglob("part.parquet"))[1:]:
            path.unlink()
    (path,) = (bad / "runs").rglob("part.parquet")
    runs = pq.ParquetFile(path).read()
    rewrite(path, runs.slice(1, 2))
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
    rewrite(path, pa.Table.from_pylist(rows, schema=runs.schema))
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
        row["bus_bytes"] = bytes_
    rewrite(path, pa.Table.from_pylist(rows, schema=runs.schema))
    shutil.copytree(tmp_path / "out", tmp_path / "more")
    rows[1]["bus_bytes"] = 5
    path = tmp_path / "more" / path.relative_to(tmp_path / "out")
    rewrite(path, pa.Table.from_pylist(rows, schema=runs.schema))
    found = compare(tmp_path / "out", tmp_path / "more", "bus_bytes")
    (worst, *_) = found.changes
    assert found.mean_ratio is None
    assert (worst.before, worst.after, worst.ratio) == (0, 5, None)
    found = compare(tmp_path / "more", tmp_path / "out", "bus_bytes")
    (*_, best) = found.changes
    assert found.mean_ratio is None
    assert (best.before, best.after, best.ratio) == (5, 0, 0)


@pytest.mark.slow
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
            {"model": {**TINY["model"], "experts": {"count": 6, "active": 2, "inner_dim": 32}}},
            ["model.experts.inner_dim: 64 in A, 32 in B"],
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_name_of_a_trace_does_not_matter_to_a_comparison(tmp_path: Path) -> None:
    grid = {"tile": [2]}
    for name in ("a", "b"):
        files = [routing_file(tmp_path, f"{name}.npy")]
        run_sweep(tiny(traces={"files": files}, grid=grid), tmp_path / name)
    found = compare(tmp_path / "a", tmp_path / "b")
    assert (len(found.changes), found.only_before, found.only_after) == (2, 0, 0)
    with pytest.raises(SweepError, match="another sweep, it differs in traces; "):
        run_sweep(tiny(traces={"files": files}, grid=grid), tmp_path / "a", resume=True)


@pytest.mark.slow
def test_copies_of_a_trace_are_runs_of_their_own(tmp_path: Path) -> None:
    names = [routing_file(tmp_path, name) for name in ("a.npy", "b.npy", "c.npy")]
    run_sweep(tiny(traces={"files": names}, grid={"tile": [2]}), tmp_path / "three")
    run_sweep(tiny(traces={"files": names[2:]}, grid={"tile": [2]}), tmp_path / "one")
    assert len(set(open_table(tmp_path / "three").to_table()["run"].to_pylist())) == 6
    found = compare(tmp_path / "three", tmp_path / "one")
    assert (len(found.changes), found.only_before, found.only_after) == (2, 4, 0)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_sweep_without_any_run_yet_is_not_compared(
    done: Path, tmp_path: Path, swapped: bool
) -> None:
    empty = tmp_path / "out"
    (empty / "parts").mkdir(parents=True)
    for name in ("sweep.json", "digests.jsonl"):
        shutil.copy(done / name, empty)
    with pytest.raises(SweepError, match=f"^{empty}: no run is finished yet; continue the sweep"):
        compare(*((empty, done) if swapped else (done, empty)))
