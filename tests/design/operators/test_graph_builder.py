"""The builder: what its operators compute, how views fold away, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepsim.design import GraphBuilder, OperatorGraph, Ref
from stepsim.errors import CompileError


def drawn(graph: OperatorGraph) -> dict[str, Any]:
    random = np.random.default_rng(2)
    return {
        t.name: random.normal(size=t.shape) for t in graph.with_role("input", "weight", "state")
    }


def softmax(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def names(graph: OperatorGraph) -> list[str]:
    return [op.name for op in graph.ops]


def test_views_record_nothing() -> None:
    b = GraphBuilder("views")
    x = b.input("x", (4, 12))
    q, k, v = b.chunk(x, 3)
    heads = b.transpose(b.reshape(k, (4, 2, 2)), 0, 1)
    y = b.permute(heads, (0, 2, 1))
    b.output(b.square(y), "y")
    b.output(b.mul(q, v), "z")
    g = b.graph()
    assert names(g) == ["square", "mul"]
    assert str(g.op("square")) == (
        "y[d0, d1, d2] = square(x[d2, 2*d0 + d1 + 4]) over d0 2, d1 2, d2 4"
    )
    found = g.evaluate(drawn(g), "float64")
    part = found["x"][:, 4:8].reshape(4, 2, 2).transpose(1, 2, 0)
    np.testing.assert_array_equal(found["y"], part**2)


def test_what_is_read_merged_is_stored_merged() -> None:
    b = GraphBuilder("heads")
    q, k = b.input("q", (5, 2, 3)), b.input("k", (5, 2, 3))
    scores = b.matmul(b.permute(q, (1, 0, 2)), b.permute(k, (1, 2, 0)))
    merged = b.reshape(b.permute(scores, (1, 0, 2)), (5, 10))
    b.output(b.linear(merged, b.weight("w", (4, 10))), "y")
    g = b.graph()
    assert names(g) == ["matmul", "linear"]
    assert g.tensors["matmul"].shape == (5, 10)
    assert str(g.op("matmul").output) == "matmul[m, 5*b0 + n]"
    assert str(g.op("linear").inputs[0]) == "matmul[m, k]"


def test_storage_that_is_fixed_splits_the_loop_instead() -> None:
    b = GraphBuilder("fixed")
    x = b.input("x", (5, 2, 3))
    b.output(b.linear(b.reshape(x, (5, 6)), b.weight("w", (4, 6))), "y")
    g = b.graph()
    assert str(g.op("linear")) == (
        "y[m, n] += x[m, k0, k1] * w[n, 3*k0 + k1] over m 5, n 4, sum k0 2, sum k1 3"
    )
    found = g.evaluate(drawn(g), "float64")
    np.testing.assert_allclose(found["y"], found["x"].reshape(5, 6) @ found["w"].T, rtol=1e-13)


def test_what_no_loop_can_express_is_copied() -> None:
    b = GraphBuilder("copied")
    x = b.input("x", (4, 6))
    b.output(b.square(b.reshape(b.transpose(x), (4, 6))), "y")
    cut = b.reshape(b.input("z", (2, 3)), (6,))
    b.output(b.add(cut, b.reshape(b.input("u", (3, 2)), (6,))), "s")
    g = b.graph()
    assert names(g) == ["copy", "square", "copy_2", "add"]
    found = g.evaluate(drawn(g), "float64")
    np.testing.assert_array_equal(found["y"], found["x"].T.reshape(4, 6) ** 2)
    np.testing.assert_array_equal(found["s"], found["z"].ravel() + found["u"].ravel())


def test_an_output_may_have_the_name_that_an_inner_result_got() -> None:
    """Exporters number results as well: `square_1` of a file need not be ours."""
    b = GraphBuilder("named")
    inner = b.square(b.input("x", (3, 4)))
    last = b.square(inner)
    b.output(last, inner.tensor)
    graph = b.graph()
    assert [one.name for one in graph.with_role("output")] == [inner.tensor]
    assert [one.name for one in graph.with_role("intermediate")] == [f"{inner.tensor}_inside"]
    assert [op.output.tensor for op in graph.ops] == [f"{inner.tensor}_inside", inner.tensor]


def test_outputs_are_stored_as_they_are_seen() -> None:
    b = GraphBuilder("outputs")
    x = b.input("x", (4, 6))
    y = b.square(x)
    b.output(b.transpose(y), "t")  # stored transposed
    b.output(b.slice(y, 0, 1, 3), "s")  # no whole tensor
    b.output(x, "x_again")  # from off chip
    g = b.graph()
    assert names(g) == ["square", "copy", "copy_2"]
    found = g.evaluate(drawn(g), "float64")
    for name, wanted in (
        ("t", found["x"].T ** 2), ("s", found["x"][1:3] ** 2), ("x_again", found["x"]),
    ):  # fmt: skip
        np.testing.assert_array_equal(found[name], wanted)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("lead", [(), (3,)])
def test_attention_is_that_of_its_definition(groups: int, lead: tuple[int, ...]) -> None:
    b = GraphBuilder("sdpa")
    q = b.input("q", (*lead, 4, 5, 6))
    k, v = (b.input(name, (*lead, groups, 7, 6)) for name in "kv")
    mask = b.input("mask", (5, 7))
    b.output(b.sdpa(q, k, v, enable_gqa=True, scale=0.3, mask=mask), "y")
    b.output(b.sdpa(q, k, v, causal=True, enable_gqa=True), "c")
    b.output(b.sdpa(q, k, v, causal=True, enable_gqa=True, start=0, window=2), "w")
    g = b.graph()
    found = g.evaluate(drawn(g), "float64")
    wide = [np.repeat(found[name], 4 // groups, -3) for name in "kv"]
    scores = found["q"] @ np.swapaxes(wide[0], -1, -2)
    expected = softmax(scores * 0.3 + found["mask"]) @ wide[1]
    np.testing.assert_allclose(found["y"], expected, rtol=1e-12)
    rows, cols = np.arange(5)[:, None], np.arange(7)
    for name, seen in (("c", cols <= rows + 2), ("w", (cols <= rows) & (cols > rows - 2))):
        hidden = np.where(seen, scores / np.sqrt(6), -np.inf)
        np.testing.assert_allclose(found[name], softmax(hidden) @ wide[1], rtol=1e-12)


def test_grouped_attention_reads_keys_by_their_group_alone() -> None:
    b = GraphBuilder("gqa")
    q, k = b.input("q", (5, 24)), b.input("k", (5, 12))
    heads = [b.transpose(b.reshape(x, (5, n, 6)), 0, 1) for x, n in ((q, 4), (k, 2))]
    b.output(b.sdpa(heads[0], heads[1], heads[1], enable_gqa=True), "y")
    assert str(b.graph().op("sdpa.matmul")) == (
        "sdpa.matmul[b0, b1, m, n] += q[m, 12*b0 + 6*b1 + k] * k[n, 6*b0 + k] "
        "over b0 2, b1 2, m 5, n 5, sum k 6"
    )


def test_keys_that_are_repeated_by_views_are_no_copies() -> None:
    """``repeat_kv`` of Hugging Face: expand, then merge the new axis with the heads."""
    b = GraphBuilder("repeat")
    q, k = b.input("q", (4, 5, 6)), b.input("k", (2, 7, 6))
    wide = b.reshape(b.expand(b.unsqueeze(k, 1), (2, 2, 7, 6)), (4, 7, 6))
    b.output(b.bmm(q, b.transpose(wide)), "y")
    g = b.graph()
    assert names(g) == ["bmm"]
    assert "q[2*b00 + b01, m, k] * k[b00, n, k]" in str(g.ops[0])
    found = g.evaluate(drawn(g), "float64")
    expected = found["q"] @ np.repeat(found["k"], 2, 0).transpose(0, 2, 1)
    np.testing.assert_allclose(found["y"], expected, rtol=1e-13)


def test_norms_and_activations() -> None:
    from math import erf

    b = GraphBuilder("norms")
    x = b.input("x", (3, 8))
    w, c = b.weight("w", (8,)), b.weight("c", (8,))
    b.output(b.layer_norm(x, w, c, 1e-5), "layer")
    b.output(b.layer_norm(x), "plain")
    b.output(b.rms_norm(x, w, 1e-6, unit_offset=True), "offset")
    b.output(b.gelu(x), "gelu")
    b.output(b.gelu(x, "tanh"), "tanh")
    b.output(b.mean(x, 0), "mean")
    g = b.graph()
    found = g.evaluate(drawn(g), "float64")
    x_, w_ = found["x"], found["w"]
    plain = (x_ - x_.mean(-1, keepdims=True)) / np.sqrt(x_.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found["plain"], plain, rtol=1e-12)
    np.testing.assert_allclose(found["layer"], plain * w_ + found["c"], rtol=1e-12)
    root = np.sqrt((x_**2).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(found["offset"], x_ / root * (1 + w_), rtol=1e-12)
    exact = x_ / 2 * (1 + np.vectorize(erf)(x_ / np.sqrt(2)))
    np.testing.assert_allclose(found["gelu"], exact, rtol=1e-6, atol=1e-7)  # st.fn has it in f32
    assert 1e-5 < abs(found["tanh"] - exact).max() < 1e-3
    np.testing.assert_allclose(found["mean"], x_.mean(0), rtol=1e-12)


def test_embeddings_take_rows() -> None:
    b = GraphBuilder("embedding")
    rows = b.input("rows", (2, 3), "u32")
    b.output(b.embedding(rows, b.weight("table", (5, 4))), "y")
    g = b.graph()
    table = np.arange(20.0).reshape(5, 4)
    found = g.evaluate({"rows": [[4, 0, 1], [1, 2, 4]], "table": table})["y"]
    np.testing.assert_array_equal(found, table[[[4, 0, 1], [1, 2, 4]]])
    for wrong in (5, -1, 0.5):
        with pytest.raises(
            CompileError, match=f"index {wrong:g} of 'rows' is not a row of 'table'"
        ):
            g.evaluate({"rows": np.full((2, 3), wrong), "table": table})


def test_rotary_takes_angles_of_pairs_or_of_columns() -> None:
    b = GraphBuilder("rotary")
    x, cos, sin = b.input("x", (5, 2, 8)), b.input("cos", (5, 1, 4)), b.input("sin", (5, 1, 4))
    double = [b.concat([part, part], -1) for part in (cos, sin)]
    b.output(b.rotary(x, cos, sin), "half")
    b.output(b.rotary(x, *double), "columns")
    b.output(b.rotary(x, cos, sin, pairs="interleaved"), "interleaved")
    g = b.graph()
    found = g.evaluate(drawn(g), "float64")
    x_, c, s = found["x"], found["cos"], found["sin"]
    e, o = x_[..., :4], x_[..., 4:]
    half = np.concatenate([e * c - o * s, o * c + e * s], -1)
    np.testing.assert_allclose(found["half"], half, rtol=1e-13)
    np.testing.assert_allclose(found["columns"], half, rtol=1e-13)
    e, o = x_[..., ::2], x_[..., 1::2]
    pairs = np.stack([e * c - o * s, o * c + e * s], -1).reshape(x_.shape)
    np.testing.assert_allclose(found["interleaved"], pairs, rtol=1e-13)
    assert g.op("rotary").flops == 3 * 5 * 2 * 8


def test_the_cache_grows_at_its_end() -> None:
    b = GraphBuilder("cache")
    cache, new = b.state("cache", (2, 6, 3)), b.input("new", (2, 1, 3))
    full = b.cache_append(cache, new)
    assert full.shape == (2, 7, 3)
    b.output(b.scale(full, 2), "y")
    g = b.graph()
    found = g.evaluate(drawn(g), "float64")
    expected = np.concatenate([found["cache"], found["new"]], 1) * 2
    np.testing.assert_array_equal(found["y"], expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_parts_that_are_views_are_joined(axis: int) -> None:
    b = GraphBuilder("parts")
    made = b.square(b.input("x", (2, 3, 4)))
    merged = b.reshape(b.permute(made, (2, 0, 1)), (4, 6))  # stored so
    fixed = b.reshape(b.input("z", (4, 2, 3)), (4, 6))  # copied
    part = b.slice(b.input("u", (4, 8)), 1, 1, 7)
    b.output(b.concat([merged, fixed, part, merged], axis), "y")
    g = b.graph()
    assert names(g) == ["square", "copy", "concat"]
    found = g.evaluate(drawn(g), "float64")
    first = (found["x"] ** 2).transpose(2, 0, 1).reshape(4, 6)
    parts = [first, found["z"].reshape(4, 6), found["u"][:, 1:7], first]
    np.testing.assert_array_equal(found["y"], np.concatenate(parts, axis))


def test_opaque_operators_have_cost_and_no_values() -> None:
    b = GraphBuilder("opaque")
    x = b.square(b.input("x", (3, 4)))
    with b.at("net.fft", "net.py:9"):
        y = b.opaque("aten.fft", [x], (3, 5), flops=77)
    b.output(y, "y")
    g = b.graph()
    assert g.flops == 12 + 77
    assert "opaque(square[i0_0, i0_1], target=aten.fft, flops=77)" in g.text()
    message = r"operator 'net\.fft\.opaque' \(net\.fft \(net\.py:9\)\): 'aten\.fft' is opaque"
    with pytest.raises(CompileError, match=message):
        g.evaluate({"x": np.ones((3, 4))})


def test_names_and_places_are_those_of_the_modules() -> None:
    b = GraphBuilder("places", "bf16", "i4", layers=2)
    x = b.input("x", (3, 4))
    with b.at("mlp"), b.at("up", "model.py:7"):
        y = b.linear(x, b.weight("up", (6, 4)), b.weight("bias", (6,)))
    b.output(b.silu(y), "y")
    g = b.graph()
    assert names(g) == ["mlp.up.linear", "mlp.up.bias", "silu"]
    assert g.op("mlp.up.linear").where == "mlp.up (model.py:7)"
    assert g.op("silu").where.startswith("test_graph_builder.py:")
    assert [g.tensors[name].dtype for name in ("x", "up", "bias")] == ["bf16", "i4", "bf16"]
    assert g.attributes == {"layers": 2}


def _b(*shapes: tuple[int, ...]) -> tuple[GraphBuilder, list[Ref]]:
    b = GraphBuilder("wrong")
    return b, [b.input(f"x{i}", shape) for i, shape in enumerate(shapes)]


REFUSED: list[tuple[Any, list[tuple[int, ...]], str]] = [
    (lambda b, x, w: b.linear(x, w), [(3, 4), (5, 6)], "dim k is 4 and 6"),
    (lambda b, x, w: b.linear(x, w), [(3, 4), (5,)], "give a matrix (out, in)"),
    (lambda b, x, w: b.linear(x, x, w), [(3, 3), (2,)], "the bias is Ref(x1: 2); give 3 values"),
    (lambda b, x, y: b.matmul(x, y), [(3,), (3,)], "give a matrix at least"),
    (lambda b, x, y: b.matmul(x, y), [(2, 3, 4), (3, 4, 5)], "dim b0 is 2 and 3"),
    (lambda b, x, y: b.bmm(x, y), [(2, 3, 4), (3, 4, 5)], "two batches of as many matrices"),
    (lambda b, x, y: b.add(x, y), [(3, 4), (3, 5)], "dim d1 is 4 and 5"),
    (lambda b, x: b.add(1, 2), [(3,)], "all operands are numbers"),
    (lambda b, x: b.add(x, "1"), [(3,)], "give values and numbers"),
    (lambda b, x: b.apply("sine", x), [(3,)], "'sine' is not a scalar function"),
    (lambda b, x: b.reshape(x, (5, 2)), [(3, 4)], "does not have shape (5, 2)"),
    (lambda b, x: b.reshape(x, (-1, -1)), [(3, 4)], "does not have shape (-1, -1)"),
    (lambda b, x: b.permute(x, (0, 0)), [(3, 4)], "is not an order of the axes"),
    (lambda b, x: b.softmax(x, 2), [(3, 4)], "has no axis 2"),
    (lambda b, x: b.slice(x, 0, 3), [(3, 4)], "is empty"),
    (lambda b, x: b.slice(x, 0, 0, 3, -1), [(3, 4)], "step is -1"),
    (lambda b, x: b.split(x, [1, 1], 0), [(3, 4)], "do not add up to 3"),
    (lambda b, x: b.chunk(x, 0), [(3, 4)], "0 pieces"),
    (lambda b, x: b.select(x, 0, 3), [(3, 4)], "has no position 3"),
    (lambda b, x: b.squeeze(x, 0), [(3, 4)], "has size 3; name one of size 1"),
    (lambda b, x: b.unsqueeze(x, 4), [(3, 4)], "has no place 4"),
    (lambda b, x: b.expand(x, (2, 4)), [(3, 4)], "does not repeat to (2, 4)"),
    (lambda b, x: b.expand(x, (4,)), [(3, 4)], "has more axes than"),
    (lambda b, x: b.gelu(x, "erf"), [(3, 4)], "use 'none' or 'tanh'"),
    (lambda b, x, w: b.rms_norm(x, w, 1e-6), [(3, 4), (3,)], "the weight is Ref(x1: 3)"),
    (lambda b, x: b.rms_norm(x, None, -1), [(3, 4)], "eps is -1"),
    (lambda b, x, t: b.embedding(x, t), [(3,), (4,)], "give a matrix (rows, width)"),
    (lambda b, x, c: b.rotary(x, c, c), [(3, 5), (3, 2)], "has no pairs"),
    (lambda b, x, c: b.rotary(x, c, c), [(3, 6), (3, 2)], "give 3 or 6 columns"),
    (lambda b, x, c: b.rotary(x, c, c, "all"), [(3, 6), (3, 3)], "use 'half' or 'interleaved'"),
    (lambda b, x: b.causal_mask(x), [(3,)], "give axes of queries and keys"),
    (lambda b, x: b.causal_mask(x, -1), [(3, 3)], "start is -1"),
    (lambda b, x: b.causal_mask(x, 0, 0), [(3, 3)], "window is 0"),
    (lambda b: b.concat([]), [], "give a value at least"),
    (lambda b, x, y: b.concat([x, y], 0), [(3, 4), (3, 5)], "do not fit along axis 0"),
    (lambda b, q, k: b.sdpa(q, k, k), [(4, 5), (4, 5)], "axes of heads, tokens and width"),
    (lambda b, q, k: b.sdpa(q, k, k, enable_gqa=True), [(4, 5, 6), (3, 5, 6)], "do not share"),
    (lambda b, q: b.sdpa(q, q, q, window=2), [(4, 5, 6)], "set causal, or drop them"),
    (lambda b: b.opaque("f", [], (3,)), [], "opaque f has no input"),
    (lambda b, x: b.input("x0", (3,)), [(3,)], "a tensor is called 'x0' already"),
    (lambda b, x: b.weight("w", (0,)), [(3,)], "weight 'w' has shape (0,)"),
    (lambda b, x: b.output(b.square(x), "x0"), [(3,)], "give the output another name"),
    (lambda b, x: b.graph(), [(3,)], "the graph has no output"),
]


@pytest.mark.parametrize(("call", "shapes", "message"), REFUSED, ids=[r[2] for r in REFUSED])
def test_what_does_not_fit_is_refused(call: Any, shapes: Any, message: str) -> None:
    b, xs = _b(*shapes)
    with b.at("net.block", "net.py:5"), pytest.raises(CompileError) as caught:
        call(b, *xs)
    assert message in str(caught.value)
    assert "wrong (net.block" in str(caught.value)
    assert "net.py:5)): " in str(caught.value)


def test_a_value_in_vain_is_refused() -> None:
    b, (x,) = _b((3, 4))
    b.output(b.square(x), "y")
    b.silu(x)
    with pytest.raises(CompileError, match="nothing reads silu: intermediate 3x4 i8"):
        b.graph()
