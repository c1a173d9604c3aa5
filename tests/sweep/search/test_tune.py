"""Searches: trials through the store of a sweep, resumed, shared, refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from stepsim.errors import SweepError
from stepsim.sweep import design_costs, open_table, plan_sweep, run_sweep, tune
from stepsim.sweep.analysis.tables import read_failures
from tests.sweep.support import ROOT, rows_of, tiny

SEARCH: dict[str, Any] = {
    "objectives": ["cycles", "onchip_bytes"],
    "trials": 16,
    "batch": 4,
    "seed": 3,
}
GRID: dict[str, Any] = {
    "tile": [1, 2, 3, 4, "dynamic"],
    "tile_inter": [16, 32, 64],
    "machine.hbm.channels": {"from": 8, "to": 32, "factor": 2},
}


def space(**changes: Any) -> dict[str, Any]:
    """45 designs over 2 traces."""
    traces = {"synthetic": {"tokens": 12, "layers": 1, "steps": 2, "seed": 1}}
    search = SEARCH | changes.pop("search", {})
    if search.get("sampler") == "grid":
        search["seed"] = 0  # it has no effect
    return tiny(**{"traces": traces, "parameters": {}, "grid": GRID, "search": search} | changes)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep over all designs of the space."""
    folder = tmp_path_factory.mktemp("space") / "sweep"
    spec = space()
    del spec["search"]
    run_sweep(spec, folder)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("sampler", ["nsga2", "tpe", "random", "grid"])
def test_a_search_of_the_whole_space_finds_the_front_of_the_sweep(
    tmp_path: Path, swept: Path, sampler: str
) -> None:
    found = tune(space(search={"sampler": sampler, "trials": 45}), tmp_path / "search")
    assert (len(found.trials), found.space, found.computed) == (45, 45, 90)
    expected = design_costs(swept, "cycles", "onchip_bytes")
    front = {(t.values["cycles"], t.values["onchip_bytes"]) for t in found.front}
    assert front == {(c.x, c.y) for c in expected if c.pareto_optimal}
    # The folder is that of a sweep of these designs.
    again = design_costs(tmp_path / "search", "cycles", "onchip_bytes")
    assert {(c.x, c.y) for c in again if c.pareto_optimal} == front
    assert len(again) == again.designs == 45


@pytest.mark.long
def test_no_design_is_tried_twice_and_all_depend_on_the_seed(tmp_path: Path) -> None:
    first = tune(space(), tmp_path / "a")
    texts = [repr(trial.design) for trial in first.trials]
    assert len(set(texts)) == len(texts) == 16
    assert tune(space(), tmp_path / "b", jobs=2).trials == first.trials
    assert rows_of(tmp_path / "a") == rows_of(tmp_path / "b")
    assert tune(space(search={"seed": 4}), tmp_path / "c").trials != first.trials


@pytest.mark.slow
def test_a_search_goes_on_where_it_was_and_beyond(tmp_path: Path) -> None:
    first = tune(space(), tmp_path)
    again = tune(space(), tmp_path, resume=True)
    assert (again.trials, again.computed) == (first.trials, 0)
    more = tune(space(search={"trials": 24}), tmp_path, resume=True)
    assert [t.values for t in more.trials[:16]] == [t.values for t in first.trials]
    assert (len(more.trials), more.computed) == (24, 16)
    with pytest.raises(SweepError, match="holds a sweep already"):
        tune(space(), tmp_path)
    traces = {"synthetic": {"tokens": 12, "layers": 1, "steps": 3, "seed": 1}}
    with pytest.raises(SweepError, match="holds another sweep, it differs in traces"):
        tune(space(traces=traces), tmp_path, resume=True)


