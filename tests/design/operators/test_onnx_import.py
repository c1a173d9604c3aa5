"""ONNX models become graphs that compute what the reference of ONNX does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.design import block
from stepsim.design.operators.importers import from_onnx, graph_of
from stepsim.errors import CompileError
from tests.design.operators.example_models import (
    NAMES,
    SMALL,
    built_in_sizes,
    example,
    require_onnx,
)

pytestmark = pytest.mark.torch


@pytest.fixture
def onnx() -> Any:
    return require_onnx()


def model_of(
    onnx: Any,
    nodes: Sequence[tuple[str, Sequence[str], Sequence[str], Mapping[str, Any]]],
    inputs: Mapping[str, Sequence[Any]],
    held: Mapping[str, Any] | None = None,
    outputs: Sequence[str] = ("y",),
    version: int = 23,
) -> Any:
    """A model of nodes (operator, inputs, outputs, attributes)."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    made = [
        helper.make_node(op, into, out, name=f"n{i}", **attributes)
        for i, (op, into, out, attributes) in enumerate(nodes)
    ]
    given = [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()]
    results = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
    tensors = [
        onnx.numpy_helper.from_array(np.asarray(array), name)
        for name, array in (held or {}).items()
    ]
    graph = helper.make_graph(made, "small", given, results, tensors)
    opsets = [helper.make_opsetid("", version), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets)


