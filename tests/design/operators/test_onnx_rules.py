"""ONNX's rules for shapes, element types and attributes: a model that breaks one is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepsim.design.operators.importers import from_onnx
from stepsim.design.operators.importers.onnx_files.rules import FLAGS
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
        (("Clip", ["x", "l"], ["y"], {}), {"x": (4, 4)}, {"l": numbers(1)},
         r"\(min has shape \(1,\), expected a scalar\)"),
        (("Clip", ["x", "", "m"], ["y"], {}), {"x": (4, 4), "m": (4, 4)}, {},
         r"\(max has shape \(4, 4\), expected a scalar\)"),
        (("Split", ["x", "n"], ["y", "z"], {}), {"x": (4, 4)}, {"n": np.array([1, 2])},
         r"\(sizes are \[1, 2\], expected 2 with the sum 4\)"),
        (("Split", ["x", "n"], ["y"], {}), {"x": (4, 4)}, {"n": np.array([1, 3])},
         r"\(sizes are \[1, 3\], expected 1 with the sum 4\)"),
        (("Attention", ["q", "k", "k"], ["y"], {}), {"q": (1, 4, 6, 8, 8), "k": (1, 2, 6, 8)}, {},
         r"\(Q has shape \(1, 4, 6, 8, 8\), expected 3 or 4 axes\)"),
    ],
    ids=["none", "stack", "batch", "tall", "deep", "bound", "bounds", "short", "many", "query"],
)  # fmt: skip
def test_inputs_of_another_shape(
    onnx: Any, node: Any, inputs: Any, held: dict[str, Any], said: str
) -> None:
    with pytest.raises(CompileError, match=said):
        from_onnx(model_of(onnx, [node], inputs, held))


def refusal(model: Any) -> str:
    """Why a model is refused, whether or not unknown operators are."""
    with pytest.raises(CompileError) as caught:
        from_onnx(model, keep_going=True)
    return str(caught.value)


# Attributes

OF_FLAGS: list[tuple[str, str, list[str]]] = [
    ("ReduceSum", "keepdims", ["x"]), ("ReduceMean", "noop_with_empty_axes", ["x"]),
    ("ReduceMax", "keepdims", ["x"]), ("ReduceProd", "keepdims", ["x"]),
    ("Gemm", "transA", ["x", "w"]), ("Gemm", "transB", ["x", "w"]),
    ("CumSum", "exclusive", ["x", "one"]), ("CumSum", "reverse", ["x", "one"]),
    ("Reshape", "allowzero", ["x", "sizes"]), ("ArgMax", "select_last_index", ["x"]),
    ("ArgMax", "keepdims", ["x"]), ("TopK", "largest", ["x", "count"]),
    ("TopK", "sorted", ["x", "count"]), ("Trilu", "upper", ["x"]),
    ("BatchNormalization", "training_mode", ["x", "b", "b", "b", "b"]),
    ("Attention", "is_causal", ["q", "q", "q"]),
    ("RotaryEmbedding", "interleaved", ["q", "t", "t"]),
    ("MaxPool", "ceil_mode", ["q"]), ("AveragePool", "count_include_pad", ["q"]),
    ("Mod", "fmod", ["x", "w"]),
]  # fmt: skip
"""Operators with attributes that are 0 or 1, read and unknown ones."""


@pytest.mark.parametrize("number", [64, -1, 2])
@pytest.mark.parametrize(
    ("op", "flag", "inputs"), OF_FLAGS, ids=[f"{a}-{b}" for a, b, _ in OF_FLAGS]
)
def test_flags_are_0_or_1(onnx: Any, op: str, flag: str, inputs: list[str], number: int) -> None:
    held = {"w": numbers(4, 4), "b": numbers(4), "t": numbers(1, 4, 2), "one": np.array(1),
            "sizes": np.array([2, 8]), "count": np.array([2])}  # fmt: skip
    given = {"x": (4, 4), "q": (1, 2, 4, 4)}
    more: dict[str, Any] = {"fmod": 1} if op == "Mod" else {}
    more |= {"kernel_shape": [2, 2]} if op.endswith("Pool") else {}
    results = ["y", "z"] if op == "TopK" else ["y"]

    def model(value: int) -> Any:
        node = (op, inputs, results, {**more, flag: value})
        made = model_of(onnx, [node], given, held)
        if op == "ArgMax":
            made.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
        return made

    if flag not in ("training_mode", "fmod"):  # of which one value has other rules
        from_onnx(model(0), keep_going=True)
        from_onnx(model(1), keep_going=True)
    expected = f"{op} in n0 has {flag}={number}, expected 0 or 1; correct the attribute"
    assert expected in refusal(model(number))


NUMBERS = frozenset((
    "axis", "batch_dims", "block_size", "blocksize", "chunk_size", "dtype", "end", "group",
    "hidden_size", "ignore_index", "k", "kv_num_heads", "left_window_size", "max_gram_length",
    "max_skip_count", "maxsplit", "min_gram_length", "num_groups", "num_heads", "num_outputs",
    "num_scan_inputs", "offset_group", "output_datatype", "output_dtype", "output_height",
    "output_width", "p", "precision", "q_num_heads", "qk_matmul_output_mode", "right_window_size",
    "rotary_embedding_dim", "sample_size", "sampling_ratio", "seed", "size", "softmax_precision",
    "start", "stash_type", "to", "value_int",
))  # fmt: skip
"""Attributes of whole numbers that may be more than 0 and 1."""


def test_all_flags_of_onnx_are_known(onnx: Any) -> None:
    whole = {
        name
        for schema in onnx.defs.get_all_schemas()
        if not schema.domain
        for name, declared in schema.attributes.items()
        if declared.type == onnx.defs.OpSchema.AttrType.INT
    }
    assert not FLAGS & NUMBERS
    assert whole == (FLAGS | NUMBERS) & whole, "decide whether a new attribute is 0 or 1"


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "said"),
    [
        ("Gelu", ["x"], {"approximate": "erf"}, "has approximate=erf, expected none or tanh"),
        ("ScatterND", ["x", "at", "row"], {"reduction": "sum"},
         "has reduction=sum, expected none or add or mul or max or min"),
        ("Pad", ["x", "pads"], {"mode": "zeros"}, "has mode=zeros, expected constant or reflect"),
        ("MaxPool", ["q"], {"kernel_shape": [2, 2], "auto_pad": "SAME"},
         "has auto_pad=SAME, expected NOTSET or SAME_UPPER or SAME_LOWER or VALID"),
        ("LayerNormalization", ["x", "row0"], {"stash_type": 64},
         "has stash_type=64, expected 1 or 10 or 11 or 16"),
        ("Attention", ["q", "q", "q"], {"qk_matmul_output_mode": 4},
         "has qk_matmul_output_mode=4, expected 0 or 1 or 2 or 3"),
        ("Neg", ["x"], {"axis": 1}, "is not valid: Unrecognized attribute: axis"),
    ],
)  # fmt: skip
def test_attributes_of_another_value(
    onnx: Any, op: str, inputs: list[str], attributes: dict[str, Any], said: str
) -> None:
    held = {"at": np.array([[0]]), "row": numbers(1, 4), "row0": numbers(4),
            "pads": np.array([0, 0, 1, 1])}  # fmt: skip
    given = {"x": (4, 4), "q": (1, 2, 4, 4)}
    assert f"{op} in n0 {said}" in refusal(
        model_of(onnx, [(op, inputs, ["y"], attributes)], given, held)
    )


def test_attributes_of_later_versions_are_taken(onnx: Any) -> None:
    """As some exporters write them; their other rules are those of that version."""
    node = ("Reshape", ["x", "s"], ["h"], {"allowzero": 0})
    held = {"s": np.array([2, 8])}
    nodes = [node, ("Neg", ["h"], ["y"], {})]
    assert from_onnx(model_of(onnx, nodes, {"x": (4, 4)}, held, version=13)).outputs
    nodes[0] = (*node[:3], {"allowzero": 5})
    assert "has allowzero=5" in refusal(model_of(onnx, nodes, {"x": (4, 4)}, held, version=13))


# Shapes and numbers that ONNX itself says do not fit


@pytest.mark.parametrize(
    ("node", "held", "version", "said"),
    [
        (("Dropout", ["x", "r"], ["y"], {}), {"r": np.full((1, 1), 0.5, np.float32)}, 23,
         r"inputs of shapes (4, 6), (1, 1) ("),
        (("Dropout", ["x", "r"], ["y"], {}), {"r": np.full(1, 0.5, np.float32)}, 13,
         "Ratio of Dropout must be a scalar"),
        (("Split", ["x"], ["y", "z"], {}), {}, 18,
         "Neither 'split' input nor 'num_outputs' attribute has been given"),
        (("Split", ["x"], ["y", "z"], {"num_outputs": 3}), {}, 18,
         "num_outputs is 3 of 2 results"),

        (("Gemm", ["x", "w"], ["y"], {}), {"w": numbers(5, 3)}, 23, "(4, 6), (5, 3) ("),
        (("TopK", ["x", "k"], ["y", "z"], {}), {"k": np.array([[2]])}, 23,
         "K input must be a one-dimensional tensor of size 1"),
        (("TopK", ["x", "k"], ["y", "z"], {}), {"k": np.array([-2])}, 23,
         "would have the sizes [4, -2]"),
        (("Pad", ["x", "p"], ["y"], {}), {"p": np.array([[0, 0, 1, 1]])}, 23,
         "'pads' input must be a 1D"),
        (("Resize", ["x", "", "s"], ["y"], {}), {"s": np.ones(4, np.float32)}, 23,
         "Number of elements of input 'scales' must be same as rank"),
        (("Cast", ["x"], ["y"], {"to": 64}), {}, 23, "Attribute to does not specify a valid type"),
    ],
    ids=["ratio", "vector", "no-sizes", "other-sizes", "inner", "column", "negative",
         "pads", "scales", "type"],
)  # fmt: skip
def test_what_onnx_infers_no_shapes_of(
    onnx: Any, node: Any, held: dict[str, Any], version: int, said: str
) -> None:
    text = refusal(model_of(onnx, [node], {"x": (4, 6)}, held, version=version))
    assert f"from_onnx(small): {node[0]} in n0 does not fit inputs of shapes (4, 6)" in text
    assert said in text
    assert text.endswith("; write the model again")


def test_known_numbers_have_the_shape_that_onnx_infers(onnx: Any) -> None:
    """Where ONNX's own evaluation takes a bound that is not a scalar."""
    held = {"l": np.float32(-1), "h": np.ones(1, np.float32)}
    nodes: list[Any] = [("Clip", ["l", "h"], ["c"], {}), ("Mul", ["x", "c"], ["y"], {})]
    said = refusal(model_of(onnx, nodes, {"x": (4, 6)}, held))
    assert "Clip in n0 does not fit inputs of shapes (), (1,) ('c' would have shape (1,)" in said


