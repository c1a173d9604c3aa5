"""Replicates, depths that are found for each run, and deadlocks with their fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import SweepError
from stepsim.sizing import size_fifos
from stepsim.sweep import (
    best,
    compare_baseline,
    design_costs,
    plan_sweep,
    read_failures,
    read_runs,
    run_sweep,
    tune,
)
from stepsim.workloads import find_workload

FILE = '''
from typing import Annotated

import stepsim as st


def drawn(tile: int = 8, seed: int = 0) -> st.Program:
    """A number of rows that depends on the seed."""
    with st.Program("drawn", compute_bw=64) as program:
        x = st.linear_load(st.spec(64 + 128 * seed, 16), (tile, 16)).flatten(0, 1)
        st.linear_store(x.map(st.fn.exp), "y")
    return program


def center(
    tile: int = 16,
    depth: Annotated[int, st.workloads.Param("tokens", machine="fifo.depth")] = 2,
) -> st.Program:
    """Rows less their sums, whose bypass needs the depth of a row."""
    with st.Program("center", compute_bw=1024, fifo_depth=depth) as program:
        x = st.linear_load(st.spec(64, 512), tile=(tile, 64))
        total = x.accum(st.fn.add, rank=1)
        y = st.map(st.fn.sub, x, total.unsqueeze(0).expand(8))
        st.linear_store(y, "y")
    return program
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own.py"
    path.write_text(FILE, encoding="utf-8")
    return path


@pytest.fixture
def replicated(file: Path, tmp_path: Path) -> Path:
    out = tmp_path / "replicated"
    spec = {
        "workload": f"{file}:drawn",
        "grid": {"tile": [8, 16]},
        "points": [{"tile": 64}],
        "replicates": {"seed": [0, 1, 2]},
    }
    plan = plan_sweep(spec)
    assert plan.size == "9 runs: 3 design points x 3 replicates"
    run_sweep(plan, out)
    return out


@pytest.mark.slow
def test_results_are_means_over_replicates(replicated: Path) -> None:
    rows = read_runs(replicated, ["point", "replicate", "seed", "cycles"]).to_pylist()
    assert [(row["point"], row["replicate"], row["seed"]) for row in rows] == [
        (3 * point, f"seed={seed}", seed) for point in range(3) for seed in range(3)
    ]
    costs = design_costs(replicated, "onchip_bytes", "cycles")
    assert [one.label for one in costs] == ["tile=8", "tile=16", "tile=64"]
    assert [one.runs for one in costs] == [3, 3, 3]
    for one in costs:
        own = [row["cycles"] for row in rows if row["point"] == one.point]
        assert len(set(own)) == 3
        assert one.y == sum(own) / 3
    assert (costs.traces, costs.designs) == (3, 3)
    fastest = min(costs, key=lambda one: one.y)
    assert best(replicated).overall.label == fastest.label


@pytest.mark.slow
def test_designs_are_compared_replicate_by_replicate(replicated: Path) -> None:
    rows = read_runs(replicated, ["point", "seed", "cycles"]).to_pylist()
    by = {(row["point"], row["seed"]): row["cycles"] for row in rows}
    found = compare_baseline(replicated, baseline={"tile": "8"})
    ratios = {one.label: (one.least, one.worst) for one in found.rows}
    expected = [by[3, seed] / by[0, seed] for seed in range(3)]
    assert ratios["tile=16"] == pytest.approx((min(expected), max(expected)))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"replicates": {"sed": [0, 1]}}, "replicates.sed: .*did you mean 'seed'"),
        ({"replicates": {"seed": [0, 0]}}, "replicates.seed: holds a value twice"),
        ({"replicates": {"seed": []}}, "replicates.seed: is empty"),
        ({"grid": {"fifo_depth": [2, "a.yaml"]}}, r"fifo_depth.*have one depth for all FIFOs"),
        (
            {"grid": {"fifo_depth": ["auto", 0]}},
            r"\(fifo_depth=0\): fifo_depth: .* integer from 1 ",
        ),
        (
            {"grid": {"fifo_depth": ["auto", "x"]}},
            r"\(fifo_depth=x\): fifo_depth: .*, found the text 'x'",
        ),
        (
            {"grid": {"fifo_depth": [4, "auto"]}, "parameters": {"machine.fifo.depth": 2}},
            "fifo_depth: found with machine.fifo.depth, which is the same",
        ),
        ({"replicates": {"tile": [1, 2]}}, "replicates.tile: also given in grid, points or param"),
        ({"replicates": {"seed": [0, "x"]}}, r"seed: expected a whole number from 0, found 'x'"),
    ],
)
def test_mistakes_are_named(file: Path, changes: dict[str, Any], expected: str) -> None:
    spec = {"workload": f"{file}:drawn", "grid": {"tile": [8, 16]}, **changes}
    with pytest.raises(SweepError, match=expected):
        plan_sweep(spec)


def test_a_search_takes_no_replicates(file: Path, tmp_path: Path) -> None:
    spec = {
        "workload": f"{file}:drawn",
        "grid": {"tile": [8, 16]},
        "replicates": {"seed": [0, 1]},
        "search": {"objectives": ["cycles"], "trials": 2},
    }
    with pytest.raises(SweepError, match="replicates: a search compares designs over traces"):
        tune(spec, tmp_path / "tuned")


def test_a_depth_beside_auto_is_that_of_the_machine(file: Path, tmp_path: Path) -> None:
    """A workload without a parameter for the depth of its FIFOs takes both on one axis."""
    out = tmp_path / "depths"
    spec = {"workload": f"{file}:drawn", "grid": {"fifo_depth": ["auto", 64, 1]}}
    run_sweep({**spec, "parameters": {"tile": 8}}, out)
    sized, deep, shallow = read_runs(out, ["cycles", "fifo_depths", "parameters"]).to_pylist()
    program = find_workload(f"{file}:drawn").load()(tile=8).build(st.workloads.Data()).program
    for row, depth in ((deep, 64), (shallow, 1)):
        machine = st.load_machine("sda-1024", {"fifo.depth": depth})
        assert (row["cycles"], row["fifo_depths"]) == (st.simulate(program, machine).cycles, None)
        assert json.loads(row["parameters"])["fifo_depth"] == depth
    assert deep["cycles"] < shallow["cycles"]
    assert json.loads(sized["fifo_depths"]) == size_fifos(program).depths
    assert json.loads(sized["parameters"])["fifo_depth"] == "auto"


def test_depths_are_found_for_each_run_and_deadlocks_have_their_fix(
    file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "depths"
    run_sweep({"workload": f"{file}:center", "grid": {"depth": [2, 16, "auto"]}}, out)
    columns = ["status", "cycles", "depth", "fifo_depths", "parameters", "onchip_bytes"]
    stuck, deep, sized = read_runs(out, columns, ok_only=False).to_pylist()
    assert (stuck["status"], deep["status"], sized["status"]) == ("deadlock", "ok", "ok")
    assert (deep["depth"], deep["fifo_depths"]) == (16, None)
    program = find_workload(f"{file}:center").load()().build(st.workloads.Data()).program
    found = size_fifos(program)
    assert json.loads(sized["fifo_depths"]) == found.depths
    assert (sized["depth"], sized["cycles"]) == (None, *found.cycles)
    assert json.loads(sized["parameters"])["depth"] == "auto"
    (failure,) = read_failures(out, ["error", "message", "fix"]).to_pylist()
    assert failure["error"] == "deadlock"
    assert "circular wait" in failure["message"]
    fix = st.fix_deadlock(program)
    assert failure["message"].endswith("\n" + fix.sentences[0])
    assert json.loads(failure["fix"])["depths"] == fix.depths