@pytest.mark.long
def test_a_killed_search_loses_and_repeats_no_trial(tmp_path: Path) -> None:
    spec, out = tmp_path / "spec.yaml", tmp_path / "out"
    spec.write_text(yaml.safe_dump(space(search={"trials": 40}, chunk=1), sort_keys=False))
    command = [
        sys.executable,
        "-m",
        "stepsim",
        "sweep",
        "tune",
        str(spec),
        "--out",
        str(out),
        "--resume",
    ]
    computed = 0
    for target in (10, 40):
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
            lines = out / "timings.jsonl"
            if lines.exists() and lines.read_bytes().count(b"\n") >= target:
                break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    undisturbed = tune(space(search={"trials": 40}, chunk=1), tmp_path / "whole")
    found = tune(spec, out, resume=True)
    assert found.trials == undisturbed.trials
    assert rows_of(out) == rows_of(tmp_path / "whole")
    runs = open_table(out).to_table(columns=["run"])["run"].to_pylist()
    computed = (out / "timings.jsonl").read_bytes().count(b"\n")
    assert len(set(runs)) == len(runs) == 80
    # A chunk may have been killed between its rows and the line on its time, or before its rows.
    assert 78 <= computed <= 82
    assert found.computed <= 41


@pytest.mark.slow
def test_constraints_on_axes_cost_nothing_and_others_are_kept(tmp_path: Path) -> None:
    limits = ["channels <= 16", "onchip_bytes <= 300e3 and p95_cycles < 1e9"]
    found = tune(space(search={"constraints": limits, "trials": 30}), tmp_path)
    assert all(trial.design["machine.hbm.channels"] <= 16 for trial in found.trials)
    assert found.refused
    assert all(why == f"violates {limits[0]}" for why in found.refused.values())
    for trial in found.trials:
        assert (trial.values["onchip_bytes"] > 300e3) == (trial.violated == (limits[1],))
    assert {bool(trial.violated) for trial in found.trials} == {True, False}
    assert found.front
    assert not any(trial.violated for trial in found.front)


@pytest.mark.slow
def test_weights_make_a_cost_that_is_an_objective(tmp_path: Path) -> None:
    search = {
        "objectives": ["p95_cycles", "cost"],
        "cost": {"hbm_channels": 2, "onchip_bytes": 1e-3},
    }
    found = tune(space(search=search), tmp_path)
    runs = open_table(tmp_path).to_table(columns=["point", "onchip_bytes"]).to_pylist()
    for trial in found.trials:
        onchip = [row["onchip_bytes"] for row in runs if row["point"] == trial.number]
        mean = sum(onchip) / len(onchip)
        expected = 2 * trial.design["machine.hbm.channels"] + mean / 1000
        assert trial.values["cost"] == pytest.approx(expected)
    assert found.objectives == ("p95_cycles", "cost")


