"""Energy, fit, ensembles and bounds in sweeps: columns where they apply, and nothing elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import SweepError
from stepsim.explain import largest_bound
from stepsim.results.columns import ENERGY, SPREAD
from stepsim.sweep import compare, compare_baseline, run_sweep
from stepsim.sweep.analysis import design_costs
from stepsim.sweep.analysis.tables import read_failures, read_runs
from stepsim.sweep.planning.optional_measures import BOUND

SPEC: dict[str, Any] = {
    "workload": "moe",
    "model": "mixtral-8x7b",
    "traces": {"synthetic": {"tokens": 8, "seed": 1}},
    "grid": {"tile": [4, 8]},
}


def swept(folder: Path, **changes: Any) -> Path:
    run_sweep({**SPEC, **changes}, folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    axes = {"tile": [4, 8], "machine.compute.flops_per_cycle": [1000, 1_000_000]}
    place = tmp_path_factory.mktemp("sweeps") / "energy"
    return swept(place, machine="sda-1024-energy", grid=axes, ensemble=4)


@pytest.mark.slow
def test_infeasible_points_are_kept_and_left_out_of_fronts(folder: Path) -> None:
    rows = read_runs(folder, ["status", "cycles", "point"], ok_only=False).to_pylist()
    assert [row["status"] for row in rows] == ["infeasible", "ok"] * 2
    assert [row["cycles"] for row in rows[::2]] == [row["cycles"] for row in rows[1::2]]
    failures = read_failures(folder, ["error", "message"]).to_pylist()
    assert {row["error"] for row in failures} == {"infeasible"}
    assert "the machine has 1,000 (compute.flops_per_cycle)" in failures[0]["message"]
    costs = design_costs(folder, "cycles", "energy")
    assert {point.point for point in costs} == {1, 3}
    assert any(point.pareto_optimal for point in costs)


@pytest.mark.slow
def test_runs_have_energies_and_the_spread_of_their_ensemble(folder: Path) -> None:
    rows = read_runs(folder, ["cycles", *ENERGY, *SPREAD]).to_pylist()
    for row in rows:
        assert row["energy_joules"] > row["energy_offchip_joules"] > 0
        assert row["edp"] == pytest.approx(row["energy_joules"] * row["cycles"] / 1e9)
        assert row["cycles_p5"] <= row["cycles_median"] <= row["cycles_p95"]
    changes = compare(folder, folder).changes
    assert [change.noise for change in changes] == [True, True]


def test_conditions_on_them_hold_beside_runs_that_failed(folder: Path) -> None:
    found = compare_baseline(folder, folder, where="energy_joules > 0 and cycles_p5 > 0")
    assert found == compare_baseline(folder, folder)


def test_the_spread_is_that_of_an_ensemble(folder: Path) -> None:
    row = read_runs(folder, ["tile", *SPREAD]).to_pylist()[0]
    routing = st.traces.synthetic_routing(
        tokens=8, experts=8, k=2, layer=0, step=0, seed=1, skew=1.0
    )
    data = st.workloads.Data.of(routing=routing.experts)
    case = st.simulation.make_case(
        "moe", data, model="mixtral-8x7b", tile=4, machine="sda-1024-energy"
    )
    found = st.ensemble(case.prepared, runs=4, bindings=case.bound(data))
    assert {name: row[name] for name in SPREAD} == found.columns()


def test_metrics_keep_the_spread_of_an_ensemble(tmp_path: Path) -> None:
    place = swept(tmp_path, grid={"tile": [4]}, ensemble=2, metrics=["cycles"])
    [row] = read_runs(place, [*SPREAD]).to_pylist()
    assert 0 < row["cycles_p5"] <= row["cycles_median"] <= row["cycles_p95"]
    assert [change.noise for change in compare(place, place).changes] == [True]


def test_other_sweeps_have_no_such_columns(tmp_path: Path) -> None:
    place = swept(tmp_path / "plain")
    schema = read_runs(place, ["run"]).schema
    with pytest.raises(SweepError, match="no column 'energy_joules'"):
        read_runs(place, ["energy_joules"])
    assert schema.names == ["run"]
    assert "ensemble" not in (place / "sweep.json").read_text()
    assert "energy" not in (place / "sweep.json").read_text()
    with pytest.raises(
        SweepError, match="energy_joules; runs have it if the machine has a table of energies"
    ):
        design_costs(place, "cycles", "energy")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"metrics": ["cycles", "energy_joules"]}, "no machine of the sweep has a table of energ"),
        ({"metrics": ["cycles_p95"]}, "needs an ensemble; add the key ensemble"),
        ({"metrics": []}, "metrics: expected a non-empty list of 'cycles', "),
        ({"ensemble": 0}, "ensemble"),
        ({"ensemble": {"runs": 2, "boundz": {}}}, "boundz"),
    ],
)
def test_wrong_keys(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(SweepError, match=said):
        swept(tmp_path / "wrong", **changes)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"fifo.dept": 1}, r"ensemble.bounds: bounds names 'fifo.dept'; did you mean"),
        ({"fifo.depth": [3, 1]}, r"ensemble.bounds: bounds\['fifo.depth'\] must be a number"),
    ],
)
def test_wrong_bounds_are_reported_before_any_run(tmp_path, bounds, message) -> None:
    with pytest.raises(SweepError, match=message):
        swept(tmp_path / "out", ensemble={"runs": 2, "bounds": bounds})


@pytest.mark.slow
def test_runs_have_what_bounds_them(tmp_path: Path) -> None:
    place = swept(tmp_path / "bounds", bounds=True, grid={"tile": [4]}, metrics=["cycles"])
    [row] = read_runs(place, ["cycles", *BOUND]).to_pylist()
    routing = st.traces.synthetic_routing(
        tokens=8, experts=8, k=2, layer=0, step=0, seed=1, skew=1.0
    )
    data = st.workloads.Data.of(routing=routing.experts)
    case = st.simulation.make_case("moe", data, model="mixtral-8x7b", tile=4, machine="sda-1024")
    largest = largest_bound(case.prepared, case.bound(data))
    assert largest is not None
    assert [row[name] for name in BOUND] == [largest.kind, largest.target, largest.bound]
    assert row["cycles"] >= row["bound_cycles"] > 0
    assert [one.before for one in compare(place, place, "bound_cycles").changes] == [largest.bound]


def test_bounds_are_part_of_what_a_sweep_is(tmp_path: Path) -> None:
    place = swept(tmp_path / "plain", grid={"tile": [4]})
    assert "bounds" not in (place / "sweep.json").read_text()
    with pytest.raises(SweepError, match="no column 'resource_kind'"):
        read_runs(place, ["resource_kind"])
    with pytest.raises(
        SweepError, match="no bound_cycles; runs have it if the sweep has the key bounds"
    ):
        compare(place, place, "bound_cycles")
    with pytest.raises(SweepError, match="bounds"):
        run_sweep({**SPEC, "grid": {"tile": [4]}, "bounds": True}, place, resume=True)
    bounded = swept(tmp_path / "bounded", grid={"tile": [4]}, bounds=True, ensemble=2)
    with pytest.raises(SweepError, match="another sweep, it differs in ensemble, bounds;"):
        run_sweep({**SPEC, "grid": {"tile": [4]}}, bounded, resume=True)
