"""Searches of compiled designs: what they cost, what cannot be had, and how many they take."""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any

import pytest

import stepsim as st
from stepsim.design import Choices, CompiledModel, designed
from stepsim.design.operators.models.blocks import block
from stepsim.design.search.profiling import profile
from stepsim.machine import load_machine
from stepsim.sweep import open_table, tune
from stepsim.sweep.search.proposals import make_proposals
from stepsim.sweep.search.space import Space
from stepsim.workloads import ParameterError
from tests.design.search.small import SIZES
from tests.samples import sampled

PAGE = Path(__file__).parents[3] / "docs" / "compile-dse.md"


def spec(grid: dict[str, Any], **search: Any) -> dict[str, Any]:
    """A search over the small copy."""
    return {
        "workload": "compiled",
        "machine": "u55c",
        "parameters": {"phase": "decode", "shrink": False, **SIZES},
        "grid": grid,
        "search": {"objectives": ["cycles"], "sampler": "random", "batch": 4, **search},
    }


@pytest.mark.long
@pytest.mark.parametrize("budget", sampled([600, 41_000_000], 600))
def test_a_design_takes_what_the_plan_says(budget: int) -> None:
    case = st.simulation.make_case("compiled", phase="decode", budget=budget, **SIZES)
    plan = st.compile("gpt2-medium", phase="decode", budget=budget, shrink=False, **SIZES).plan
    data = st.workloads.Data()
    done = case.run(data)
    found = case.measures(done, data)
    groups = [
        st.simulation.make_case("compiled", phase="decode", budget=budget, group=number, **SIZES)
        for number in range(len(plan.groups))
    ]
    alone = [one.measures(one.run(data), data) for one in groups]
    assert found["cycles"] == plan.simulated == sum(one["cycles"] for one in alone)
    for name in ("offchip_bytes", "flops", "tokens", "memory_requests"):
        assert found[name] == sum(one[name] for one in alone)
    for name in ("onchip_bytes", "allocated_flops_per_cycle"):
        assert found[name] == max(one[name] for one in alone)
    used = found["flops"] / found["cycles"] / found["allocated_flops_per_cycle"]
    assert found["compute_utilization"] == pytest.approx(used)
    if len(groups) > 1:
        with pytest.raises(st.errors.ArgError, match="programs run one after another"):
            case.result(data)


@pytest.mark.slow
def test_what_cannot_be_compiled_comes_back_with_its_reason(tmp_path: Path) -> None:
    grid = {"unroll": [4, 512], "machine.device.uram_blocks": [0, 960],
            "machine.device.bram_blocks": [0], "machine.device.lutram_blocks": [10]}  # fmt: skip
    found = tune(spec(grid, trials=4), tmp_path / "out")
    reasons = {(t.design["unroll"], t.design["machine.device.uram_blocks"]): t.failure
               for t in found.trials}  # fmt: skip
    assert "an unroll budget of 4 is less than" in reasons[4, 960]
    assert "do not fit" in reasons[512, 0] or "does not fit" in reasons[512, 0], reasons
    assert not reasons[512, 960]
    assert [t.design["unroll"] for t in found.front] == [512]
    rows = open_table(tmp_path / "out", "failures").to_table().to_pylist()
    assert {row["message"] for row in rows if row["stage"] == "build"} == {
        reason.partition(": ")[2] for reason in reasons.values() if reason
    }


@pytest.mark.long
def test_a_search_goes_on_where_it_ended(tmp_path: Path) -> None:
    grid = {"tile": [8, 16, 32], "unroll": [64, 512], "budget": [0, 10_000]}
    tune(spec(grid, trials=4), tmp_path / "parts")
    more = tune(spec(grid, trials=8), tmp_path / "parts", resume=True)
    whole = tune(spec(grid, trials=8), tmp_path / "whole")
    assert more.computed == 4
    assert [(t.design, t.values) for t in more.trials] == [
        (t.design, t.values) for t in whole.trials
    ]


def test_a_workload_of_the_page_is_compiled(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (tmp_path / "mlp.py").write_text(code)
    case = st.simulation.make_case(tmp_path / "mlp.py:Mlp", width=128, tile=8)
    assert case.machine.name == "u55c"
    assert case.run(st.workloads.Data()).flops > 2 * 16 * 32 * 128


@pytest.mark.slow
def test_designs_that_cannot_be_had_steer_the_search() -> None:
    grid = {"tile": list(range(12)), "unroll": list(range(12))}
    space = Space.of(grid)

    def share(sampler: Any, seed: int) -> float:
        proposals = make_proposals(sampler, space, 1, seed=seed, batch=8)
        bad = 0
        for turn in range(8):
            for place in proposals.batch(8):
                wrong = place[0] < 4
                bad += wrong and turn >= 4
                proposals.learn(place, None if wrong else [1.0 + place[0]])
        return bad / 32

    mean = {
        sampler: statistics.fmean(share(sampler, seed) for seed in range(5))
        for sampler in ("random", "tpe", "nsga2")
    }
    assert mean["random"] == pytest.approx(1 / 3, abs=0.1)
    assert max(mean["tpe"], mean["nsga2"]) < mean["random"], mean
    assert mean["nsga2"] < mean["random"] / 2, mean


def imbalance(unroll: int) -> float:
    """Cycles of the slowest product over those of the median one."""
    machine = load_machine("u55c")
    graph = block("gpt2-medium", phase="prefill", dtype="i8", weight_dtype="i4", **SIZES)
    design, _ = designed(
        graph, Choices(budget=41_000_000, unroll=unroll, order="reductions_outermost")
    )
    alone = profile(design, machine)
    lengths = [
        alone[kernel.name].length
        for kernel in design.kernels
        if kernel.op.combine == "sum" and kernel.op.body == ("mul", ("arg", 0), ("arg", 1))
    ]
    assert len(lengths) >= 8
    return max(lengths) / statistics.median(lengths)


@pytest.mark.slow
def test_unrolling_balances_the_products() -> None:
    graph = block("gpt2-medium", phase="prefill", **SIZES)
    choices = Choices(budget=41_000_000, order="reductions_outermost")
    least = len(designed(graph, choices)[0].kernels)
    before = imbalance(least)
    for lanes in (256, 1024, 4096):
        assert imbalance(lanes) <= before, lanes


def test_a_model_that_cannot_be_is_refused_before_it_is_run(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="heads"):
        CompiledModel.of(heads=3, kv_heads=2).checked(st.workloads.Data())
    wrong = spec({"tile": [8]}, trials=1)
    wrong["parameters"] = {"heads": 3, "kv_heads": 2}
    with pytest.raises(st.errors.SweepError, match="heads"):
        tune(wrong, tmp_path / "out")
