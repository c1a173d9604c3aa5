"""Designs checked against their models in one line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.design import GraphBuilder
from stepsim.design.plan import checking
from stepsim.errors import ArgError, CompileError
from stepsim.trace_io import synthetic_routing
from tests.design.experts import small_block

SIZES = {"hidden": 32, "inner": 32, "heads": 2, "kv_heads": 1, "head_dim": 8}
QUICK: dict[str, Any] = {"shrink": False, "order": "reductions_innermost", "predict": False}


@pytest.fixture(scope="module")
def compiled() -> st.design.Compiled:
    return st.compile("tinyllama-1.1b", **SIZES, **QUICK)


@pytest.mark.slow
def test_values_of_a_design_are_those_of_its_model(compiled: st.design.Compiled) -> None:
    found = compiled.check(seed=4)
    assert found.ok
    assert 0 < found.error < 1e-6
    assert found.against == ("the operator graph",)
    assert found.compared == 16 * (32 + 8 + 8)
    assert "agree with the operator graph" in str(found)
    assert "seed 4" in str(found)
    assert compiled.check(seed=4) == found
    assert compiled.check(seed=5).error != found.error


@pytest.mark.slow
def test_a_wrong_value_is_found_with_its_place(
    compiled: st.design.Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = checking.run_functional

    def wrong(*args: Any, **named: Any) -> Any:
        result = run(*args, **named)
        stored = {name: np.array(array) for name, array in result.stored.items()}
        name = next(name for name in stored if name.startswith("y"))
        stored[name].reshape(-1)[5] += 3.0
        return replace(result, stored=stored)

    monkeypatch.setattr(checking, "run_functional", wrong)
    found = compiled.check()
    assert not found.ok
    assert found.where.startswith("y[")
    assert "DO NOT AGREE" in str(found)
    assert compiled.check(tolerance=0.999).ok


def test_a_large_model_is_checked_on_a_smaller_copy(
    compiled: st.design.Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "_COPY", {**checking._COPY, "hidden": 16, "inner": 16})
    tiles = sum(kernel.firings for kernel in compiled.plan.graph.kernels)
    monkeypatch.setattr(checking, "MOST_TILES", tiles - 1)
    found = compiled.check()
    assert found.ok
    assert found.copy["hidden"] == 16
    assert "a smaller copy (hidden 16" in str(found)
    with pytest.raises(CompileError, match="only models that are named have smaller copies"):
        st.design.Compiled(compiled.plan).check()


@pytest.mark.slow
def test_plans_of_files_are_checked_against_their_own_operators(
    compiled: st.design.Compiled,
) -> None:
    read = st.design.Plan.from_yaml(compiled.plan.to_yaml())
    assert st.design.Compiled(read).check().ok


def test_groups_and_their_intermediates_are_checked() -> None:
    b = GraphBuilder("network", "i8", "i4")
    x = b.input("x", (16, 32))
    up = b.gelu(b.linear(x, b.weight("up", (64, 32))))
    b.output(b.linear(up, b.weight("down", (32, 64))), "y")
    made = st.compile(b.graph(), budget=0, fit=False, **QUICK)
    found = made.check()
    assert len(made.programs) > 1
    assert found.ok
    assert found.compared > 16 * 32


@pytest.mark.long
def test_experts_are_checked_with_a_drawn_routing() -> None:
    graph = small_block()
    rows, active = graph.tensors["routing"].shape
    trace = synthetic_routing(rows, 4, active, seed=1)
    made = st.compile(graph, traces=[trace], tile=4, unroll=1024)
    found = made.check()
    assert found.ok
    assert found.compared > 0


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"seed": -1}, "seed is -1; use a whole number from 0"),
        ({"tolerance": 0.0}, "tolerance is 0.0; use a number above 0"),
        ({"tolerance": 1.0}, "tolerance is 1.0; use a number above 0, below 1"),
    ],
)
def test_mistakes_are_reported(
    compiled: st.design.Compiled, named: dict[str, Any], said: str
) -> None:
    with pytest.raises(ArgError) as caught:
        compiled.check(**named)
    assert said in str(caught.value)


@pytest.mark.torch
def test_results_of_pytorch_are_compared_too() -> None:
    import torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 8))
    made = st.compile((module.eval(), (torch.randn(16, 16),)), **QUICK)
    found = made.check()
    assert found.ok
    assert found.against == ("the operator graph", "PyTorch")


def test_infinities_hide_no_error() -> None:
    """As masked scores have them: the largest finite value is the scale."""
    wanted = np.array([2.0, -np.inf, 1.0, -np.inf])
    assert checking._error("y", wanted, wanted)[0] == 0.0
    assert checking._error("y", np.array([1.0, -np.inf, 1.0, -np.inf]), wanted)[0] == 0.5
    for given in ([2.0, np.inf, 1.0, -np.inf], [2.0, 3.0, 1.0, -np.inf], [np.nan, *wanted[1:]]):
        error, where = checking._error("y", np.array(given), wanted)
        assert error == 1.0
        assert where.startswith(f"y[{int(np.isnan(given[0]) == 0)}]")
    assert checking._error("y", np.array([np.inf]), np.array([0.0]))[0] == 1.0
