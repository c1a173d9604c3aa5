"""Damaged ONNX files: the importer reads them, or says in an error of stepsim what is wrong."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.design.operators.importers import from_onnx
from stepsim.errors import CompileError
from tests.design.operators.example_models import require_onnx
from tests.fuzz.mutation import damaged_bytes
from tests.fuzz.reading import outcome

pytestmark = pytest.mark.torch

_COPIES = 1275
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
        [helper.make_tensor_value_info("y", kind, [2, 3])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])


def test_damaged_copies_are_read_or_refused(onnx: Any, tmp_path: Path) -> None:
    whole = two_nodes(onnx).SerializeToString()
    path = tmp_path / "damaged.onnx"
    found = {"accepted": 0, "refused": 0}
    for seed in range(_COPIES):
        content = damaged_bytes(random.Random(seed), whole, whole)
        path.write_bytes(content)
        found[outcome(lambda: from_onnx(path), "from_onnx", content, seconds=_SECONDS)] += 1
    assert min(found.values()) > _COPIES // 100, "the damage is too small or too large"


@pytest.mark.parametrize("name", [b"Gemm", b"first", b"axis", b"w", b"h"])
def test_names_that_are_not_text_are_refused(onnx: Any, tmp_path: Path, name: bytes) -> None:
    whole = two_nodes(onnx).SerializeToString()
    path = tmp_path / "damaged.onnx"
    path.write_bytes(
        whole.replace(bytes([len(name)]) + name, bytes([len(name)]) + b"\xff" + name[1:])
    )
    with pytest.raises(CompileError, match=r"the name b'\\xff.* is not text in UTF-8"):
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
    ],
)
def test_nodes_that_no_operator_takes_are_refused(
    onnx: Any, op: str, inputs: list[str], attributes: dict[str, Any]
) -> None:
    model = two_nodes(onnx)
    del model.graph.node[1:]
    model.graph.node[0].CopyFrom(onnx.helper.make_node(op, inputs, ["y"], name="n", **attributes))
    with pytest.raises(CompileError, match=r"from_onnx\(two\)"):
        from_onnx(model)


@pytest.mark.parametrize("model", [None, 3, b"x", [1], "missing"])
def test_what_is_no_model_is_refused(onnx: Any, model: Any) -> None:
    with pytest.raises(CompileError, match="from_onnx"):
        from_onnx(model)
