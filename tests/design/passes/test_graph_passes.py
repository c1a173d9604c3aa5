"""Passes keep values, and do what they are for."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from stepsim.design import (
    MODELS,
    GraphBuilder,
    OperatorGraph,
    Tiling,
    block,
    border_dmas,
    fold_buffers,
    fold_unit_dims,
    fuse_elementwise,
    fuse_kernels,
    kernels_of,
    pack,
    permute,
    place_in_memory,
    place_on_dies,
    program_of,
    programs_of,
    share_converters,
    single_buffers,
    tile,
    unroll,
    vectorize_fifos,
    widen,
)
from stepsim.errors import ArgError, StepSimError
from stepsim.machine import load_machine
from tests.design.random_graphs import Drawn, drawn_graphs
from tests.property_profile import profile


def _agree(graph: OperatorGraph, values: dict[str, Any], expected: dict[str, Any]) -> None:
    found = graph.evaluate(values, "float64")
    for name, value in expected.items():
        wanted = np.asarray(value).reshape(found[name].shape)
        np.testing.assert_allclose(found[name], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@given(drawn_graphs())
@profile(200)
def test_the_builder_means_what_numpy_computes(drawn: Drawn) -> None:
    graph = drawn.graph
    for name, value in drawn.expected.items():
        assert graph.tensors[name].shape == np.shape(value)
    _agree(graph, drawn.values, drawn.expected)
    assert OperatorGraph.from_json(graph.to_json()) == graph


@pytest.mark.slow
@given(drawn_graphs())
@profile(100)
def test_passes_keep_all_values(drawn: Drawn) -> None:
    graph = drawn.graph
    folded, fused = fold_unit_dims(graph), fuse_elementwise(graph)
    for made in (folded, fused, fuse_elementwise(folded), fold_unit_dims(fused)):
        _agree(made, drawn.values, drawn.expected)
        assert made.flops <= graph.flops
    assert fold_unit_dims(folded) == folded
    assert fuse_elementwise(fused) == fused
    assert not any(dim.size == 1 for op in folded.ops if op.kind == "generic" for dim in op.dims)


def test_unit_dims_of_decoding_are_gone() -> None:
    graph = fold_unit_dims(block("gpt2-medium", "decode"))
    assert min(size for tensor in graph.tensors.values() for size in tensor.shape) > 1
    assert min(dim.size for op in graph.ops for dim in op.dims) > 1
    assert graph.tensors["x"].shape == (1024,)
    assert str(graph.op("attn.q.linear")) == (
        "attn.q.linear[n] += attn.attn_norm.layer_norm.scaled[k] * q.weight[n, k] "
        "over n 1024, sum k 1024"
    )


def test_what_a_structured_operator_needs_stays() -> None:
    b = GraphBuilder("units")
    x, rows = b.input("x", (1, 1)), b.input("rows", (1,), "u32")
    b.output(b.concat([x], 0), "joined")
    b.output(b.causal_mask(x), "masked")
    b.output(b.embedding(rows, b.weight("table", (1, 3))), "row")
    graph = b.graph()
    values = {"x": [[2.0]], "rows": [0], "table": [[1, 2, 3]]}
    folded = fold_unit_dims(graph)
    assert folded.op("causal_mask").attributes["query"] is None
    found = folded.evaluate(values)
    assert [found[name].tolist() for name in ("joined", "masked", "row")] == [[2], [2], [1, 2, 3]]


def test_loops_that_were_tiled_stay_tiled() -> None:
    b = GraphBuilder("tiled")
    b.output(b.linear(b.input("x", (1, 8)), b.weight("w", (4, 8))), "y")
    (op,) = b.graph().ops
    tiled = replace(op, tiling=Tiling({"m": 1, "n": 2}, ("k", "m", "n"), 4))
    folded = fold_unit_dims(b.graph().replaced(ops=(tiled,)))
    assert folded.ops[0].tiling == Tiling({"n": 2}, ("k", "n"), 4)


@pytest.mark.parametrize("model", MODELS)
def test_fusion_takes_operators_out_of_the_blocks(model: str) -> None:
    graph = block(model)
    fused = fuse_elementwise(graph)
    gone = {op.name for op in graph.ops} - {op.name for op in fused.ops}
    if model == "gpt2-medium":  # biases into the activation and the residual sums
        assert gone == {"attn.o.bias", "mlp.up.bias", "mlp.down.bias"}
    elif model == "gemma-3-1b":
        assert gone == {
            "post_attn_norm.rms_norm.scaled", "post_mlp_norm.rms_norm.scaled", "mlp.gelu_tanh",
        }  # fmt: skip
    else:
        assert gone == {"mlp.silu"}
    assert fused.flops == graph.flops
    assert fused.intermediate_bytes < graph.intermediate_bytes


def test_fusion_does_not_compute_anything_twice() -> None:
    b = GraphBuilder("kept")
    x = b.input("x", (4, 6))
    twice = b.silu(x)  # two readers
    b.output(b.add(twice, b.square(twice)), "sum")
    b.output(b.linear(b.exp(x), b.weight("w", (5, 6))), "product")  # each value 5 times
    kept = b.output(b.apply("neg", x), "kept")  # goes off chip
    b.output(b.square(kept), "more")
    names = [op.name for op in fuse_elementwise(b.graph()).ops]
    assert names == ["silu", "add", "exp", "linear", "neg", "square_2"]


def test_fusion_goes_through_views_and_into_reductions() -> None:
    b = GraphBuilder("views")
    x = b.input("x", (4, 6))
    heads = b.reshape(b.square(x), (4, 2, 3))
    b.output(b.sum(b.permute(heads, (1, 0, 2))), "y")
    (op,) = fuse_elementwise(b.graph()).ops
    assert str(op) == "y[d0, d1] += square(x[d1, 3*d0 + d2]) over d0 2, d1 4, sum d2 3"
    values = {"x": np.arange(24.0).reshape(4, 6)}
    expected = (values["x"] ** 2).reshape(4, 2, 3).sum(2).T
    _agree(fuse_elementwise(b.graph()), values, {"y": expected})


def test_a_fused_operator_stands_for_both_places() -> None:
    b = GraphBuilder("places")
    x = b.input("x", (4,))
    with b.at("first", "model.py:1"):
        y = b.silu(x)
    with b.at("second", "model.py:2"):
        b.output(b.square(y), "y")
    (op,) = fuse_elementwise(b.graph()).ops
    assert op.where == "first (model.py:1); second (model.py:2)"
    assert op.flops == 4 * (8 + 1)


DEVICE = load_machine("u55c").device
OF_OPERATORS = (fold_unit_dims, fuse_elementwise, tile, partial(unroll, budget=64), permute)
OF_KERNELS = (
    share_converters, border_dmas, pack, widen, vectorize_fifos, fold_buffers, single_buffers,
    partial(fuse_kernels, budget=4096), partial(place_in_memory, device=DEVICE),
    partial(place_on_dies, device=DEVICE), programs_of, program_of,
)  # fmt: skip


def test_passes_tell_which_graph_they_are_of() -> None:
    operators = tile(block("gpt2-medium", tokens=16))
    kernels = kernels_of(operators)
    for one in OF_OPERATORS:
        with pytest.raises(ArgError, match="must be an OperatorGraph, found DataflowGraph"):
            one(kernels)
    for other in OF_KERNELS:
        with pytest.raises(StepSimError, match=r"must be a DataflowGraph|make its kernels first"):
            other(operators)
    assert pickle.loads(pickle.dumps(kernels)) == kernels
