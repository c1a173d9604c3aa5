"""What importers find in models, without any framework: masks, rows of caches, places."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from stepsim.design import GraphBuilder
from stepsim.design.operators.importers import (
    from_onnx,
    from_torch,
    graph_of as made_graph,
    is_model,
    values as of,
)
from stepsim.design.operators.importers.masks import Causal, causal, hidden_by
from stepsim.design.operators.importers.recording import recorded
from stepsim.design.operators.importers.values import Place, Value
from stepsim.errors import CompileError
from tests.property_profile import profile

AT = Place("block.attn", "model.py:7")


def leaf(name: str, *shape: int, op: str = "input") -> Value:
    return Value(op, (), shape, {"name": name})


def graph_of(*inputs: Value, **outputs: Value) -> Any:
    builder = GraphBuilder("made", "f32")
    return recorded(builder, inputs, outputs, {}, reader="test", keep_going=False, costs=None)


# Masks


def seen(queries: int, keys: int, start: int, window: int | None) -> Any:
    """Which keys a causal mask shows, by its definition."""
    rows = np.zeros((queries, keys), bool)
    for i in range(queries):
        for j in range(keys):
            rows[i, j] = j <= start + i and (window is None or j > start + i - window)
    return rows


@given(st.data())
@profile(100)
def test_a_causal_mask_is_found_whatever_it_hides(data: Any) -> None:
    queries, keys = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 9))
    start = data.draw(st.integers(0, keys - 1))
    window = data.draw(st.none() | st.integers(1, keys + 2))
    rows = seen(queries, keys, start, window)
    found = causal(rows, queries, keys)
    if rows.any(axis=1).all():
        assert found is not None
        np.testing.assert_array_equal(seen(queries, keys, *found), rows)


@given(st.data())
@profile(100)
def test_what_is_read_as_a_causal_mask_hides_the_same(data: Any) -> None:
    shape = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 5)))
    bits = data.draw(st.lists(st.booleans(), min_size=20, max_size=20))
    rows = np.array(bits[: shape[0] * shape[1]]).reshape(shape)
    found = causal(rows, *shape)
    if found is not None:
        np.testing.assert_array_equal(seen(*shape, *found), rows)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (np.tril(np.ones((4, 4))), Causal(0, None)),
        (np.tril(np.ones((2, 3, 4, 4))), Causal(0, None)),
        (np.tril(np.ones((2, 7)), 5), Causal(5, None)),
        (np.triu(np.tril(np.ones((6, 6))), -2), Causal(0, 3)),
        (np.triu(np.ones((4, 4))), Causal(3, 4)),
        (np.eye(4)[::-1], None),
        (np.zeros((3, 3)), None),
        (np.stack([np.tril(np.ones((3, 3))), np.ones((3, 3))]), None),
    ],
)
def test_masks(rows: Any, expected: Causal | None) -> None:
    assert causal(rows, *rows.shape[-2:]) == expected


def test_a_mask_that_is_added_hides_by_the_lowest_numbers() -> None:
    lowest = float(np.finfo(np.float16).min)
    np.testing.assert_array_equal(hidden_by([0, lowest, -np.inf]), [False, True, True])
    assert hidden_by([0.0, 0.0]) is None
    assert hidden_by([0.5, -np.inf]) is None
    assert hidden_by([0.0, -1e4]) is None  # a number that a softmax may still see


def test_a_mask_of_zeros_is_left_out_and_a_weight_of_zeros_is_not() -> None:
    x, bias = leaf("x", 3, 4), leaf("bias", 3, 4, op="weight")
    bias.array = np.zeros((3, 4), np.float32)
    graphs = [
        graph_of(x, y=of.made("softmax", (of.elementwise("add", (x, other), AT),), (3, 4), AT,
                              axis=-1))
        for other in (of.constant(np.zeros((3, 4))), bias)
    ]  # fmt: skip
    assert [len(graph.ops) for graph in graphs] == [4, 5]
    assert [graph.parameters for graph in graphs] == [0, 12]


# Caches


def test_rows_that_were_just_written_are_read_from_where_they_come() -> None:
    cache, new = leaf("cache", 1, 8, 4, op="state"), leaf("new", 1, 2, 4)
    made = of.elementwise("neg", (new,), AT)
    written = of.replaced_rows(cache, made, 1, 3, 5, AT)
    assert of.slice_of(written, 1, 3, 5, 1, AT) is made
    whole = of.slice_of(written, 1, 0, 5, 1, AT)
    assert [part.shape[1] for part in whole.inputs] == [3, 2]
    assert of.slice_of(written, 1, 0, 8, 1, AT) is written


def test_an_input_in_front_of_computed_rows_is_a_state() -> None:
    cache, x = leaf("cache", 6, 4), leaf("x", 2, 4)
    rows = of.elementwise("neg", (x,), AT)
    graph = graph_of(cache, x, y=of.elementwise("exp", (of.concat((cache, rows), 0, AT),), AT))
    assert [tensor.name for tensor in graph.with_role("state")] == ["cache"]
    # What is computed from an input does not make a cache of it, nor do two inputs.
    turned = of.concat((x, of.elementwise("neg", (x,), AT)), 0, AT)
    assert graph_of(x, y=of.elementwise("exp", (turned,), AT)).with_role("state") == ()
    both = of.concat((cache, x), 0, AT)
    assert graph_of(cache, x, y=of.elementwise("exp", (both,), AT)).with_role("state") == ()


# Places and packages


def test_operators_say_where_they_come_from() -> None:
    x = leaf("x", 3, 4)
    graph = graph_of(x, y=of.elementwise("exp", (x,), AT))
    assert [op.where for op in graph.ops] == ["block.attn (model.py:7)"]


def test_all_unknown_operators_are_said_with_why() -> None:
    x = leaf("x", 3, 4)
    one = of.unknown("sort", [x], (3, 4), AT, "it looks at all values")
    two = of.unknown("fft", [one], (3, 4), Place("block.mlp"))
    with pytest.raises(CompileError) as caught:
        graph_of(x, y=two)
    text = str(caught.value)
    assert "2 operators are not known" in text
    assert "  sort in block.attn (model.py:7): it looks at all values\n" in text
    assert "  fft in block.mlp\n" in text


@pytest.mark.parametrize(("package", "read"), [("torch", from_torch), ("onnx", from_onnx)])
def test_a_missing_package_is_named_with_its_extra(
    package: str, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(CompileError, match=rf"pip install 'stepsim\[{package}\]'"):
        read("model")


@pytest.mark.slow
def test_nothing_of_the_frameworks_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, stepsim.design.operators.importers\n"
        "print(sorted({'torch', 'onnx', 'onnxscript', 'scipy', 'sympy', 'pyarrow'} "
        "& set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_what_a_file_makes_is_told_apart() -> None:
    x = leaf("x", 3)
    graph = graph_of(x, y=of.elementwise("exp", (x,), AT))
    assert is_model(graph)
    assert made_graph(graph) is graph
    assert is_model("model.onnx")
    for wrong in (made_graph, (1, 2), 7, "model.txt"):
        assert not is_model(wrong)
        with pytest.raises(CompileError, match="expected an operator graph"):
            made_graph(wrong)