@pytest.mark.slow
def test_designs_that_cannot_be_built_or_run_are_reported(tmp_path: Path) -> None:
    grid = {"tile": [2, "dynamic"], "tile_inter": [32, 48], "fifo_depth": [1, 2]}
    found = tune(space(grid=grid, search={"trials": 8}), tmp_path)
    assert all("tile_inter=48" in design for design in found.refused)
    assert len(found.refused) == 4
    assert all("48" in why for why in found.refused.values())
    assert len(found.trials) == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objectives": ["cycle"]}, r"line \d+, search.objectives: objective 'cycle' is unknown"),
        ({"objectives": []}, r"line \d+, search.objectives: expected 1 to 4 different"),
        ({"constraints": ["import os"]}, r"line \d+, search.constraints: .*cannot be read"),
        ({"constraints": ["f(1) < 2"]}, r"search.constraints: .*'f\(1\)' is not understood"),
        ({"sampler": "annealing"}, r"line \d+, search.sampler: "),
        ({"trials": 0}, r"line \d+, search.trials: "),
        ({"trails": 8}, r"line \d+, search.trails: .*trials"),
        (
            {"objectives": ["cycles", "flops", "cycles"]},
            r"search.objectives: expected different metrics, found cycles and cycles, which are",
        ),
        (
            {"objectives": ["cycles", "mean_cycles"]},
            r"search.objectives: expected different metrics, found cycles and mean_cycles, which",
        ),
        (
            {"objectives": ["cost"]},
            r"line \d+, search.objectives\[0\]: cost: the machine has no section costs",
        ),
        (
            {"constraints": ["tile != 3", "onchip <= 4"]},
            r"line \d+, search.constraints\[1\]: .*unknown name 'onchip'",
        ),
        ({"constraints": ["cycles < (1, 2)"]}, r"search.constraints.*'\(1, 2\)' is a list"),
        ({"constraints": ["channels < '32'"]}, r"line \d+, search.constraints\[0\]: .*types"),
        ({"constraints": ["cost < 9"]}, r"search.constraints: cost: the machine has no section"),
        (
            {"constraints": ["tile_inter < 1"]},
            r"line \d+, search.constraints: none of the 45 .*\n.*violates .*: 45 designs",
        ),
        ({"cost": {"hbm_channels": 1}}, r"line \d+, search.cost: no objective and no constraint"),
        (
            {"objectives": ["cost"], "cost": {"hbm_chanels": 1}},
            r"line \d+, search.cost.hbm_chanels: unknown name 'hbm_chanels'",
        ),
        (
            {"objectives": ["cost"], "cost": {"tile": 1}},
            r"line \d+, search.cost.tile: tile is not a number in every design",
        ),
    ],
)
def test_what_is_wrong_with_a_search_is_reported_with_its_line(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(yaml.safe_dump(space(search=changes), sort_keys=False))
    with pytest.raises(SweepError, match=message):
        tune(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_seed_of_a_search_that_draws_nothing_is_refused(tmp_path: Path) -> None:
    spec = space()
    spec["search"] |= {"sampler": "grid"}
    with pytest.raises(SweepError, match=r"search.seed: has no effect, since the sampler grid"):
        tune(spec, tmp_path / "out")


def test_a_search_is_no_sweep_to_run() -> None:
    with pytest.raises(SweepError) as caught:
        plan_sweep(space(search={"sampler": "grid", "trials": 2}))
    assert str(caught.value) == (
        "sweep: search: belongs to a search of designs, expected a sweep; run `stepsim sweep tune` "
        "(`st.sweep.tune`), or remove the section"
    )


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"tiel": [1, 2]}, r"line \d+, grid.tiel: "),
        ({"tile": [1, "dynamo"]}, r"line \d+, design point 0 \(tile=dynamo\): tile: "),
        ({"tile": {"from": 8}}, r"line \d+, grid.tile: expected a list, or numbers from, to"),
        ({"tile": {"form": 8}}, r"step or factor, found \{form: 8\}"),
        ({"tile": {"from": 8, "to": 1}}, r"grid.tile: expected from <= to"),
        ({}, r"grid: missing; give the axes"),
    ],
)
def test_wrong_axes_are_reported_before_anything_runs(
    tmp_path: Path, grid: dict[str, Any], message: str
) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(yaml.safe_dump(space(grid=grid), sort_keys=False))
    with pytest.raises(SweepError, match=message):
        tune(file, tmp_path / "out")


@pytest.mark.slow
def test_designs_that_do_not_fit_are_no_part_of_the_front(tmp_path: Path) -> None:
    limits = {"compute.flops_per_cycle": [1000, 1_000_000], "onchip.capacity_bytes": [1, 1 << 30]}
    grid = {"tile": [2, 4], **{f"machine.{key}": values for key, values in limits.items()}}
    search = {"sampler": "grid", "trials": 8, "batch": 8}
    found = tune(space(grid=grid, search=search), tmp_path / "search")
    assert len(found.trials) == 8
    fits = [
        trial
        for trial in found.trials
        if all(trial.design[f"machine.{key}"] == values[1] for key, values in limits.items())
    ]
    assert len(fits) == 2
    assert found.front
    assert set(map(repr, found.front)) <= set(map(repr, fits))
    failed = read_failures(tmp_path / "search", ["error", "message"]).to_pylist()
    assert {row["error"] for row in failed} == {"infeasible"}
    for key in limits:
        assert any(key in row["message"] for row in failed)