def agrees(onnx: Any, model: Any, most: float = 1e-5) -> Any:
    """The graph of a model, whose outputs are those of the reference."""
    import onnx.reference

    graph = from_onnx(model)
    random = np.random.default_rng(5)
    values = {
        entry.name: random.normal(
            size=[d.dim_value for d in entry.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for entry in model.graph.input
    }
    expected = onnx.reference.ReferenceEvaluator(model).run(None, values)
    made = graph.evaluate({name: x for name, x in values.items() if name in graph.tensors})
    for entry, result in zip(model.graph.output, expected, strict=True):
        assert made[entry.name].shape == result.shape
        assert np.abs(made[entry.name] - result).max() <= most
    return graph


# The blocks, as PyTorch writes them


BLOCKS = [(file, phase, 23) for file in NAMES for phase in ("prefill", "decode")]
OLDER = [("gpt2_medium", "prefill", 18), ("gemma", "decode", 18)]
"""Attention, norms and GELU are single operators from version 23 on, and in parts before."""


@pytest.mark.parametrize(("file", "phase", "version"), BLOCKS + OLDER)
def test_a_block_that_pytorch_wrote_computes_the_same(
    file: str, phase: str, version: int, onnx: Any, tmp_path: Path
) -> None:
    pytest.importorskip("onnxscript", reason="no PyTorch or ONNX: run `make test-torch`")
    import logging
    import warnings

    import torch

    models = example(file)
    torch.manual_seed(2)
    module, inputs = models.model(phase, **SMALL[file])
    for weight in module.parameters():  # equal ones are one in the file
        weight.data.normal_(0, weight.shape[-1] ** -0.5)
    tables = () if file == "gpt2_medium" else ("cos", "sin")
    caches = ("k_cache", "v_cache") if phase == "decode" else ()
    path = tmp_path / "block.onnx"
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, inputs, path, dynamo=True, opset_version=version, verbose=False,
            input_names=["x", *tables, *caches], output_names=list(models.OUTPUTS),
        )  # fmt: skip
    graph = from_onnx(path)
    assert {tensor.name for tensor in graph.with_role("state")} == set(caches)
    values = {
        name: x if name in tables else torch.randn_like(x)
        for name, x in zip(graph.order, inputs, strict=True)
    }
    with torch.no_grad():
        expected = module(*values.values())
    made = graph.evaluate({str(name): x.numpy() for name, x in values.items()})
    for name, result in zip(models.OUTPUTS, expected, strict=True):
        assert np.abs(made[name] - result.numpy()).max() <= 1e-4
    reference = block(NAMES[file], phase, **built_in_sizes(file))  # type: ignore[arg-type]
    assert graph.parameters == reference.parameters
    # Weights of Gemma, 1 + w, are summed up in the file; queries and keys may be scaled apart.
    if file != "gemma" and version == 23:
        assert graph.flops == reference.flops
    assert any(op.where.startswith("attn") and f"({file}.py:" in op.where for op in graph.ops)


# Operators

_RANDOM = np.random.default_rng(9)
W, B, N = (
    _RANDOM.normal(size=shape).astype(np.float32) for shape in ((8, 5), (5,), (8,))
)  # fmt: skip
X = {"x": (2, 6, 8)}
CASES: dict[str, tuple[Any, ...]] = {
    "matmul": ([("MatMul", ["x", "w"], ["y"], {})], X, {"w": W}),
    "gemm": ([("Gemm", ["x", "w", "b"], ["y"], {"transB": 1, "alpha": 2.0, "beta": 0.5})],
             {"x": (3, 8)}, {"w": W.T.copy(), "b": B}),
    "gemm-turned": ([("Gemm", ["x", "w"], ["y"], {"transA": 1})], {"x": (8, 3)}, {"w": W}),
    "transposed": ([("Transpose", ["w"], ["t"], {}), ("MatMul", ["x", "t"], ["y"], {})],
                   X, {"w": W.T.copy()}),
    "add-mul": ([("Add", ["x", "n"], ["a"], {}), ("Mul", ["a", "x"], ["b"], {}),
                 ("Sub", ["b", "x"], ["c"], {}), ("Div", ["c", "two"], ["y"], {})],
                X, {"n": N, "two": np.float32(2)}),
    "sum-max": ([("Max", ["x", "n", "zero"], ["a"], {}), ("Sum", ["a", "x", "n"], ["b"], {}),
                 ("Min", ["b", "x"], ["y"], {})], X, {"n": N, "zero": np.float32(0)}),
    "mean": ([("Mean", ["x", "n", "x"], ["y"], {})], X, {"n": N}),
    "waves": ([("Sin", ["x"], ["a"], {}), ("Cos", ["a"], ["y"], {})], X, {}),
    "bools": ([("Greater", ["x", "n"], ["a"], {}), ("Less", ["x", "m"], ["b"], {}),
               ("And", ["a", "b"], ["c"], {}), ("Not", ["b"], ["d"], {}),
               ("Or", ["c", "d"], ["e"], {}), ("Where", ["e", "x", "n"], ["y"], {})],
              X, {"n": N, "m": N[::-1].copy()}),
    "softmax": ([("Softmax", ["x"], ["y"], {"axis": 1})], X, {}),
    "layer-norm": ([("LayerNormalization", ["x", "n", "m"], ["y"], {"epsilon": 1e-3})],
                   X, {"n": N, "m": N[::-1].copy()}),
    "rms-norm": ([("RMSNormalization", ["x", "n"], ["y"], {"epsilon": 1e-3})], X, {"n": N}),
    "layer-norm-of-two": ([("LayerNormalization", ["x", "w", "v"], ["y"], {"axis": -2})],
                          {"x": (2, 8, 5)}, {"w": W, "v": W[::-1].copy()}),
    "rms-norm-of-two": ([("RMSNormalization", ["x", "w"], ["y"], {"axis": 1})],
                        {"x": (2, 8, 5)}, {"w": W}),
    "gelu": ([("Gelu", ["x"], ["y"], {})], X, {}),
    "gelu-tanh": ([("Gelu", ["x"], ["y"], {"approximate": "tanh"})], X, {}),
    "gelu-by-erf": ([("Div", ["x", "r"], ["a"], {}), ("Erf", ["a"], ["b"], {}),
                     ("Add", ["b", "one"], ["c"], {}), ("Mul", ["x", "c"], ["d"], {}),
                     ("Mul", ["d", "half"], ["y"], {})], X,
                    {"r": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}),
    "silu": ([("Sigmoid", ["x"], ["a"], {}), ("Mul", ["x", "a"], ["y"], {})], X, {}),
    "clip": ([("Clip", ["x", "l", "h"], ["y"], {})], X,
             {"l": np.float32(-0.5), "h": np.float32(0.5)}),
    "pow": ([("Pow", ["x", "p"], ["a"], {}), ("Pow", ["a", "q"], ["y"], {})], X,
            {"p": np.float32(2), "q": np.float32(0.5)}),
    "reshape": ([("Reshape", ["x", "s"], ["a"], {}), ("Neg", ["a"], ["y"], {})], X,
                {"s": np.array([0, -1, 4], np.int64)}),
    "shape": ([("Shape", ["x"], ["s"], {"start": 1}), ("Concat", ["m", "s"], ["t"], {"axis": 0}),
               ("Reshape", ["x", "t"], ["a"], {}), ("Neg", ["a"], ["y"], {})], X,
              {"m": np.array([-1], np.int64)}),
    "squeeze": ([("Unsqueeze", ["x", "a"], ["u"], {}), ("Neg", ["u"], ["v"], {}),
                 ("Squeeze", ["v", "b"], ["y"], {})], X,
                {"a": np.array([0, 3], np.int64), "b": np.array([0], np.int64)}),
    "flatten": ([("Flatten", ["x"], ["a"], {"axis": 2}), ("Neg", ["a"], ["y"], {})], X, {}),
    "expand": ([("Expand", ["x", "s"], ["a"], {}), ("Neg", ["a"], ["y"], {})], {"x": (2, 1, 8)},
               {"s": np.array([3, 1, 6, 1], np.int64)}),
    "slice": ([("Slice", ["x", "s", "e", "a", "t"], ["b"], {}), ("Neg", ["b"], ["y"], {})], X,
              {"s": np.array([1, -8], np.int64), "e": np.array([5, 2**62], np.int64),
               "a": np.array([1, 2], np.int64), "t": np.array([1, 2], np.int64)}),
    "split": ([("Split", ["x", "s"], ["a", "b"], {"axis": 2}), ("Neg", ["a"], ["c"], {}),
               ("Concat", ["b", "c"], ["y"], {"axis": 2})], X, {"s": np.array([3, 5], np.int64)}),
    "split-even": ([("Split", ["x"], ["a", "b", "c"], {"axis": 1, "num_outputs": 3}),
                    ("Sub", ["a", "c"], ["d"], {}), ("Mul", ["d", "b"], ["y"], {})], X, {}),
    "gather": ([("Gather", ["x", "i"], ["a"], {"axis": 1}), ("Neg", ["a"], ["y"], {})], X,
               {"i": np.int64(-2)}),
    "gather-rows": ([("Gather", ["x", "i"], ["a"], {"axis": 1}), ("Neg", ["a"], ["y"], {})], X,
                    {"i": np.array([2, 3], np.int64)}),
    "known-positions": ([("Neg", ["x"], ["a"], {}), ("GatherND", ["a", "j"], ["b"], {}),
                         ("ScatterND", ["x", "i", "b"], ["y"], {"reduction": b"add"})],
                        {"x": (4, 8)}, {"i": np.array([[3], [-1]], np.int64),
                                        "j": np.array([[0], [2]], np.int64)}),
    "reduce": ([("ReduceSum", ["x", "a"], ["b"], {"keepdims": 1}),
                ("ReduceMean", ["x", "c"], ["d"], {"keepdims": 1}),
                ("ReduceMax", ["x", "c"], ["e"], {"keepdims": 1}), ("Sub", ["d", "e"], ["f"], {}),
                ("Mul", ["b", "f"], ["y"], {})], {"x": (2, 6, 6)},
               {"a": np.array([-1], np.int64), "c": np.array([1], np.int64)}),
    "where": ([("Greater", ["x", "n"], ["a"], {}), ("Where", ["a", "x", "n"], ["y"], {})], X,
              {"n": N}),
    "trilu": ([("Trilu", ["o"], ["m"], {"upper": 0}), ("Cast", ["m"], ["b"], {"to": 9}),
               ("Where", ["b", "x", "l"], ["a"], {}), ("Softmax", ["a"], ["y"], {})],
              {"x": (2, 6, 6)},
              {"o": np.ones((6, 6), np.float32), "l": np.float32("-inf")}),
    "attention": ([("Attention", ["x", "k", "v"], ["y"], {"is_causal": 1})],
                  {"x": (1, 4, 6, 8), "k": (1, 2, 6, 8), "v": (1, 2, 6, 8)}, {}),
    "attention-no-key": ([("Less", ["m", "t"], ["seen"], {}),
                          ("Attention", ["x", "k", "v", "seen"], ["y"], {"is_causal": 1})],
                         {"x": (1, 4, 6, 8), "k": (1, 2, 6, 8), "v": (1, 2, 6, 8), "m": (6, 6)},
                         {"t": np.tri(6, k=-2, dtype=np.float32)[::-1].copy() * 9 - 4}),
    "attention-two-masks": ([("Attention", ["x", "k", "v", "m"], ["y"], {"is_causal": 1})],
                            {"x": (1, 4, 6, 8), "k": (1, 2, 6, 8), "v": (1, 2, 6, 8)},
                            {"m": np.tri(6, k=2, dtype=bool)}),
    "attention-past": ([("Attention", ["x", "k", "v", "", "p", "q"], ["y", "pk", "pv"],
                         {"q_num_heads": 4, "kv_num_heads": 2})],
                       {"x": (1, 3, 32), "k": (1, 3, 16), "v": (1, 3, 16), "p": (1, 2, 5, 8),
                        "q": (1, 2, 5, 8)}, {}),
    "rotary": ([("RotaryEmbedding", ["x", "c", "s"], ["y"], {})],
               {"x": (2, 4, 6, 8), "c": (2, 6, 4), "s": (2, 6, 4)}, {}),
    "rotary-interleaved": ([("RotaryEmbedding", ["x", "c", "s"], ["y"],
                             {"interleaved": 1, "num_heads": 4})],
                           {"x": (2, 6, 32), "c": (2, 6, 4), "s": (2, 6, 4)}, {}),
    "cache": ([("ScatterND", ["x", "i", "n"], ["a"], {}), ("Neg", ["a"], ["y"], {})],
              {"x": (1, 8, 4), "n": (1, 2, 4)},
              {"i": np.array([[[0, 3], [0, 4]]], np.int64)}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_operator_computes_what_onnx_says(name: str, onnx: Any) -> None:
    nodes, inputs, held = CASES[name]
    graph = agrees(onnx, model_of(onnx, nodes, inputs, held))
    kinds = {op.kind for op in graph.ops}
    assert ("rotary" in kinds) == name.startswith("rotary")
    assert ("causal_mask" in kinds) == (name in ("trilu", "attention", "attention-two-masks"))
    if name.startswith(("gelu", "silu")):
        assert len(graph.ops) == 1
    states = {tensor.name for tensor in graph.with_role("state")}
    assert states == ({"p", "q"} if name == "attention-past" else set())


def test_rows_of_a_table(onnx: Any) -> None:
    helper = onnx.helper
    table = np.arange(12, dtype=np.float32).reshape(6, 2)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["t", "i"], ["y"])], "rows",
        [helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [3])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(table, "t")],
    )  # fmt: skip
    found = from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    np.testing.assert_array_equal(found.evaluate({"i": [4, 0, 5]})["y"], table[[4, 0, 5]])


