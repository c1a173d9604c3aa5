"""ONNX's rules for shapes of weights and for element types: a node that breaks one is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepsim.design.operators.importers import from_onnx
from stepsim.errors import CompileError
from tests.design.operators.example_models import require_onnx
from tests.design.operators.test_onnx_import import model_of

pytestmark = pytest.mark.torch

X = {"x": (2, 3, 4)}
_RNG = np.random.default_rng(7)


@pytest.fixture
def onnx() -> Any:
    return require_onnx()


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return _RNG.uniform(0.5, 1.5, shape).astype(np.float32)


def norm(op: str, *weights: str, **attributes: Any) -> list[Any]:
    return [(op, ["x", *weights], ["y"], attributes)]


@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization",
                                "SimplifiedLayerNormalization"])  # fmt: skip
@pytest.mark.parametrize(
    ("axis", "shape", "own"),
    [
        (1, (12,), (3, 4)), (1, (4, 3), (3, 4)), (1, (2, 6), (3, 4)), (1, (1, 12), (3, 4)),
        (2, (2, 2), (4,)), (-1, (4, 1), (4,)), (-1, (1, 1, 1, 4), (4,)), (0, (24,), (2, 3, 4)),
    ],
)  # fmt: skip
def test_weights_of_norms_of_another_shape(
    onnx: Any, op: str, axis: int, shape: tuple[int, ...], own: tuple[int, ...]
) -> None:
    """With the right number of elements, but not of an axis each."""
    model = model_of(onnx, norm(op, "w", axis=axis), X, {"w": numbers(*shape)})
    with pytest.raises(CompileError) as caught:
        from_onnx(model)
    said = str(caught.value)
    assert f"from_onnx(small): {op} in n0 does not fit inputs of shapes (2, 3, 4), " in said
    assert f"cale has shape {shape}, expected {own}, or one that is broadcast to the shape" in said


def test_biases_of_norms_of_another_shape(onnx: Any) -> None:
    held = {"w": numbers(3, 4), "b": numbers(4, 3)}
    model = model_of(onnx, norm("LayerNormalization", "w", "b", axis=1), X, held)
    with pytest.raises(CompileError, match=r"B has shape \(4, 3\), expected \(3, 4\), or one"):
        from_onnx(model)


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("lead", [(), (1,), (1, 1)])
def test_weights_with_leading_axes_of_one_element(
    onnx: Any, axis: int, lead: tuple[int, ...]
) -> None:
    own = (*lead, 3, 4)[-3:] if axis == 1 else (*lead, 4)
    held = {"w": numbers(*own), "b": numbers(*own)}
    model = model_of(onnx, norm("LayerNormalization", "w", "b", axis=axis), X, held)
    x = numbers(2, 3, 4)
    expected = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})[0]
    made = from_onnx(model).evaluate({"x": x})["y"]
    np.testing.assert_allclose(made, expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (3, 1)])
def test_weights_that_are_broadcast_are_not_known(onnx: Any, shape: tuple[int, ...]) -> None:
    """Which is not an error of the model."""
    model = model_of(onnx, norm("RMSNormalization", "w"), X, {"w": numbers(*shape)})
    with pytest.raises(
        CompileError, match=r"RMSNormalization in n0: scale has shape .*, which is broad"
    ):
        from_onnx(model)


@pytest.mark.parametrize("wrong", ["scale", "B", "input_mean", "input_var"])
@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (1,), (6,), ()])
def test_parts_of_batch_norms_have_a_number_per_channel(
    onnx: Any, wrong: str, shape: tuple[int, ...]
) -> None:
    names = ("scale", "B", "input_mean", "input_var")
    held = {name: numbers(*(shape if name == wrong else (3,))) for name in names}
    whole = {name: numbers(3) for name in names}
    from_onnx(model_of(onnx, norm("BatchNormalization", *names), X, whole))
    model = model_of(onnx, norm("BatchNormalization", *names), X, held)
    with pytest.raises(CompileError) as caught:
        from_onnx(model)
    said = str(caught.value)
    assert "BatchNormalization in n0 does not fit inputs of shapes (2, 3, 4)" in said
    assert f"{wrong} has shape {shape}, expected one number per channel, (3,)" in said


def typed(onnx: Any, nodes: list[Any], held: dict[str, Any], **kinds: str) -> Any:
    """A model whose inputs have these types, of four elements each."""
    model = model_of(onnx, nodes, dict.fromkeys(kinds, (4, 4)), held)
    for entry in model.graph.input:
        entry.type.tensor_type.elem_type = getattr(onnx.TensorProto, kinds[entry.name])
    return model


MIXED: list[tuple[str, list[Any], dict[str, Any], dict[str, str], str]] = [
    ("inputs", [("Add", ["x", "i"], ["y"], {})], {}, {"x": "FLOAT", "i": "INT64"},
     "Add in n0 takes 'x' and 'i' of one type, found float and int64"),
    ("weight", [("MatMul", ["x", "w"], ["y"], {})], {"w": np.ones((4, 4), np.float16)},
     {"x": "FLOAT"}, "MatMul in n0 takes 'x' and 'w' of one type, found float and float16"),
    ("norm", [("LayerNormalization", ["x", "w"], ["y"], {})], {"w": np.ones(4)}, {"x": "FLOAT"},
     "LayerNormalization in n0 takes 'x' and 'w' of one type, found float and double"),
    ("list", [("Concat", ["x", "i"], ["y"], {"axis": 0})], {}, {"x": "FLOAT", "i": "INT32"},
     "Concat in n0 takes 'x' and 'i' of one type, found float and int32"),
    ("branches", [("Equal", ["x", "x"], ["c"], {}), ("Where", ["c", "x", "i"], ["y"], {})], {},
     {"x": "FLOAT", "i": "INT64"}, "Where in n1 takes 'x' and 'i' of one type, found float and in"),
    ("computed", [("Neg", ["x"], ["h"], {}), ("Mul", ["h", "i"], ["y"], {})], {},
     {"x": "FLOAT", "i": "INT64"}, "Mul in n1 takes 'h' and 'i' of one type, found float and int"),
    ("converted", [("Cast", ["x"], ["h"], {"to": 10}), ("Mul", ["h", "x"], ["y"], {})], {},
     {"x": "FLOAT"}, "Mul in n1 takes 'h' and 'x' of one type, found float16 and float"),
    ("shape", [("Shape", ["x"], ["s"], {}), ("Mul", ["x", "s"], ["y"], {})], {}, {"x": "FLOAT"},
     "Mul in n1 takes 'x' and 's' of one type, found float and int64"),
    ("bools", [("Add", ["b", "b"], ["y"], {})], {}, {"b": "BOOL"},
     "Add in n0 takes bfloat16, .*uint8 as A, found bool in 'b'"),
    ("condition", [("Where", ["x", "x", "x"], ["y"], {})], {}, {"x": "FLOAT"},
     "Where in n0 takes bool as condition, found float in 'x'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "held", "kinds", "said"),
    [case[1:] for case in MIXED],
    ids=[case[0] for case in MIXED],
)
def test_inputs_of_element_types_that_no_operator_takes(
    onnx: Any, nodes: list[Any], held: dict[str, Any], kinds: dict[str, str], said: str
) -> None:
    with pytest.raises(CompileError, match=rf"^from_onnx\(small\): {said}.*; give it such an"):
        from_onnx(typed(onnx, nodes, held, **kinds))


@pytest.mark.parametrize("kind", ["FLOAT", "FLOAT16", "DOUBLE", "BFLOAT16"])
def test_inputs_of_one_type_are_taken(onnx: Any, kind: str) -> None:
    nodes: list[Any] = [
        ("Equal", ["x", "z"], ["c"], {}),
        ("Where", ["c", "x", "z"], ["h"], {}),
        ("Cast", ["h"], ["f"], {"to": onnx.TensorProto.FLOAT}),
        ("Mul", ["f", "two"], ["y"], {}),
    ]
    held = {"two": np.float32(2.0)}
    assert from_onnx(typed(onnx, nodes, held, x=kind, z=kind)).outputs


def test_results_of_another_type_than_declared(onnx: Any) -> None:
    model = model_of(onnx, [("ArgMax", ["x"], ["y"], {})], X)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    with pytest.raises(
        CompileError, match=r"output 'y' is declared as float, and its .*int64; wri"
    ):
        from_onnx(model)


@pytest.mark.parametrize(
    ("node", "inputs", "held", "said"),
    [
        (("Min", ["x", ""], ["y"], {}), {"x": (4, 4)}, {},
         "Min in n0 takes an input as data_0, found none at place 1"),
        (("Gemm", ["x", "w"], ["y"], {}), {"x": (4, 4)}, {"w": numbers(1, 4, 3)},
         r"does not fit .* \(B has shape \(1, 4, 3\), expected two axes"),
        (("Gemm", ["x", "w"], ["y"], {}), {"x": (2, 4, 4)}, {"w": numbers(4, 3)},
         r"does not fit .* \(A has shape \(2, 4, 4\), expected two axes"),
        (("Gemm", ["x", "w", "b"], ["y"], {}), {"x": (1, 4)},
         {"w": numbers(4, 3), "b": numbers(5, 3)},
         r"\(C has shape \(5, 3\), expected one that is broadcast to \(1, 3\)\)"),
        (("Gemm", ["x", "w", "b"], ["y"], {}), {"x": (4, 4)},
         {"w": numbers(4, 3), "b": numbers(1, 4, 3)},
         r"\(C has shape \(1, 4, 3\), expected one that is broadcast to \(4, 3\)\)"),
        (("Split", ["x", "n"], ["y", "z"], {}), {"x": (4, 4)}, {"n": np.array([1, 2])},
         r"\(sizes are \[1, 2\], expected 2 with the sum 4\)"),
        (("Split", ["x", "n"], ["y"], {}), {"x": (4, 4)}, {"n": np.array([1, 3])},
         r"\(sizes are \[1, 3\], expected 1 with the sum 4\)"),
        (("Attention", ["q", "k", "k"], ["y"], {}), {"q": (1, 4, 6, 8, 8), "k": (1, 2, 6, 8)}, {},
         r"\(Q has shape \(1, 4, 6, 8, 8\), expected 3 or 4 axes\)"),
    ],
    ids=["none", "stack", "batch", "tall", "deep", "short", "many", "query"],
)  # fmt: skip
def test_inputs_of_another_shape(
    onnx: Any, node: Any, inputs: Any, held: dict[str, Any], said: str
) -> None:
    with pytest.raises(CompileError, match=said):
        from_onnx(model_of(onnx, [node], inputs, held))