def test_parts_of_equal_size_are_said_by_older_versions(onnx: Any) -> None:
    nodes: list[Any] = [("Split", ["x"], ["a", "b"], {}), ("Sub", ["a", "b"], ["y"], {})]
    assert from_onnx(model_of(onnx, nodes, {"x": (4, 6)}, version=13)).outputs
    nodes[0] = ("Split", ["x"], ["a", "b", "c"], {"axis": 1})
    said = refusal(model_of(onnx, nodes[:1], {"x": (4, 7)}, outputs=("a",), version=13))
    assert "Split in n0 does not fit inputs of shapes (4, 7) (" in said
    assert "The input is not evenly splittable" in said


def test_unknown_operators_have_the_shapes_that_numbers_say(onnx: Any) -> None:
    held = {"s": np.array([1, 1, 2, 2], np.float32)}
    model = model_of(onnx, [("Resize", ["x", "", "s"], ["y"], {})], {"x": (1, 2, 4, 4)}, held)
    assert from_onnx(model, keep_going=True).tensors["y"].shape == (1, 2, 8, 8)
    held["s"][2] = 0
    model = model_of(onnx, [("Resize", ["x", "", "s"], ["y"], {})], {"x": (1, 2, 4, 4)}, held)
    assert "Resize in n0 gives 'y' of shape (1, 2, 0, 8), expected sizes from 1" in refusal(model)


