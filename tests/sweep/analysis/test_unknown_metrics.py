"""Metrics that runs of a sweep lack: the message names the cause that applies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepsim.errors import ArgError, SweepError
from stepsim.sweep import best, compare, run_sweep, tune
from stepsim.sweep.analysis import design_costs
from tests.cli.conftest import Cli

FILE = """
import stepsim as st

def undecided(tiles: int = 2) -> st.Program:
    with st.Program("undecided", compute_bw=64) as program:
        lengths, source = st.eager_merge([st.metadata([1, 2]), st.metadata([2, 1])])
        source.consume()
        index = st.metadata([0, 1, 2, 3])
        addresses = index.flat_map(st.fn.cache_read_addresses(tiles), lengths.assume_shape(4))
        keys = st.random_load(addresses, st.spec(16, 4), tile=(1, 4))
        keys.accum(st.fn.pack_rows, 1).map(st.fn.exp).consume()
    return program

def some_decided(decided: bool = False, computes: bool = True) -> st.Program:
    if not decided:
        return undecided()
    with st.Program("decided", compute_bw=64) as program:
        rows = st.linear_load(st.spec(8, 8), tile=(4, 4))
        (rows.map(st.fn.exp) if computes else rows).consume()
    return program
"""


def swept(folder: Path, program: str = "undecided", **changes: Any) -> Path:
    (folder / "own.py").write_text(FILE)
    spec = {"workload": f"{folder / 'own.py'}:{program}", "grid": {"tiles": [2, 4]}}
    run_sweep({**spec, "counting": "executed", **changes}, folder / "out")
    return folder / "out"


def refused(out: Path, metric: str, cause: str, **chosen: Any) -> None:
    """Both analyses name the cause."""
    with pytest.raises(SweepError, match=rf"(has|have) no.* {metric}.*; .*{cause}") as caught:
        best(out, metric, **chosen)
    with pytest.raises(SweepError, match=rf"(none of|have no).* {metric}.*; .*{cause}") as other:
        design_costs(out, metric, "cycles", **chosen)
    # And no other one.
    assert str(caught.value).partition("; ")[2] == str(other.value).partition("; ")[2]


SIZES = "the workload states these with Built.symbols"


@pytest.mark.slow
def test_sizes_that_a_run_decides(tmp_path: Path) -> None:
    out = swept(tmp_path)
    with pytest.raises(SweepError, match=f"none of 2 runs has onchip_bytes; .*{SIZES}") as caught:
        design_costs(out, "onchip_bytes", "cycles")
    assert "metrics" not in str(caught.value).partition(";")[2]
    with pytest.raises(SweepError, match=rf"run \w+ has no onchip_bytes; .*{SIZES}"):
        best(out, "onchip_bytes")
    with pytest.raises(SweepError, match=f"none of 2 runs has onchip_bytes; .*{SIZES}"):
        compare(out, out, "onchip_bytes")


def test_metrics_that_were_not_kept(tmp_path: Path) -> None:
    out = swept(tmp_path, metrics=["cycles"])
    with pytest.raises(SweepError, match=r"run \w+ has no flops; add them to the key 'metrics'"):
        best(out, "flops")


@pytest.mark.slow
def test_tokens_and_peaks(tmp_path: Path) -> None:
    out = swept(tmp_path, machine="sda-1024-energy")
    with pytest.raises(SweepError, match=r"run \w+ has no tokens_per_second; .* Built.tokens"):
        best(out, "tokens_per_second")


DECIDED = {"grid": {"decided": [True]}}


@pytest.mark.parametrize(
    ("changes", "metric", "cause"),
    [
        ({}, "energy_joules", "runs have it if the machine has a table of energies$"),
        ({}, "edp", "runs have it if the machine has a table of energies and states clock_ghz$"),
        ({}, "cycles_p95", "runs have it if the sweep has the key ensemble$"),
        ({}, "goodput", "only services have it; choose another metric, such as cycles or"),
        ({}, "milliseconds", "runs have them if the machine states clock_ghz; cycles are always"),
        # A key `metrics` that lacks it is not the cause where no key would help.
        ({"metrics": ["cycles"]}, "energy_joules", "if the machine has a table of energies$"),
        ({"metrics": ["cycles"]}, "cycles_p95", "if the sweep has the key ensemble$"),
        (
            {"metrics": ["cycles"], "machine": "sda-1024-energy", "ensemble": 2},
            "energy_joules",
            "add them to the key 'metrics' of the sweep$",
        ),
        (
            {"machine": "sda-1024", "parameters": {"machine.hbm.model": "uncontended"}},
            "bandwidth_utilization",
            "machines with hbm.model=uncontended have no peak; choose another machine or metric$",
        ),
        ({"parameters": {"computes": False}}, "compute_utilization", "has a compute bandwidth"),
    ],
)
def test_causes(tmp_path: Path, changes: dict[str, Any], metric: str, cause: str) -> None:
    refused(swept(tmp_path, "some_decided", **{**DECIDED, **changes}), metric, cause)


def test_metrics_that_some_machines_have(tmp_path: Path) -> None:
    """The cause is that of the runs that lack them."""
    points = [{"decided": True, "machine.name": name} for name in ("a", "b")]
    table = {"offchip_pj_per_byte": 3.0, "flop_pj_bf16": 1.0, "sources": "a data sheet"}
    points[1] |= {f"machine.energy.{name}": value for name, value in table.items()}
    out = swept(tmp_path, "some_decided", grid={}, points=points, machine="sda-1024")
    assert len(design_costs(out, "energy", "cycles")) == 1
    with pytest.raises(SweepError, match="no energy_joules; runs have it if the machine has a ta"):
        best(out, "energy_joules")


def test_several_metrics_have_a_cause_each(tmp_path: Path) -> None:
    with pytest.raises(SweepError) as caught:
        design_costs(swept(tmp_path, "some_decided", **DECIDED), "energy", "cycles_p95")
    assert str(caught.value).partition(": ")[2] == (
        "the runs have no energy_joules and no cycles_p95; energy_joules: runs have it if the "
        "machine has a table of energies; cycles_p95: runs have it if the sweep has the key "
        "ensemble"
    )


@pytest.mark.slow
def test_conditions_that_leave_runs_without_a_metric(tmp_path: Path) -> None:
    """Nothing is said of a search where there is none."""
    out = swept(tmp_path, "some_decided", grid={"decided": [False, True]})
    assert len(design_costs(out, "onchip_bytes", "cycles")) == 1
    with pytest.raises(SweepError) as caught:
        design_costs(out, "onchip_bytes", "cycles", where="decided == False")
    assert (
        str(caught.value)
        .partition(": ")[2]
        .startswith(
            "none of 1 runs that satisfy 'decided == False' has onchip_bytes; they depend on sizes"
        )
    )
    with pytest.raises(SweepError, match=f"has no onchip_bytes; .*{SIZES}"):
        best(out, "onchip_bytes", where="decided == False")


def test_costs_of_what_is_not_known(tmp_path: Path) -> None:
    out, weights = swept(tmp_path), {"onchip_bytes": 1.0}
    for judged in (lambda: best(out, "cost", weights=weights),
                   lambda: design_costs(out, "tiles", "cost", weights=weights)):  # fmt: skip
        with pytest.raises(ArgError, match=rf"cost: onchip_bytes is not known \(.*{SIZES}\), exp"):
            judged()


def test_costs_beside_values_of_the_designs(tmp_path: Path) -> None:
    """Where no metric of the runs is compared."""
    out = swept(tmp_path)
    found = design_costs(out, "tiles", "cost", weights={"cycles": 1.0})
    assert [point.x for point in found] == [2, 4]


def test_constraints_that_are_not_known_to_hold(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(FILE)
    spec = {
        "workload": f"{tmp_path / 'own.py'}:undecided",
        "grid": {"tiles": [2, 4]},
        "counting": "executed",
        "search": {"objectives": ["cycles"], "constraints": ["onchip_bytes <= 1"], "trials": 2},
    }
    tune(spec, tmp_path / "out")
    with pytest.raises(SweepError, match=r"constraint of .*: onchip_bytes <= 1 \(onchip_bytes not"):
        design_costs(tmp_path / "out", "cycles", "flops")


@pytest.mark.parametrize("command", ["pareto", "best"])
def test_commands_on_runs_that_all_failed(tmp_path: Path, command: str, cli: Cli) -> None:
    out = swept(tmp_path, limits={"max_cycles": 1})
    ended = cli("sweep", command, out)
    assert ended.code != 0
    assert "no run succeeded (2 x limit)" in ended.err
