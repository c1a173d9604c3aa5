"""What the linear program plans before any run repairs it."""

from __future__ import annotations

from functools import cache

import numpy as np
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_stretched_intervals_plan_fewer_places_than_those_of_each_kernel() -> None:
    _, _, group = sizing("prefill")
    planned = [group.planned(method) for method in ("conservative", "lp", "normal")]  # type: ignore[arg-type]
    places = [int(depths.sum()) for depths in planned if depths is not None]
    assert places[0] < places[1] < places[2]


@pytest.mark.slow
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


@pytest.mark.slow
def test_where_planned_depths_do_not_fit_loads_hold_less_ahead() -> None:
    _, planned, group = sizing("decode")
    plan = group.planned("lp")
    assert plan is not None
    assert group.shallow(plan, None) == []
    assert group.shallow(plan, 1 << 40) == []
    tried = group.shallow(plan, 0)
    names = np.array(group.streams)
    loaded = np.isin(names, list(planned.loaded))
    drained = np.isin(names, list(planned.drained))
    assert loaded.any()
    assert drained.any()
    for depths in tried:
        assert (depths <= plan).all()
        assert (depths == plan)[~loaded & ~drained].all()
    found = group.solved("lp", runs=0, room=0)
    assert found.found.cycles[0] <= 1.005 * group.unbounded
    assert found.fifo_bytes <= group.solved("lp", runs=0).fifo_bytes


@pytest.mark.slow
def test_fifos_are_cut_to_the_room_for_them() -> None:
    """Those of loads get less, at the price of cycles; the others keep what they need."""
    _, planned, group = sizing("decode")
    made = group.solved("unbounded")
    loaded = np.isin(np.array(group.streams), list(planned.loaded))
    weights = np.array([group.slots[name] for name in group.names])
    taken = int((made.found.depths * weights)[loaded].sum())
    room = made.fifo_bytes - taken // 2
    cut = group.cut(made, room)
    assert cut is not None
    assert 0.9 * room < cut.fifo_bytes <= room
    assert cut.found.cycles[0] >= made.found.cycles[0]
    assert (cut.found.depths == made.found.depths)[~loaded].all()
    assert group.cut(made, 0) is None
