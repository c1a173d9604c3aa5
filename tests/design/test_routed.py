"""Experts in operator graphs and their compiled programs: values, costs, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as some

import stepsim as st
from stepsim.design import (
    MOE_MODELS,
    Choices,
    DataflowGraph,
    GraphBuilder,
    OperatorGraph,
    Ref,
    Untyped,
    designed,
    fold_unit_dims,
    fuse_elementwise,
    moe_block,
    place_in_memory,
    programs_of,
    routed_flops,
    routed_parameters,
    vectorize_fifos,
)
from stepsim.errors import ArgError, CompileError, ITensorError
from stepsim.workloads.models import Model
from tests.design.compiled import evaluated, worst
from tests.design.experts import expected, hostile, layer, small_block, values_of
from tests.property_profile import profile
from tests.samples import sampled

ROUTINGS = {
    "each row elsewhere": np.array([[i % 4, (i + 1) % 4] for i in range(12)]),
    "two experts only": np.tile([3, 1], (12, 1)),
    "blocks": np.array([[i // 6, 2 + i // 6] for i in range(12)]),
}


def compiled(
    graph: OperatorGraph, tile: int = 4, budget: int = 1 << 24, **more: Any
) -> DataflowGraph:
    order = more.pop("order", "reductions_outermost")
    choices = Choices(budget=budget, tile=tile, unroll=512, order=order, **more)
    return designed(graph, choices)[0]


@pytest.mark.parametrize("routing", ROUTINGS.values(), ids=list(ROUTINGS))
@pytest.mark.parametrize("router", [True, False])
def test_a_graph_has_the_values_of_numpy(routing: Any, router: bool) -> None:
    graph = layer(router=router)
    values = values_of(graph, routing)
    for one in (graph, fold_unit_dims(fuse_elementwise(graph))):
        found = one.evaluate(values, "float64")["y"]
        np.testing.assert_allclose(found, expected(values, 4), atol=1e-6)


@pytest.mark.parametrize("routing", ROUTINGS.values(), ids=list(ROUTINGS))
@pytest.mark.parametrize("tile", sampled([1, 3, 4, 12], 3))
def test_a_program_has_the_values_of_numpy(routing: Any, tile: int) -> None:
    graph = layer()
    values = values_of(graph, routing)
    found = evaluated(compiled(graph, tile), values)["y"]
    np.testing.assert_allclose(found, expected(values, 4), atol=1e-4)


@pytest.mark.slow
@given(
    some.integers(1, 9), some.integers(1, 5), some.integers(0, 99), some.integers(1, 6), some.data()
)
@profile(16, 1000)
def test_any_layer_has_the_values_of_numpy(
    rows: int, experts: int, seed: int, tile: int, data: Any
) -> None:
    k = data.draw(some.integers(1, experts))
    (routing,) = hostile(rows, experts, k, 1, seed=seed)
    graph = layer(rows, experts, k, width=8, inner=12)
    values = values_of(graph, routing, seed)
    found = evaluated(compiled(graph, tile), values)["y"].reshape(rows, 8)
    np.testing.assert_allclose(found, expected(values, experts), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param({}, id="prefill", marks=pytest.mark.slow),
        pytest.param({"phase": "decode", "tokens": 1, "context": 8}, id="decode"),
        pytest.param({"tokens": 3, "batch": 2}, id="batch"),  # a prefill too
    ],
)
def test_a_block_has_the_values_of_its_graph(sizes: dict[str, Any]) -> None:
    graph = small_block(**sizes)
    rows, k = graph.tensors["routing"].shape
    design = compiled(graph, 8)
    for routing in hostile(rows, 8, k, 3):
        values = values_of(graph, routing)
        assert worst(graph, evaluated(design, values), graph.evaluate(values)) < 1e-4


def test_models_are_those_of_the_workloads() -> None:
    for name, shape in MOE_MODELS.items():
        moe = Model.parse(name).moe
        found = (shape.hidden, shape.inner, shape.experts, shape.active)
        assert found == (moe.model_dim, moe.inner_dim, moe.experts, moe.active)


def test_graphs_survive_json() -> None:
    graph = layer()
    again = OperatorGraph.from_json(graph.to_json())
    assert again.text() == graph.text()
    assert again == graph


@pytest.mark.parametrize("routing", ROUTINGS.values(), ids=list(ROUTINGS))
def test_flops_are_those_of_a_run_without_padding(routing: Any) -> None:
    graph = layer(max_rows=12)
    (group,) = programs_of(compiled(graph, 1))
    bound = group.bindings({"routing": routing})
    cost = routed_flops(graph).at({"routing": routing})
    assert cost == group.program.metrics().bind(bound).flops
    assert cost == st.simulate(group.program, "sda-1024", bindings=bound).flops
    assert cost <= routed_flops(graph).bound <= graph.flops


def test_bounds_of_costs_are_reached() -> None:
    graph = layer(rows=4, experts=4, k=1, max_rows=3)
    flops, parameters = routed_flops(graph), routed_parameters(graph)
    assert flops.at({"routing": np.array([[0], [0], [0], [1]])}) == flops.bound
    assert parameters.at({"routing": np.arange(4)[:, None]}) == parameters.bound == graph.parameters
    one_less = parameters.at({"routing": np.array([[0], [0], [1], [2]])})
    assert parameters.bound - one_less == 3 * 16 * 24
    assert str(parameters).startswith(f"{4 * 16} + {3 * 16 * 24} [n0] + ")
    with pytest.raises(CompileError, match="sends 4 rows to expert 2, but at most 3"):
        flops.at({"routing": np.full((4, 1), 2)})


@pytest.mark.slow
def test_full_size_parameters() -> None:
    found = routed_parameters(moe_block("qwen3-30b-a3b", tokens=1))
    assert found.bound - found.fixed == 8 * 3 * 2048 * 768  # one row reads eight experts


def test_more_rows_than_declared_are_refused() -> None:
    graph = layer(max_rows=8)
    routing = ROUTINGS["two experts only"]
    said = "sends 12 rows to expert 1, but at most 8 are declared"
    with pytest.raises(CompileError, match=said):
        graph.evaluate(values_of(graph, routing))
    (group,) = programs_of(compiled(graph))
    with pytest.raises(CompileError, match=said):
        group.bindings({"routing": routing})
    with pytest.raises(ArgError, match="expert 1 gets 12 rows, but at most 8 are declared"):
        st.simulate(group.program, "sda-1024", bindings={group.routings["routing"]: routing})


@pytest.mark.parametrize("routing", ROUTINGS.values(), ids=list(ROUTINGS))
def test_depths_at_the_declared_maximum_never_deadlock(routing: Any) -> None:
    (group,) = programs_of(compiled(layer(), 3))
    result = st.simulate(group.program, "sda-1024", bindings=group.bindings({"routing": routing}))
    assert result.status == "ok"


def test_streams_of_experts_are_untyped_fifos_of_bounded_size() -> None:
    design = compiled(layer(rows=12, max_rows=8), 4)
    untyped = [edge for edge in design.edges if isinstance(edge.source, Untyped)]
    ends = {(design.kernel(e.producer).op.kind, design.kernel(e.consumer).op.kind) for e in untyped}
    assert ends == {("dispatch", "generic"), ("generic", "generic"), ("generic", "combine")}
    for edge in untyped:
        assert edge.matched
        assert isinstance(edge.target, Untyped)
        assert edge.bytes == 0
        assert edge.fifo_depth == 8 // 4
    for edge in design.edges:
        if edge not in untyped:
            assert not isinstance(edge.target, Untyped)
    assert "untyped<4x16xf32, at most 2 tokens, expert 3 of 'routing'>" in design.text()


def test_untyped_streams_have_no_order() -> None:
    one = Untyped.rows((8, 16), 4, "f32", "routing", 0)
    typed = st.itensor.ITensor.of_loops((8, 16), [(0, 2, 4)], (4, 16), "f32")
    assert (one.element, one.tokens, one.shape) == (typed.element, typed.tokens, typed.shape)
    for question in (
        lambda: st.itensor.matches(one, typed),
        lambda: st.itensor.matches(typed, one),
        lambda: st.itensor.converter(typed, one),
        lambda: st.itensor.converter(one, one),
        one.offsets,
        one.normal_form,
    ):
        with pytest.raises(ITensorError, match="untyped<4x16xf32, at most 2 tokens"):
            question()


def test_passes_over_fifos_leave_untyped_ones_as_they_are() -> None:
    graph = layer()
    routing = ROUTINGS["blocks"]
    values = values_of(graph, routing)
    design = compiled(graph, 4, vectors="narrow", folded=True)
    kinds = {isinstance(e.source, Untyped): (e.vector is not None) for e in design.edges}
    assert kinds == {True: False, False: True}
    assert not any(e.folded for e in design.edges if isinstance(e.source, Untyped))
    np.testing.assert_allclose(evaluated(design, values)["y"], expected(values, 4), atol=1e-4)
    name = next(edge.name for edge in design.edges if isinstance(edge.source, Untyped))
    with pytest.raises(CompileError, match="is untyped and passes whole tiles"):
        vectorize_fifos(design, {name: (1, 4)})


def test_buffers_of_experts_are_placed_in_memory() -> None:
    machine = st.load_machine("u55c")
    assert machine.device is not None
    placed, allocations = place_in_memory(compiled(layer(), 4), machine.device)
    assert all(edge.memory for edge in placed.edges if isinstance(edge.source, Untyped))
    assert len(allocations) == 1


def test_untyped_streams_never_leave_a_group() -> None:
    design = compiled(small_block(), 8, budget=0, fusion="greedy")
    assert len(design.groups) > 1
    for edge in design.edges:
        if isinstance(edge.source, Untyped):
            assert design.on_chip(edge)
    routing = hostile(8, 8, 2, 1)[0]
    graph = small_block()
    values = values_of(graph, routing)
    assert worst(graph, evaluated(design, values), graph.evaluate(values)) < 1e-4


def builder() -> tuple[GraphBuilder, Ref, Ref, tuple[Ref, ...]]:
    b = GraphBuilder("wrong", dtype="f32")
    x, routing = b.input("x", (6, 8)), b.routing("routing", 6, 1)
    return b, x, routing, b.dispatch(x, routing, 2)


def test_rows_of_experts_do_not_mix() -> None:
    b, x, _, rows = builder()
    b.output(b.add(rows[0], x), "y")
    with pytest.raises(
        CompileError, match="'x' has all its rows, but is read along d0, which runs"
    ):
        b.graph()
    b, _, _, rows = builder()
    b.output(b.add(rows[0], rows[1]), "y")
    with pytest.raises(CompileError, match=r"rows of expert 0 .* has rows of expert 1"):
        b.graph()


def test_rows_of_experts_are_not_added_up_cut_or_stored() -> None:
    b, _, _, rows = builder()
    b.output(b.sum(rows[0], 0), "y")
    with pytest.raises(CompileError, match="merges or adds up rows of expert 0 by 'routing'"):
        b.graph()
    for reduced in (lambda b, x: b.sum(x, -1), lambda b, x: b.softmax(x)):
        b, _, _, rows = builder()
        b.output(reduced(b, rows[0]), "y")
        with pytest.raises(
            CompileError,
            match=r"operator '(sum|softmax.max)' .*a number for each of rows of expert 0 by "
            r"'routing'.*found no columns; reduce rows before dispatch or after combine",
        ):
            b.graph()
    b, _, _, rows = builder()
    b.output(b.slice(b.silu(rows[0]), 0, 0, 3), "y")
    with pytest.raises(
        CompileError, match="does not read rows of expert 0 by 'routing', at most 6"
    ):
        b.graph()
    b, _, _, rows = builder()
    b.output(b.silu(rows[0]), "y")
    with pytest.raises(CompileError, match="output 'y' has rows of expert 0"):
        b.graph()


def test_experts_are_combined_in_their_order() -> None:
    b, _, routing, rows = builder()
    weights = b.input("weights", (6, 1))
    b.output(b.combine((b.silu(rows[1]), b.silu(rows[0])), weights, routing), "y")
    with pytest.raises(CompileError, match=r"has rows of expert 1 .* expected rows of expert 0"):
        b.graph()


def test_what_is_made_on_chip_is_not_read_for_each_tile() -> None:
    b, _, routing, rows = builder()
    gain = b.exp(b.input("gain", (8,)))
    b.output(b.combine([b.mul(r, gain) for r in rows], b.input("weights", (6, 1)), routing), "y")
    with pytest.raises(CompileError, match="made on the chip and would be read once for each tile"):
        compiled(b.graph())


def test_tiles_of_rows_agree() -> None:
    graph = layer()
    with pytest.raises(
        CompileError,
        match="but the tile of m is 2; use the same tile for all operators of 'routing'",
    ):
        compiled(graph, 4, tiles={"moe.expert1.linear": {"m": 2}})
    with pytest.raises(CompileError, match="dim 'd1' of generic stays whole"):
        compiled(graph, 4, tiles={"moe.expert1.mul": {"d1": 4}})
    with pytest.raises(CompileError, match="the loop m runs over rows that a routing chooses"):
        compiled(graph, 4, orders={"moe.expert1.linear": ("n", "m", "k")})


@pytest.mark.parametrize(
    ("entry", "said"),
    [(4, "is 4, which is not an expert"), (0.5, "is 0.5"), (1, "names an expert twice")],
)
def test_routings_name_experts(entry: float, said: str) -> None:
    routing = np.tile(np.array([0.0, 1.0]), (12, 1))
    routing[5, 0] = entry
    graph = layer()
    with pytest.raises(CompileError, match=said):
        graph.evaluate(values_of(graph, routing))


def test_builder_refuses_what_does_not_fit() -> None:
    b, x, routing, _ = builder()
    with pytest.raises(CompileError, match="2 experts of at most 2 rows cannot take the 6 rows"):
        b.dispatch(x, routing, 2, 2)
    with pytest.raises(CompileError, match="max_rows is 7"):
        b.dispatch(x, routing, 2, 7)
    with pytest.raises(CompileError, match="both given or both missing"):
        b.moe(x, routing, [x], [x], [x])
    with pytest.raises(CompileError, match="no experts; use block"):
        moe_block("gpt2-medium")
