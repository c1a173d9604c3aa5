"""Sizing of programs whose converters have one buffer, a feedback that the program over start
times does not know: repair by runs makes up for it."""

from __future__ import annotations

import pytest

from stepsim.design import Choices, block, designed, programs_of, single_buffers
from stepsim.design.choices import Order
from stepsim.design.search.fifo_planning import fifo_plan
from stepsim.design.search.group_sizing import GroupSizing
from stepsim.design.search.profiling import profile
from stepsim.machine import load_machine
from stepsim.simulation import prepare
from tests.design.operators.test_models import SMALL


@pytest.mark.slow
@pytest.mark.parametrize("order", ["reductions_outermost", "tokens_outermost"])
@pytest.mark.parametrize("model", ["gpt2-medium", "gemma-3-1b"])
def test_repaired_depths_reach_the_unbounded_makespan(model: str, order: Order) -> None:
    machine = load_machine("u55c")
    graph = block(model, **{**SMALL[model], "tokens": 32})
    design, _ = designed(graph, Choices(budget=1 << 30, tile=4, unroll=4096, order=order))
    made = single_buffers(design, [edge.name for edge in design.inner_edges if not edge.matched])
    fed_back = [
        edge
        for edge in made.inner_edges
        if not edge.matched and edge.converter.buffers == 1 and edge.converter.reuse > 1
    ]
    assert len(fed_back) > 5
    (program,) = programs_of(made)
    plan = fifo_plan(made, program.group, profile(made, machine), machine)
    sizing = GroupSizing(program, prepare(program.program, machine), plan, 0.0)
    found = sizing.solved("lp", shrink=False).found
    assert found.cycles[0] == sizing.unbounded
    assert found.simulations <= 10