# What is refused


def _strange(onnx: Any) -> Any:
    nodes = [("CumSum", ["x", "a"], ["b"], {"reverse": 1}), ("Erf", ["b"], ["c"], {}),
             ("CumSum", ["c", "a"], ["y"], {"reverse": 1})]  # fmt: skip
    return model_of(onnx, nodes, X, {"a": np.int64(1)})


def test_unknown_operators_are_all_listed(onnx: Any) -> None:
    with pytest.raises(CompileError) as caught:
        from_onnx(_strange(onnx))
    text = str(caught.value)
    assert "2 operators are not known" in text
    assert "CumSum in n0: sums without their own value, or from the end" in text
    assert "Erf in n1" in text
    assert "keep_going=True" in text


def test_unknown_operators_can_be_opaque(onnx: Any) -> None:
    graph = from_onnx(_strange(onnx), keep_going=True, costs={"CumSum": 1, "Erf": 20})
    assert [op.flops for op in graph.ops if op.kind == "opaque"] == [96, 1920, 96]
    assert [tensor.name for tensor in graph.with_role("input")] == ["x"]  # without the axis
    assert {len(op.inputs) for op in graph.ops if op.kind == "opaque"} == {1}  # the axis is none
    assert "assumed_costs" not in graph.attributes


def test_dynamic_shapes_are_refused(onnx: Any) -> None:
    model = model_of(onnx, [("Neg", ["x"], ["y"], {})], {"x": ("rows", 8)})
    with pytest.raises(CompileError, match=r"input 'x' has shape \['rows', 8\].*not static"):
        from_onnx(model)