# Graphs


@pytest.mark.parametrize(
    ("name", "other"),
    [("y", "a result of Neg in n0"), ("x", "an input"), ("w", "an initializer")],
)
def test_values_are_made_once(onnx: Any, name: str, other: str) -> None:
    nodes: list[Any] = [("Neg", ["x"], ["y"], {}), ("Mul", ["x", "w"], [name], {})]
    said = refusal(model_of(onnx, nodes, {"x": (4, 4)}, {"w": numbers(4, 4)}))
    assert f"from_onnx(small): '{name}' is a result of Mul in n1, and {other} as well" in said


@pytest.mark.parametrize("kind", ["input", "initializer"])
def test_two_of_one_name(onnx: Any, kind: str) -> None:
    model = model_of(onnx, [("Mul", ["x", "w"], ["y"], {})], {"x": (4, 4)}, {"w": numbers(4, 4)})
    entries = getattr(model.graph, kind)
    entries.append(entries[0])
    assert f"there are two of the name '{entries[0].name}' for an {kind}, exp" in refusal(model)


@pytest.mark.parametrize(
    ("kind", "name", "said", "cure"),
    [("output", "y", "output", "write the model again"),
     ("value_info", "h", "value", "correct or delete its value_info")],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(4, 6), (4, "n"), (4, 5), (4,)])
