"""What the linear program plans before any run repairs it."""

from __future__ import annotations

from functools import cache

import pytest

import stepsim as st
from stepsim.design.search.fifo_planning import FifoPlan, fifo_plan
from stepsim.design.search.group_sizing import GroupSizing
from stepsim.simulation.programs.simulate import prepare
from tests.design.search.small import SIZES


@cache
def sizing(phase: str) -> tuple[st.design.Plan, FifoPlan, GroupSizing]:
    """Few lanes, so that the work of kernels decides, and FIFOs that pass tiles in vectors."""
    plan = st.compile(
        "gpt2-medium", phase=phase, unroll=64, vectors="narrow", order="reductions_outermost",
        runs=0, **SIZES,
    ).plan  # fmt: skip
    (made,) = plan.programs()
    planned = fifo_plan(plan.graph, made.group, plan.measured, plan.machine)
    return plan, planned, GroupSizing(made, prepare(made.program, plan.machine), planned, 0.005)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_plan_needs_no_repair_where_work_decides(phase: str) -> None:
    plan, _, group = sizing(phase)
    for method in ("lp", "conservative"):
        depths = group.planned(method)  # type: ignore[arg-type]
        assert depths is not None
        run = group.runs.run([depths])[0]
        assert run.status[0] == "ok"
        assert run.cycles[0] <= 1.005 * group.unbounded
    assert plan.predicted is not None
    assert abs(plan.predicted / group.unbounded - 1) < 0.03


def test_stretched_intervals_plan_fewer_places_than_those_of_each_kernel() -> None:
    _, _, group = sizing("prefill")
    planned = [group.planned(method) for method in ("conservative", "lp", "normal")]  # type: ignore[arg-type]
    places = [int(depths.sum()) for depths in planned if depths is not None]
    assert places[0] < places[1] < places[2]


def test_a_tile_in_vectors_takes_a_place_for_each() -> None:
    plan, planned, _ = sizing("prefill")
    depths = planned.depths()
    wide = [edge for edge in plan.graph.inner_edges if edge.vectors > 1]
    assert len(wide) > 10
    assert all(depths[edge.name] % edge.vectors == 0 for edge in wide)


def test_a_shared_converter_is_one_of_the_network() -> None:
    plan, planned, _ = sizing("prefill")
    edges = [edge for edge in plan.graph.inner_edges if not edge.matched]
    apart = [edge for edge in edges if edge.shared is None]
    shared = {(edge.producer, edge.shared) for edge in edges if edge.shared is not None}
    drains = [one.name for one in planned.network.kernels if one.name.endswith("/before drain")]
    assert len(shared) < len(edges) - len(apart)
    assert len(drains) == len(apart) + len(shared)
