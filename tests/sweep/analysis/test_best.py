"""The best design per group, designs against a baseline, conditions, costs, percentiles."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.errors import ArgError, SweepError
from stepsim.sweep import best, compare_baseline, design_costs, open_table, read_designs, run_sweep
from tests.cli.conftest import Cli
from tests.sweep.support import TINY, tiny


@pytest.fixture(scope="module")
def rows(done: Path) -> list[dict[str, Any]]:
    designs = read_designs(done)
    return [{**row, **designs[row["design"]]} for row in open_table(done).to_table().to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["cycles", "p95_cycles", "compute_utilization"])
def test_the_best_of_each_layer_and_what_the_others_lose(
    done: Path, rows: list[dict[str, Any]], metric: str
) -> None:
    larger = metric == "compute_utilization"
    column = metric.removeprefix("p95_")

    def value(design: str, layers: set[int]) -> float:
        own = [r[column] for r in rows if r["design"] == design and r["layer"] in layers]
        return float(np.percentile(own, 95) if "p95" in metric else np.mean(own))

    found = best(done, metric, per=["layer"])
    designs = {row["design"]: row["point"] for row in rows}
    overall = sorted(designs, key=lambda d: value(d, {0, 1}), reverse=larger)[0]
    assert found.overall.point == designs[overall]
    for group in found.groups:
        layer = {group.group["layer"]}
        order = sorted(designs, key=lambda d: value(d, layer), reverse=larger)
        assert group.point == designs[order[0]]
        first, second, whole = (value(d, layer) for d in (order[0], order[1], overall))
        assert group.value == pytest.approx(first)
        assert group.loss == pytest.approx(abs(second - first) / first)
        assert group.overall_loss == pytest.approx(abs(whole - first) / first)
    assert [group.group for group in found.groups] == [{"layer": 0}, {"layer": 1}]


def test_where_larger_is_better_a_loss_is_a_fraction_of_the_best_too(
    done: Path, rows: list[dict[str, Any]]
) -> None:
    values = defaultdict(list)
    for row in rows:
        values[row["point"]].append(row["compute_utilization"])
    first, second, *_ = sorted(map(np.mean, values.values()), reverse=True)
    assert best(done, "compute_utilization").overall.loss == pytest.approx(1 - second / first)


def test_what_loses_to_a_best_of_0_has_no_percentage(done: Path, cli: Cli) -> None:
    found = best(done, "padded_flops")
    assert (found.overall.value, found.overall.loss) == (0.0, 0.0)
    padded = best(done, "padded_flops", where="channels == 8")
    assert (padded.overall.value, padded.overall.loss) == (0.0, None)
    shown = cli("sweep", "best", done, "--metric", "padded_flops", "--where", "channels == 8")
    assert shown.out.endswith("; next is tile=2 machine.hbm.channels=8\n\n")


def test_designs_are_compared_with_the_baseline_of_equal_other_axes(
    done: Path, rows: list[dict[str, Any]]
) -> None:
    found = compare_baseline(done, baseline={"tile": "2"}, by=["layer", "step"])
    assert (len(found.rows), found.differing, found.unpaired) == (12, (), ())
    cycles = {
        (r["tile"], r["machine.hbm.channels"], r["layer"], r["step"]): r["cycles"] for r in rows
    }
    seen = defaultdict(int)
    for row in found.rows:
        channels = 8 if "channels=8" in row.label else 32
        assert f"channels={channels}" in row.baseline
        place = (channels, row.group["layer"], row.group["step"])
        assert row.ratio == pytest.approx(cycles["dynamic", *place] / cycles[2, *place])
        seen[channels] += 1
    assert seen == {8: 6, 32: 6}


@pytest.mark.slow
def test_sweeps_whose_constants_differ_are_paired_and_told_apart(done: Path, deeper: Path) -> None:
    found = compare_baseline(done, deeper, by=["layer"])
    assert len(found.rows) == 8
    assert found.differing == ("fifo_depth: 2 in A, 8 in B",)
    assert all(row.label == row.baseline and row.runs == 3 for row in found.rows)
    fixed = compare_baseline(done, deeper, baseline={"tile": "2", "channels": "32"})
    assert {row.baseline for row in fixed.rows} == {"tile=2 machine.hbm.channels=32"}
    assert len(fixed.rows) == 4


@pytest.mark.slow
def test_groups_may_be_of_values_that_are_mappings(tmp_path: Path) -> None:
    models = [{**TINY["model"], "model_dim": size} for size in (64, 32)]
    traces = {"synthetic": {"tokens": 4, "seed": 1}}
    run_sweep(tiny(grid={"tile": [2, "dynamic"], "model": models}, traces=traces), tmp_path)
    for per in (["model"], ["model", "tile"]):
        groups = [one.group for one in best(tmp_path, per=per).groups]
        assert [one["model"] for one in groups[:: len(per)]] == models[::-1]
    rows = compare_baseline(tmp_path, baseline={"tile": "2"}, by=["model"]).rows
    assert [row.group for row in rows] == [{"model": model} for model in models[::-1]]


def test_a_baseline_that_is_missing_is_told_with_what_there_is(done: Path) -> None:
    with pytest.raises(
        SweepError, match=r"no design has tile=4; the values found are tile = 2, dynamic"
    ):
        compare_baseline(done, baseline={"tile": "4"})
    with pytest.raises(ArgError, match=r"unknown name 'tiel'; did you mean 'tile'\?$"):
        compare_baseline(done, baseline={"tiel": "4"})


@pytest.mark.slow
def test_conditions_choose_designs_and_runs(done: Path, rows: list[dict[str, Any]]) -> None:
    found = design_costs(done, "onchip_bytes", "cycles", where="tile in (2, 4) and channels <= 8")
    assert [cost.label for cost in found] == ["tile=2 machine.hbm.channels=8"]
    found = design_costs(done, "onchip_bytes", "cycles", where="layer == 1 or tile == 4")
    assert (len(found), found.traces) == (4, 3)
    assert found.remark == (
        "means over 3 of 6 traces, those on which every design point shown has a run that "
        "satisfies the condition"
    )
    assert {(c.runs, found.all_traces - c.lost) for c in found} == {(3, 3)}
    # Of one tile every run satisfies it, of the others those of a layer, which are compared.
    mixed = design_costs(done, "onchip_bytes", "cycles", where="layer == 1 or tile == 2")
    satisfying = {(c.values["tile"], c.runs, mixed.all_traces - c.lost) for c in mixed}
    assert satisfying == {(2, 3, 6), ("dynamic", 3, 3)}
    for cost in found:
        own = [r["cycles"] for r in rows if r["point"] == cost.point and r["layer"] == 1]
        assert cost.y == pytest.approx(np.mean(own))
    with pytest.raises(SweepError, match="no run that succeeded satisfies 'cycles < 1'"):
        design_costs(done, "onchip_bytes", "cycles", where="cycles < 1")


@pytest.mark.slow
def test_designs_are_compared_by_their_own_values(done: Path) -> None:
    found = design_costs(done, "onchip_bytes", "cycles", "hbm_channels")
    assert [cost.z for cost in found] == [c.values["machine.hbm.channels"] for c in found]
    assert found.title("hbm_channels") == "machine.hbm.channels"
    fewest = min(c.z for c in found if c.z is not None)
    # What is best at the fewest channels stays so, however fast more of them make it.
    same = design_costs(done, "onchip_bytes", "cycles", where=f"channels == {fewest}")
    best = {c.label for c in found if c.z == fewest and c.pareto_optimal}
    assert best == {c.label for c in same if c.pareto_optimal}
    numbers = design_costs(done, "tile", "cycles", where="tile != 'dynamic'")
    assert {cost.x for cost in numbers} == {2.0}
    with pytest.raises(SweepError, match=r"tile of design point 'tile=dynamic.*expected a number"):
        design_costs(done, "tile", "cycles")


def test_percentiles_stand_beside_means_and_can_be_compared(
    done: Path, rows: list[dict[str, Any]]
) -> None:
    found = design_costs(done, "onchip_bytes", "p99_cycles")
    for cost in found:
        own = [row["cycles"] for row in rows if row["point"] == cost.point]
        expected = np.percentile(own, [50, 95, 99])
        assert cost.statistics[1][1:] == pytest.approx(expected)
        assert cost.y == pytest.approx(expected[2])


@pytest.mark.slow
def test_with_a_cost_of_channels_more_of_them_do_not_win_for_free(done: Path) -> None:
    free = design_costs(done, "onchip_bytes", "cycles")
    priced = design_costs(done, "onchip_bytes", "cycles", "cost", weights={"hbm_channels": 1})
    assert {c.z for c in priced} == {8.0, 32.0}
    assert not any("channels=8" in c.label for c in free if c.pareto_optimal)
    assert any("channels=8" in c.label for c in priced if c.pareto_optimal)
    with pytest.raises(ArgError, match="the machine has no section costs"):
        design_costs(done, "cost", "cycles")
    with pytest.raises(ArgError, match="unknown name 'chanels'"):
        design_costs(done, "cost", "cycles", weights={"chanels": 1})


@pytest.mark.slow
def test_the_price_of_a_byte_on_chip_is_for_fifos_too(tmp_path: Path) -> None:
    prices = {"machine.costs.onchip_byte": 2.0}
    grid = {"tile": [2, "dynamic"], "machine.fifo.depth": [3, 6]}
    run_sweep(tiny(grid=grid, parameters={"tile_inter": 32} | prices), tmp_path)
    rows = open_table(tmp_path).to_table().to_pylist()
    found = design_costs(tmp_path, "cycles", "cost")
    for cost in found:
        own = [r for r in rows if r["point"] == cost.point]
        assert all(row["fifo_bytes"] > 0 for row in own)
        expected = [2.0 * (row["onchip_bytes"] + row["fifo_bytes"]) for row in own]
        assert cost.y == pytest.approx(np.mean(expected))
    without = design_costs(tmp_path, "cycles", "cost", weights={"onchip_bytes": 2.0})
    assert all(b.y < a.y for a, b in zip(found, without, strict=True))
