"""Damaged ONNX files: the importer reads them, or says in an error of stepsim what is wrong."""

from __future__ import annotations

import random
import secrets
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.design.operators.importers import from_onnx
from stepsim.errors import CompileError
from tests.design.operators.changed_models import change
from tests.design.operators.example_models import require_onnx
from tests.design.operators.test_onnx_import import CASES, model_of
from tests.fuzz.mutation import damaged_bytes
from tests.fuzz.reading import bounded, outcome
from tests.property_profile import THOROUGH

pytestmark = pytest.mark.torch

_COPIES = 25_000 if THOROUGH else 1275
_SECONDS = 20


@pytest.fixture
def onnx() -> Any:
    return require_onnx()


def two_nodes(onnx: Any) -> Any:
    """A product with a weight and a softmax."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weight = np.arange(12, dtype=np.float32).reshape(4, 3)
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w"], ["h"], name="first", alpha=0.5),
            helper.make_node("Softmax", ["h"], ["y"], name="second", axis=-1),
        ],
        "two",
        [helper.make_tensor_value_info("x", kind, [2, 4])],
        [helper.make_tensor_value_info("y", kind, None)],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])


def _seeds() -> range:
    first = secrets.randbits(40) if THOROUGH else 0
    return range(first, first + _COPIES)


def _outcome(seed: int, model: Any) -> str:
    """``accepted`` or ``refused``; the seed is in the notes of any failure."""
    try:
        return outcome(lambda: from_onnx(model), "from_onnx", None, seconds=_SECONDS)
    except BaseException as error:
        error.add_note(f"in the case of seed {seed}")
        raise


@pytest.mark.fuzz
def test_damaged_copies_are_read_or_refused(onnx: Any, tmp_path: Path) -> None:
    whole = two_nodes(onnx).SerializeToString()
    others = [model_of(onnx, *case).SerializeToString() for case in CASES.values()]
    path = tmp_path / "damaged.onnx"
    found = {"accepted": 0, "refused": 0}
    for seed in _seeds():
        rng = random.Random(seed)
        content = damaged_bytes(rng, rng.choice([whole, *others]), whole)
        path.write_bytes(content)
        found[_outcome(seed, path)] += 1
    assert min(found.values()) > _COPIES // 100, "the damage is too small or too large"


@pytest.mark.fuzz
def test_changed_models_are_read_or_refused(onnx: Any) -> None:
    found = {"accepted": 0, "refused": 0}
    for seed in _seeds():
        rng = random.Random(seed)
        model = model_of(onnx, *CASES[rng.choice(list(CASES))])
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # of numbers that another type does not have
            change(rng, onnx, model)
        said = _outcome(seed, model)
        found[said] += 1
        if said == "accepted":
            _check_by_onnx(onnx, seed, model)
    assert min(found.values()) > _COPIES // 100, "the changes are too small or too large"


def _check_by_onnx(onnx: Any, seed: int, model: Any) -> None:
    """Check that ONNX accepts a model too, but for what exporters are known to write."""
    if any(node.op_type == "SimplifiedLayerNormalization" for node in model.graph.node):
        return  # of ONNX Runtime
    graph = from_onnx(model)
    for entry in model.graph.output:
        shape = entry.type.tensor_type.shape
        shape.SetInParent()
        for size in graph.tensors[entry.name].shape:
            shape.dim.add().dim_value = size
    try:
        onnx.checker.check_model(model, full_check=True)
        onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception as error:
        error.add_note(f"in the case of seed {seed}")
        raise


@pytest.mark.parametrize("name", [b"Gemm", b"first", b"axis", b"w", b"h"])
def test_names_that_are_not_text_are_refused(onnx: Any, tmp_path: Path, name: bytes) -> None:
    whole = two_nodes(onnx).SerializeToString()
    path = tmp_path / "damaged.onnx"
    path.write_bytes(
        whole.replace(bytes([len(name)]) + name, bytes([len(name)]) + b"\xff" + name[1:])
    )
    with pytest.raises(CompileError, match=r"the name b'\\xff.* is not text in UTF-8"):
        from_onnx(path)


def test_domains_that_are_not_text_are_refused(onnx: Any, tmp_path: Path) -> None:
    model = two_nodes(onnx)
    model.opset_import.append(onnx.helper.make_opsetid("other", 1))
    path = tmp_path / "damaged.onnx"
    path.write_bytes(model.SerializeToString().replace(b"other", b"oth\xffr"))
    with pytest.raises(CompileError, match=r"the name b'oth\\xffr' is not text in UTF-8"):
        from_onnx(path)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("Gemm", ["x"], {}),
        ("Concat", ["x", "w"], {}),
        ("Cast", ["x"], {}),
        ("Add", [], {}),
        ("Reshape", ["x", ""], {}),
        ("Shape", [], {}),
        ("Transpose", ["x"], {"perm": [0, 5]}),
        ("Softmax", ["x"], {"axis": b"one"}),
        ("Split", ["x"], {"axis": 7, "num_outputs": 2}),
        ("Softmax", ["x"], {"axis": 64}),
        ("Flatten", ["x"], {"axis": 3}),
        ("LayerNormalization", ["x", "w"], {"axis": 2}),
        ("Gather", ["x", "one"], {"axis": 2**62}),
        ("ArgMax", ["x"], {"axis": -3}),
        ("ReduceSum", ["x", "beyond"], {}),
        ("ReduceSum", ["x", "twice"], {}),
        ("Squeeze", ["x", "beyond"], {}),
        ("Unsqueeze", ["x", "beyond"], {}),
        ("Unsqueeze", ["x", "again"], {}),
        ("Concat", ["x", "x"], {"axis": -7}),
        ("CumSum", ["x", "beyond"], {}),
        ("ScatterND", ["x", "rows", "one"], {"reduction": "add"}),
        ("OneHot", ["x", "huge", "twice"], {}),
        ("Attention", ["q", "q", "q", "", "q"], {}),
        ("Split", ["x", "beyond"], {}),
        ("Split", ["x", "again"], {"axis": 1}),
        ("Split", ["x"], {"num_outputs": 2}),
        ("Gemm", ["q", "w"], {"transB": 1}),
        ("Gemm", ["x", "w", "stack"], {}),
        ("Conv", ["w", "w"], {}),
        ("Conv", ["q", "w"], {}),
    ],
)
def test_nodes_that_no_operator_takes_are_refused(
    onnx: Any, op: str, inputs: list[str], attributes: dict[str, Any]
) -> None:
    model = two_nodes(onnx)
    numbers = {
        "one": 1, "beyond": [64], "twice": [1, -1], "again": [1, -3], "rows": [[0], [1]],
        "huge": 2**62,
    }  # fmt: skip
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.array(numbers[name], np.int64), name) for name in numbers
    )
    kind = onnx.TensorProto.FLOAT
    model.graph.input.append(onnx.helper.make_tensor_value_info("q", kind, [1, 2, 4, 8]))
    model.graph.input.append(onnx.helper.make_tensor_value_info("stack", kind, [5, 2, 3]))
    del model.graph.node[1:]
    model.graph.node[0].CopyFrom(onnx.helper.make_node(op, inputs, ["y"], name="n", **attributes))
    with pytest.raises(CompileError, match=r"from_onnx\(two\)"):
        from_onnx(model)


def test_updates_of_a_long_axis_take_no_memory_of_its_length(onnx: Any) -> None:
    model = two_nodes(onnx)
    entry = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2**40, 4])
    model.graph.input[0].CopyFrom(entry)
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.array([[0, 3]], np.int64), "places")
    )
    model.graph.input.append(onnx.helper.make_tensor_value_info("new", onnx.TensorProto.FLOAT, [1]))
    del model.graph.node[1:]
    node = onnx.helper.make_node("ScatterND", ["x", "places", "new"], ["y"], name="n")
    model.graph.node[0].CopyFrom(node)
    with bounded(_SECONDS), pytest.raises(CompileError, match="not rows of one axis"):
        from_onnx(model)


def test_positions_of_an_axis_are_numbers_that_are_exact(onnx: Any) -> None:
    model = two_nodes(onnx)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 2**24 + 1
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    del model.graph.node[1:]
    node = onnx.helper.make_node("ArgMax", ["x"], ["y"], name="n", axis=1)
    model.graph.node[0].CopyFrom(node)
    with pytest.raises(CompileError, match="an axis of 16,777,217; known are axes up to"):
        from_onnx(model)


def test_weights_that_are_no_numbers_are_read_without_a_warning(onnx: Any) -> None:
    """Of all kinds: some of them have processors report an invalid operation."""
    model = two_nodes(onnx)
    numbers = np.full(12, 0x7FA00000, np.uint32).view(np.float32).reshape(4, 3)
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(numbers, "w"))
    assert {tensor.name for tensor in from_onnx(model).with_role("weight")} == {"w"}


def test_no_axes_are_not_axes_left_out(onnx: Any) -> None:
    """An empty list takes no axis away, and a missing one all of size 1."""
    for axes, shape in (([], (1, 4)), (None, (4,))):
        model = two_nodes(onnx)
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
        inputs = ["h"]
        if axes is not None:
            empty = onnx.numpy_helper.from_array(np.array(axes, np.int64), "axes")
            model.graph.initializer.append(empty)
            inputs.append("axes")
        nodes = [("Neg", ["x"], ["h"]), ("Squeeze", inputs, ["z"]), ("Neg", ["z"], ["y"])]
        del model.graph.node[:]
        model.graph.node.extend(onnx.helper.make_node(*node) for node in nodes)
        assert from_onnx(model).evaluate({"x": np.ones((1, 4))})["y"].shape == shape


@pytest.mark.parametrize("model", [None, 3, b"x", [1], "missing"])
def test_what_is_no_model_is_refused(onnx: Any, model: Any) -> None:
    with pytest.raises(CompileError, match="from_onnx"):
        from_onnx(model)
