"""Nodes of ONNX that are allowed and rare: random numbers, bodies, no-ops, unreadable records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepsim.design.operators.importers import from_onnx
from stepsim.errors import CompileError
from tests.design.operators.example_models import require_onnx
from tests.design.operators.test_onnx_import import agrees, model_of

pytestmark = pytest.mark.torch

HALVES = {"c": np.full(4, 0.5, np.float32)}
DROPS = {"ratio": np.float32(0.5), "training": np.array(True)}


@pytest.fixture
def onnx() -> Any:
    return require_onnx()


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "why"),
    [
        ("RandomNormal", [], {"shape": [4]}, "its numbers are random"),
        ("RandomUniform", [], {"shape": [4]}, "its numbers are random"),
        ("RandomNormalLike", ["c"], {}, "its numbers are random"),
        ("Bernoulli", ["c"], {}, "its numbers are random"),
        ("Dropout", ["c", "ratio", "training"], {}, "it drops values at random"),
    ],
)
def test_random_numbers_are_not_drawn_once_for_all_runs(
    onnx: Any, op: str, inputs: list[str], attributes: dict[str, Any], why: str
) -> None:
    nodes = [(op, inputs, ["r"], attributes), ("Mul", ["x", "r"], ["y"], {})]
    with pytest.raises(CompileError, match=f"{op} in n0: {why}"):
        from_onnx(model_of(onnx, nodes, {"x": (4,)}, HALVES | DROPS))


def test_a_dropout_for_inference_is_known(onnx: Any) -> None:
    held = HALVES | DROPS | {"training": np.array(False)}
    nodes = [("Dropout", ["c", "ratio", "training"], ["r"], {}), ("Mul", ["x", "r"], ["y"], {})]
    agrees(onnx, model_of(onnx, nodes, {"x": (4,)}, held))


@pytest.fixture
def branching(onnx: Any) -> Any:
    """A model with an If whose branches read an input of the model."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT

    def branch(op: str) -> Any:
        made = [helper.make_node(op, ["x"], [op])]
        return helper.make_graph(made, op, [], [helper.make_tensor_value_info(op, kind, (4, 6))])

    given = {"then_branch": branch("Identity"), "else_branch": branch("Neg")}
    model = model_of(onnx, [("If", ["c"], ["y"], given)], {"x": (4, 6)}, {"c": np.array(True)})
    for size in (4, 6):
        model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = size
    onnx.checker.check_model(model, full_check=True)
    return model


def test_bodies_that_read_values_around_them_are_not_known(branching: Any) -> None:
    with pytest.raises(CompileError, match="If in n0: its body takes values from outside"):
        from_onnx(branching)
    graph = from_onnx(branching, keep_going=True)
    (op,) = graph.ops
    assert "x" in {operand.tensor for operand in op.inputs}


@pytest.mark.parametrize("width", [0, 8])
def test_rotary_embedding_of_whole_heads(onnx: Any, width: int) -> None:
    table = np.random.default_rng(0).uniform(-1, 1, (2, 4, 4)).astype(np.float32)
    given = {"num_heads": 2, "rotary_embedding_dim": width}
    nodes = [("RotaryEmbedding", ["x", "a", "b"], ["y"], given)]
    agrees(onnx, model_of(onnx, nodes, {"x": (2, 4, 16)}, {"a": table, "b": table}))


def test_rotary_embedding_of_other_columns_than_those_of_heads(onnx: Any) -> None:
    table = np.ones((2, 4, 4), np.float32)
    given = {"num_heads": 2, "rotary_embedding_dim": 16}
    nodes = [("RotaryEmbedding", ["x", "a", "b"], ["y"], given)]
    with pytest.raises(CompileError, match="it turns a part of the columns"):
        from_onnx(model_of(onnx, nodes, {"x": (2, 4, 16)}, {"a": table, "b": table}))


@pytest.mark.parametrize("scopes", ["None", "5", "{1: 2, 3: 4}", "[1, 2, 3]", "(", "['', 'a']"])
def test_records_that_cannot_be_read_are_left_out(onnx: Any, scopes: str) -> None:
    model = model_of(onnx, [("Neg", ["x"], ["y"], {})], {"x": (4, 6)})
    record = model.graph.node[0].metadata_props.add()
    record.key, record.value = "pkg.torch.onnx.name_scopes", scopes
    agrees(onnx, model)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.ones(6, np.float32), r"with shape \(4, 6\), and its initializer gives \(6,\)"),
        (np.ones((4, 6)), "as float, and its initializer gives double"),
    ],
)
def test_initializers_of_an_input_are_as_it_declares(onnx: Any, array: Any, said: str) -> None:
    nodes = [("Mul", ["x", "w"], ["y"], {})]
    with pytest.raises(CompileError, match=f"input 'w' is declared {said}; correct the entry"):
        from_onnx(model_of(onnx, nodes, {"x": (4, 6), "w": (4, 6)}, {"w": array}))


def test_a_pad_of_no_axes(onnx: Any) -> None:
    held = {"pads": np.zeros(0, np.int64), "axes": np.zeros(0, np.int64)}
    nodes = [("Pad", ["x", "pads", "", "axes"], ["y"], {})]
    agrees(onnx, model_of(onnx, nodes, {"x": (4, 6)}, held))


def test_a_slice_in_a_step_longer_than_the_axis(onnx: Any) -> None:
    held = {"start": [1], "end": [4], "axes": [0], "step": [2**62]}
    nodes = [("Slice", ["x", *held], ["y"], {})]
    agrees(onnx, model_of(onnx, nodes, {"x": (4, 6)}, held))