def test_old_operators_are_refused(onnx: Any) -> None:
    model = model_of(onnx, [("Neg", ["x"], ["y"], {})], X, version=11)
    with pytest.raises(CompileError, match="version 11; convert the model to 13"):
        from_onnx(model)


@pytest.mark.parametrize(
    ("content", "message"), [(b"no model", "is not an ONNX model"), (None, "there is no file")]
)
def test_a_file_that_is_no_model_is_refused(
    content: bytes | None, message: str, onnx: Any, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CompileError, match=message):
        from_onnx(path)


def test_what_a_file_makes_is_imported(onnx: Any, tmp_path: Path) -> None:
    model = model_of(onnx, [("Neg", ["x"], ["y"], {})], X)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    texts = {graph_of(made).to_json() for made in (model, path, str(path))}
    assert texts == {from_onnx(model).to_json()}


# What would have other values


def test_a_mask_of_bools_that_is_an_input(onnx: Any) -> None:
    shape = (1, 2, 4, 8)
    nodes: Any = [
        ("Less", ["m", "one"], ["seen"], {}),
        ("Attention", ["q", "q", "q", "seen"], ["y"], {}),
    ]
    agrees(onnx, model_of(onnx, nodes, {"q": shape, "m": (4, 4)}, {"one": np.float32(9)}))
    inputs = {"q": shape, "m": (4, 4)}
    model = model_of(onnx, nodes[1:], inputs, outputs=("y",))
    model.graph.node[0].input[3] = "m"
    model.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.BOOL
    q = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    seen = np.tril(np.ones((4, 4), bool))
    expected = onnx.reference.ReferenceEvaluator(model).run(None, {"q": q, "m": seen})[0]
    made = from_onnx(model).evaluate({"q": q, "m": seen})["y"]
    np.testing.assert_allclose(made, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("node", "inputs", "held", "why"),
    [
        (("Dropout", ["x", "r", "t"], ["y"], {}), {"x": (4,)},
         {"r": np.float32(0.5), "t": np.bool_(True)}, "Dropout in n0: it drops values at random"),
        (("Attention", ["x", "x", "x", "", "", "", "n"], ["y"], {}), {"x": (1, 2, 4, 8)},
         {"n": np.array([3])}, r"Attention in n0: lengths of the keys \(nonpad_kv_seqlen\)"),
        (("Attention", ["x", "x", "x", "m"], ["y"], {}), {"x": (1, 2, 4, 8)},
         {"m": np.ones((4, 3), bool)}, "Attention in n0: a mask of 3 of 4 keys"),
        (("Attention", ["x", "x", "x"], ["y"], {"left_window_size": 2}), {"x": (1, 2, 4, 8)}, {},
         "Attention in n0: windows of the keys by attributes"),
        (("Attention", ["x", "x", "x"], ["y"], {"domain": "com.microsoft"}), {"x": (1, 4, 8)}, {},
         r"Attention in n0 is unknown, .*\(domain com.microsoft\)"),
        (("LayerNormalization", ["x", "s"], ["z", "y"], {}), {"x": (4, 8), "s": (8,)}, {},
         "'y' is not made by any operator, or is a second result"),
    ],
    ids=["dropout", "lengths", "columns", "window", "domain", "second"],
)  # fmt: skip
def test_what_is_not_computed_is_refused(
    node: Any, inputs: Any, held: Any, why: str, onnx: Any
) -> None:
    with pytest.raises(CompileError, match=why):
        from_onnx(model_of(onnx, [node], inputs, held, version=24))


