"""Directions of metrics, percentiles, and options that have no use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepsim.cli.main import main
from stepsim.errors import ArgError, SweepError
from stepsim.sweep import best, compare_baseline, design_costs, tune
from stepsim.sweep.analysis import parse_assignments
from tests.sweep.support import tiny


@pytest.mark.slow
def test_of_a_utilization_the_larger_is_on_the_front(done: Path) -> None:
    found = design_costs(done, "onchip_bytes", "bandwidth_utilization")
    for one in found:
        beaten = any(o.x <= one.x and o.y >= one.y and (o.x, o.y) != (one.x, one.y) for o in found)
        assert one.pareto_optimal is not beaten
    with pytest.raises(SweepError, match="unknown which values of tokens are better"):
        design_costs(done, "tokens", "cycles")


@pytest.mark.slow
def test_a_baseline_is_compared_by_the_percentile_that_was_asked_for(done: Path) -> None:
    chosen = parse_assignments("tile=2")
    for row in compare_baseline(done, metric="p95_cycles", baseline=chosen).rows:
        assert row.ratio == pytest.approx(row.after.p95 / row.before.p95)
        assert row.worst is not None
        assert row.least is not None
        assert row.worst >= row.least
    for row in compare_baseline(done, metric="compute_utilization", baseline=chosen).rows:
        assert row.worst is not None
        assert row.least is not None
        assert row.worst <= row.least


@pytest.mark.parametrize("per", [["layer", "layer"], ["channels", "machine.hbm.channels"]])
def test_a_column_is_named_once(done: Path, per: list[str]) -> None:
    with pytest.raises(ArgError, match="are the same column"):
        best(done, per=per)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["compare", "--baseline", "tile=2", "--cost", "channels=1"],
            "--cost: the metric is",
        ),
        (["best", "--cost", "channels=1"], "--cost: the metric is cycles"),
        (["pareto", "--z", "flops", "--cost", "channels=1"], "--cost: none of"),
        (
            ["compare", "--baseline", "tile=2", "--json", "--markdown"],
            "only one can be printed",
        ),
    ],
)
def test_an_option_without_use_is_an_error(
    done: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    command, *options = arguments
    with pytest.raises(SystemExit) as ended:
        main(["sweep", command, str(done), *options])
    assert ended.value.code == 2
    assert message in capfd.readouterr().err


@pytest.mark.slow
def test_the_constraints_of_a_search_hold_on_its_front_too(tmp_path: Path) -> None:
    search: dict[str, Any] = {
        "objectives": ["cycles", "onchip_bytes"], "sampler": "grid", "trials": 4,
    }  # fmt: skip
    free = tune(tiny(search=search), tmp_path / "free")
    bound = sorted(trial.values["cycles"] for trial in free.trials)[1]
    search["constraints"] = [f"cycles <= {bound}"]
    found = tune(tiny(search=search), tmp_path / "bound")
    costs = design_costs(tmp_path / "bound", "cycles", "onchip_bytes")
    assert len(costs.violating) == sum(bool(trial.violated) for trial in found.trials) > 0
    front = {(t.values["cycles"], t.values["onchip_bytes"]) for t in found.front}
    assert {(c.x, c.y) for c in costs if c.pareto_optimal} == front
