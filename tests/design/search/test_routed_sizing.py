"""FIFOs of designs with experts, sized over routings and run with others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.design import (
    Untyped,
    compile,
    programs_of,
    size_over_traces,
)
from stepsim.design.choices import Choices, Order
from stepsim.design.passes.pipeline import designed
from stepsim.design.programs.group_program import GroupProgram
from stepsim.design.search.routed_sizing import covering_traces, latest_trace
from stepsim.errors import CompileError
from stepsim.reproduce import fifo_table
from stepsim.simulation import prepare
from stepsim.trace_io import read_routing, synthetic_routing, write_routing
from tests.design.experts import hostile, layer, small_block, values_of

SKEWS = (0.0, 1.0, 2.0, 8.0, 64.0)


def synthetic(rows: int, experts: int, k: int, count: int, most: int | None = None) -> list[Any]:
    """Routing tables from even to extreme."""
    found: list[Any] = []
    seed = 0
    while len(found) < count:
        one = synthetic_routing(rows, experts, k, seed=seed, skew=SKEWS[seed % len(SKEWS)])
        seed += 1
        if most is None or np.bincount(one.experts.ravel()).max() <= most:
            found.append(one)
    return found


def program(
    rows: int, experts: int, k: int, most: int, tile: int, order: Order = "reductions_innermost"
) -> GroupProgram:
    """A layer whose router takes row after row, or (reductions outermost) all rows at once."""
    graph = layer(rows, experts, k, inner=8, max_rows=most)
    design, _ = designed(graph, Choices(budget=1 << 24, tile=tile, unroll=4096, order=order))
    (group,) = programs_of(design)
    return group


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "experts", "k", "most", "tile", "traces"),
    [
        pytest.param(32, 4, 1, 32, 4, 60, marks=pytest.mark.slow),
        pytest.param(64, 4, 2, 64, 4, 24, marks=pytest.mark.slow),
        pytest.param(48, 8, 2, 24, 8, 24, marks=pytest.mark.slow),
        (12, 3, 3, 12, 4, 24),
    ],
)
def test_no_routing_deadlocks_and_those_of_the_set_are_fast(
    rows: int, experts: int, k: int, most: int, tile: int, traces: int
) -> None:
    group = program(rows, experts, k, most, tile)
    odd = traces // 6
    given = synthetic(rows, experts, k, traces - odd, most)
    given += hostile(rows, experts, k, odd, most=most)
    sizes = size_over_traces(group, given, "sda-1024")
    own = sizes.tried(sizes.traces)
    assert len(own.cycles) >= traces
    assert own.deadlocks == 0
    assert own.slowdown <= 0.005
    assert sizes.guaranteed
    others = sizes.tried(hostile(rows, experts, k, 200, seed=1, most=most))
    assert others.deadlocks == 0


@pytest.mark.slow
def test_depths_for_one_routing_deadlock_others_which_the_guard_excludes() -> None:
    group = program(64, 4, 1, 64, 4)
    seen, others = covering_traces(64, 1, 4), hostile(64, 4, 1, 200)
    bare = size_over_traces(group, seen, "sda-1024", guard=False)
    assert bare.tried(seen).deadlocks == 0
    assert not bare.guaranteed
    assert bare.tried(others).deadlocks > 100
    guarded = size_over_traces(group, seen, "sda-1024")
    assert guarded.guaranteed
    assert guarded.tried(others).deadlocks == 0
    (cover,) = seen
    one_sided = size_over_traces(group, [np.zeros((64, 1), np.int64)], "sda-1024")
    assert any(np.array_equal(one, cover) for one in one_sided.traces)
    assert one_sided.tried(others).deadlocks == 0
    # What is held is not enough: the residual waits for rows of rarely chosen experts.
    latest = latest_trace(64, 1, 4, 64)
    assert latest is not None
    held = prepare(group.program, "sda-1024").changed(fifo_depths={**bare.depths, **guarded.held})
    (table,) = group.routings.values()
    assert held.run({table: latest}).status == "deadlock"
    assert held.run({table: seen[0]}).status == "ok"


@pytest.mark.long
def test_traces_alone_do_not_replace_what_is_held() -> None:
    """Where the router takes all rows first, rows of experts wait for their weights."""
    group = program(64, 4, 1, 64, 2, "reductions_outermost")
    guarded = size_over_traces(group, covering_traces(64, 1, 4), "sda-1024")
    bare = size_over_traces(group, guarded.traces, "sda-1024", guard=False)
    others = hostile(64, 4, 1, 200)
    assert bare.tried(guarded.traces).deadlocks == 0
    assert bare.tried(others).deadlocks > 0
    assert guarded.tried(others).deadlocks == 0


@pytest.mark.slow
def test_no_guarantee_where_the_maximum_leaves_no_room_for_the_latest_trace() -> None:
    assert latest_trace(8, 2, 4, 4) is None
    group = program(8, 4, 2, 4, 4)
    assert not size_over_traces(group, covering_traces(8, 2, 4), "sda-1024").guaranteed


@pytest.mark.parametrize(("rows", "k", "experts"), [(8, 2, 4), (3, 1, 7), (5, 4, 4), (1, 2, 9)])
def test_covering_traces_have_each_expert(rows: int, k: int, experts: int) -> None:
    made = covering_traces(rows, k, experts)
    assert set(np.concatenate(made).ravel()) == set(range(experts))
    for one in made:
        assert all(len(set(row)) == k for row in one.tolist())


@pytest.mark.parametrize(
    ("rows", "k", "experts", "most"), [(8, 2, 4, 6), (6, 1, 3, 6), (4, 3, 3, 4)]
)
def test_latest_traces_are_routings(rows: int, k: int, experts: int, most: int) -> None:
    one = latest_trace(rows, k, experts, most)
    assert one is not None
    assert one.shape == (rows, k)
    assert all(len(set(row)) == k for row in one.tolist())
    assert np.bincount(one.ravel()).max() <= most
    if k < experts:
        assert np.argwhere(one == 0).tolist() == [[0, 0]]


@pytest.mark.long
def test_a_block_is_compiled_over_traces_by_the_same_passes() -> None:
    graph = small_block(tokens=8, experts=4, max_rows=8)
    traces = synthetic(8, 4, 2, 6)
    made = compile(graph, traces=traces, tile=4, unroll=1024, placed=False)
    assert [one.name for one in made.passes] == [
        "fold_unit_dims", "fuse_elementwise", "tile", "unroll", "permute", "kernels_of",
        "share_converters", "fuse_kernels", "pack", "widen",
    ]  # fmt: skip
    (group,), (planned,) = made.programs, made.plan.groups
    sizes = size_over_traces(group, traces)
    assert planned.guaranteed
    assert sizes.depths == planned.depths
    assert sizes.tried(traces).deadlocks == 0
    assert sizes.tried(traces).slowdown <= 0.005
    for edge in made.plan.graph.edges:
        assert edge.depth is not None
        if isinstance(edge.source, Untyped):
            assert edge.depth <= edge.source.tokens
    # The depths of the design are those of the runs: between kernels all streams have theirs.
    (again,) = programs_of(made.plan.graph)
    bound = {"routing": traces[0].experts}
    result = st.simulate(again.program, "u55c", bindings=again.bindings(bound))
    assert result.status == "ok"
    assert set(values_of(graph, traces[0].experts)) >= {"x", "routing"}


@pytest.mark.slow
def test_traces_come_from_files(tmp_path: Path) -> None:
    group = program(12, 4, 2, 12, 4)
    drawn = synthetic_routing(12, 4, 2, seed=3, skew=2.0)
    write_routing([drawn], tmp_path / "routing.parquet")
    sizes = size_over_traces(group, read_routing(tmp_path / "routing.parquet"), "sda-1024")
    assert sizes.tried([drawn]).cycles == sizes.tried([drawn.experts]).cycles
    assert any(np.array_equal(one, drawn.experts) for one in sizes.traces)


def refused(traces: Any, said: str) -> None:
    with pytest.raises(CompileError, match=said):
        size_over_traces(program(8, 4, 2, 6, 4), traces, "sda-1024")


@pytest.mark.slow
def test_traces_fit_the_model() -> None:
    refused([np.zeros((4, 2), int)], "has shape \\(4, 2\\), expected \\(8, 2\\)")
    refused([np.tile([0, 1], (8, 1))], "sends 8 rows to expert 0, but at most 6")
    refused(3, "traces are 3; give index arrays")
    with pytest.raises(CompileError, match="has no experts; leave traces out"):
        compile("qwen2.5-0.5b", traces=[], hidden=64, inner=64, heads=2, head_dim=32)


def test_compile_says_where_experts_are_compiled() -> None:
    with pytest.raises(CompileError, match=r"has experts, .* give traces="):
        compile(layer(), "u55c")
    traces = synthetic(8, 4, 2, 2)
    with pytest.raises(
        CompileError, match=r"has experts, on whose designs it has no effect; leave shrink out"
    ):
        compile(layer(), "u55c", traces=traces, shrink=False)


@pytest.mark.long
def test_compile_takes_traces_and_its_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"tokens": 8, "hidden": 32, "inner": 16, "heads": 4, "kv_heads": 2,
                             "head_dim": 8, "experts": 4, "active": 2}  # fmt: skip
    traces = synthetic(8, 4, 2, 2)
    plan = compile("qwen3-30b-a3b", tile=4, unroll=1024, traces=traces, **sizes).plan
    assert st.design.Plan.from_yaml(plan.to_yaml()) == plan
    (group,) = plan.groups
    assert (plan.status, group.guaranteed) == ("ok", True)
    assert group.routings > 2
    (made,) = plan.programs()
    for one in traces:
        bound = made.bindings({"routing": one.experts})
        run = st.simulate(made.program, "u55c", bindings=bound, fifo_depth=group.depths)
        assert run.status == "ok"
        assert run.cycles <= (group.simulated or 0)
    with pytest.raises(CompileError, match="has experts, whose untyped streams"):
        fifo_table(st.design.Compiled(plan))