CHOSEN: Any = [("Equal", ["i", "i"], ["e"], {}), ("Where", ["e", "x", "x"], ["y"], {})]


@pytest.mark.parametrize(
    ("scalar", "dtype"), [("INT64", "i64"), ("INT32", "i32"), ("BOOL", "bool")]
)
def test_whole_numbers_keep_their_type(scalar: str, dtype: str, onnx: Any) -> None:
    model = model_of(onnx, CHOSEN, {"i": (4,), "x": (4,)})
    model.graph.input[0].type.tensor_type.elem_type = getattr(onnx.TensorProto, scalar)
    assert from_onnx(model).tensors["i"].dtype == dtype


def test_a_type_that_no_tensor_has_is_refused(onnx: Any) -> None:
    model = model_of(onnx, CHOSEN, {"i": (4,), "x": (4,)})
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    with pytest.raises(CompileError, match=r"from_onnx\(small\): input 'i' is of uint8, .*int64"):
        from_onnx(model)


def test_a_quotient_of_whole_numbers_is_refused(onnx: Any) -> None:
    nodes: Any = [
        ("Add", ["i", "two"], ["a"], {}), ("Div", ["a", "two"], ["d"], {}),
        ("Cast", ["d"], ["y"], {"to": onnx.TensorProto.FLOAT}),
    ]  # fmt: skip
    model = model_of(onnx, nodes, {"i": (4,)}, {"two": np.array(2)})
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    with pytest.raises(CompileError, match="Div in n1: a quotient of whole numbers"):
        from_onnx(model, dtype="f32")


def test_the_largest_of_one_value_is_that_value(onnx: Any) -> None:
    agrees(
        onnx, model_of(onnx, [("Max", ["x"], ["z"], {}), ("Neg", ["z"], ["y"], {})], {"x": (4,)})
    )