def test_values_of_another_shape_than_declared(
    onnx: Any, kind: str, name: str, said: str, cure: str, shape: tuple[Any, ...]
) -> None:
    nodes: list[Any] = [("Neg", ["x"], ["h"], {}), ("Neg", ["h"], ["y"], {})]
    model = model_of(onnx, nodes, {"x": (4, 6)})
    entries = getattr(model.graph, kind)
    del entries[:]
    entries.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
    if shape in ((4, 6), (4, "n")):
        assert from_onnx(model).outputs
        return
    assert (
        f"{said} '{name}' is declared with shape ({', '.join(map(str, shape))}), and its operator "
        f"gives (4, 6); {cure}"
    ) in refusal(model)


def test_values_of_another_type_than_declared(onnx: Any) -> None:
    nodes: list[Any] = [("Neg", ["x"], ["h"], {}), ("Neg", ["h"], ["y"], {})]
    model = model_of(onnx, nodes, {"x": (4, 6)})
    entry = onnx.helper.make_tensor_value_info("h", onnx.TensorProto.INT64, None)
    model.graph.value_info.append(entry)
    said = "value 'h' is declared as int64, and its operator gives float; correct or delete its"
    assert said in refusal(model)


def test_versions_of_operators_are_stated(onnx: Any) -> None:
    model = model_of(onnx, [("Neg", ["x"], ["y"], {})], {"x": (4, 4)})
    del model.opset_import[:]
    assert "the model states no version of ONNX's operators; add the domain ''" in refusal(model)
    model = model_of(onnx, [("Neg", ["x"], ["y"], {"domain": "other"})], {"x": (4, 4)})
    said = "Neg in n0 is of the domain 'other', of whose operators the model states no version"
    assert said in refusal(model)
