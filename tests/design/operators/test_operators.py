"""The operator graph: its rules and their errors, cost, text, JSON and values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stepsim.design import Dim, Edge, Index, Op, Operand, OperatorGraph, Tensor, Tiling, block
from stepsim.design.operators import values as values_module
from stepsim.design.operators.expressions import FUNCTIONS, flops_of_expression
from stepsim.design.operators.structured import STRUCTURED
from stepsim.errors import CompileError

M, N, K = Dim("m", 4), Dim("n", 6), Dim("k", 8, "reduction")
PRODUCT = ("mul", ("arg", 0), ("arg", 1))


def at(tensor: str, *dims: str) -> Operand:
    return Operand(tensor, tuple(map(Index.of, dims)))


MATMUL = Op(
    "mm", "generic", (M, N, K), (at("x", "m", "k"), at("w", "n", "k")), at("h", "m", "n"),
    PRODUCT, "sum", where="net.fc (net.py:3)",
)  # fmt: skip
SILU = Op("act", "generic", (M, N), (at("h", "m", "n"),), at("y", "m", "n"), ("silu", ("arg", 0)))
TENSORS = {
    t.name: t
    for t in (
        Tensor("x", (4, 8), "i8", "input"), Tensor("w", (6, 8), "i4", "weight"),
        Tensor("h", (4, 6), "i8"), Tensor("y", (4, 6), "i8", "output"),
    )
}  # fmt: skip


def graph(*ops: Op, **tensors: Tensor) -> OperatorGraph:
    return OperatorGraph("net", TENSORS | tensors, ops or (MATMUL, SILU), {"phase": "prefill"})


def test_a_graph_says_who_makes_and_reads_what() -> None:
    g = graph()
    assert g.producers == {"h": MATMUL, "y": SILU}
    assert g.consumers == {"x": ((MATMUL, 0),), "w": ((MATMUL, 1),), "h": ((SILU, 0),), "y": ()}
    assert g.edges == (Edge("h", "mm", "act", 0),)
    assert g.outputs == ("y",)
    assert g.op("act") is SILU
    assert [MATMUL.is_matmul, SILU.is_matmul, MATMUL.elementwise, SILU.elementwise] == [
        True, False, False, True,
    ]  # fmt: skip


def test_costs() -> None:
    g = graph()
    assert (MATMUL.flops, SILU.flops) == (2 * 4 * 6 * 8, 8 * 4 * 6)
    assert g.flops == 384 + 192
    assert (g.parameters, g.matrix_parameters, g.intermediate_bytes) == (48, 48, 24)
    assert TENSORS["w"].bytes == 24
    with_bias = graph(
        replace(MATMUL, inputs=(*MATMUL.inputs, at("b", "n")), body=("add", PRODUCT, ("arg", 2))),
        SILU, b=Tensor("b", (6,), "i8", "weight"),
    )  # fmt: skip
    assert (with_bias.parameters, with_bias.matrix_parameters) == (54, 48)
    assert with_bias.flops == 4 * 6 * 8 * 3 + 192


def test_expressions_have_the_functions_of_scalars_of_the_language() -> None:
    import stepsim as st

    weights = {"silu": 8, "exp": 4, "add": 1, "max": 1, "rsqrt": 4, "gelu": 8, "gelu_tanh": 12}
    for name, weight in weights.items():
        fn = getattr(st.fn, name)
        assert FUNCTIONS[name] is fn
        assert flops_of_expression((name, *[("arg", 0)] * fn.arity)) == weight
    assert not {"matmul", "row_sum", "transpose", "causal_mask"} & set(FUNCTIONS)


def test_text() -> None:
    assert graph().text() == (
        "net (phase prefill)\n"
        "2 operators, 576 FLOPs, 48 parameters\n"
        "  x: input 4x8 i8\n"
        "  w: weight 6x8 i4\n"
        "  mm  : h[m, n] += x[m, k] * w[n, k] over m 4, n 6, sum k 8\n"
        "  act : y[m, n] = silu(h[m, n]) over m 4, n 6 -> output\n"
    )
    tiled = replace(SILU, tiling=Tiling({"n": 3}, ("n", "m"), 3))
    assert str(tiled).endswith("over m 4, n 6 [loops n/3 m, unroll 3]")
    assert str(Index((("m", 1), ("n", -2)), -3)) == "m - 2*n - 3"


WEIGHT = Tensor("z", (4, 6), "i8", "weight")

BROKEN: list[tuple[Any, str]] = [
    (lambda: graph(SILU, MATMUL), "'act': reads 'h' before an operator makes it"),
    (lambda: graph(MATMUL), "no operator makes y: output 4x6 i8"),
    (lambda: graph(MATMUL, SILU, replace(SILU, name="more")), "'more': writes 'y' a second time"),
    (lambda: graph(MATMUL, SILU, SILU), "several operators are called 'act'"),
    (lambda: graph(more=Tensor("more", (2,), "i8", "input")), "nothing reads more: input 2 i8"),
    (lambda: graph(other=TENSORS["x"]), "tensor 'x' is listed under the name 'other'"),
    (lambda: graph(x=Tensor("x", (4, 8), "i9", "input")), "unknown scalar type 'i9'"),
    (lambda: graph(x=Tensor("x", (4, 0), "i8", "input")), "'x' has shape (4, 0)"),
    (lambda: graph(x=Tensor("x", (4, 8), "i8", "weights")), "did you mean 'weight'?"),  # type: ignore[arg-type]
    (lambda: graph(x=Tensor("x", (4, 7), "i8", "input")),
     "operator 'mm' (net.fc (net.py:3)): x[m, k] reads positions 0 to 7 of axis 1, which has 7"),
    (lambda: graph(x=Tensor("x", (4,), "i8", "input")), "x[m, k] has 2 positions"),
    (lambda: graph(MATMUL, replace(SILU, output=at("z", "m", "n")), z=WEIGHT),
     "writes 'z', which is a weight"),
    (lambda: graph(replace(MATMUL, output=at("z", "m", "n")), SILU), "there is no tensor 'z'"),
    (lambda: graph(replace(MATMUL, output=at("h", "m", "m")), SILU), "must use each parallel dim"),
    (lambda: graph(replace(MATMUL, combine=None), SILU), "combine is None with reduction dims"),
    (lambda: graph(replace(MATMUL, combine="mean"), SILU), "combine is 'mean'"),  # type: ignore[arg-type]
    (lambda: graph(replace(MATMUL, body=("arg", 0)), SILU), "the body does not use input 1"),
    (lambda: graph(replace(MATMUL, body=("mull", ("arg", 0), ("arg", 1))), SILU),
     "'mull' is not a scalar function of st.fn; did you mean 'mul'?"),
    (lambda: graph(replace(MATMUL, body=("mul", ("arg", 0))), SILU), "mul takes 2 operands"),
    (lambda: graph(replace(MATMUL, body=("mul", ("arg", 0), ("arg", 2))), SILU), "i below 2"),
    (lambda: graph(replace(MATMUL, body=("mul", ("arg", 0), ("const", 1))), SILU), "a float"),
    (lambda: graph(replace(MATMUL, body=None), SILU), "expected a tuple"),
    (lambda: graph(replace(MATMUL, kind="rotari"), SILU), "did you mean 'rotary'?"),
    (lambda: graph(replace(MATMUL, dims=(M, N, replace(K, name="n"))), SILU), "not distinct"),
    (lambda: graph(replace(MATMUL, dims=(M, K)), SILU), "w[n, k] uses dim 'n'"),
    (lambda: graph(replace(MATMUL, attributes={"a": 1}), SILU), "has attributes {'a': 1}"),
    (lambda: graph(MATMUL, replace(SILU, dims=(replace(M, size=2), N))), "each of the 4 positions"),
    (lambda: graph(MATMUL, replace(SILU, tiling=Tiling({}, ("m",)))), "order m, n"),
    (lambda: graph(MATMUL, replace(SILU, tiling=Tiling({"n": 4}, ("m", "n")))), "a divisor of"),
    (lambda: graph(MATMUL, replace(SILU, tiling=Tiling({}, ("m", "n"), 25))), "from 1 to 24"),
    (lambda: graph(MATMUL, replace(SILU, kind="opaque", body=None,
                                   attributes={"target": "f", "flops": -1})), "use an int from 0"),
    (lambda: graph(MATMUL, replace(SILU, kind="causal_mask", body=None, attributes={})),
     "give key, query, start, window"),
    (lambda: graph(MATMUL, replace(SILU, kind="rotary", body=None)), "takes 3 inputs, found 1"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_a_broken_rule_is_named(make: Any, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        make()
    assert message in str(caught.value)


def test_an_output_must_be_written_once_everywhere() -> None:
    heads = (Dim("m", 4), Dim("h", 2), Dim("d", 3))
    for terms, fits in (
        ((("h", 3), ("d", 1)), True),
        ((("d", 2), ("h", 1)), True),
        ((("h", 2), ("d", 1)), False),
        ((("h", 1), ("d", 1)), False),
    ):
        output = Operand("y", (Index.of("m"), Index(terms)))
        op = replace(SILU, dims=heads, inputs=(replace(output, tensor="h"),), output=output)
        if fits:
            graph(MATMUL, op)
        else:
            with pytest.raises(CompileError, match="does not write each of the 6 positions"):
                graph(MATMUL, op)


# JSON


def test_graphs_survive_json() -> None:
    g = graph(MATMUL, replace(SILU, tiling=Tiling({"n": 3}, ("n", "m"), 3)))
    assert OperatorGraph.from_json(g.to_json()) == g
    infinite = replace(SILU, body=("max", ("arg", 0), ("const", -math.inf)))
    assert OperatorGraph.from_json(graph(MATMUL, infinite).to_json()) == graph(MATMUL, infinite)
    for phase in ("prefill", "decode"):
        whole = block("gemma-3-1b", phase)  # type: ignore[arg-type]
        assert OperatorGraph.from_json(whole.to_json()) == whole


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("stepsim operator graph 1", "stepsim operator graph 9"), "found 'stepsim operator gr"),
        (('"k", 8, "reduction"', '"k", 9, "reduction"'), "reads positions 0 to 8 of axis 1"),
        (('"dims": ', '"dim": '), "unknown key 'dim'"),
        (('"name": "act", ', ""), "file.json: operator 1 is not written as"),
        (('["x", "input", "i8", [4, 8]]', '["x", "input", "i8", 7]'), "tensor 0 is not written"),
        (('"attributes": {"phase"', '"more": 1, "attributes": {"phase"'), "unknown key 'more'"),
        (("}\n]\n}", "}\n]\n"), "not valid JSON"),
    ],
)
def test_files_that_are_wrong_are_refused(change: tuple[str, str], message: str) -> None:
    text = graph().to_json()
    assert change[0] in text
    with pytest.raises(CompileError) as caught:
        OperatorGraph.from_json(text.replace(*change), "file.json")
    assert message in str(caught.value)
    assert str(caught.value).startswith("file.json")


# Values


def given() -> dict[str, Any]:
    random = np.random.default_rng(1)
    return {"x": random.normal(size=(4, 8)), "w": random.normal(size=(6, 8))}


def test_values_in_both_precisions() -> None:
    v = given()
    h = v["x"] @ v["w"].T
    for dtype, tolerance in (("float64", 1e-13), (np.float32, 1e-5)):
        found = graph().evaluate(v, dtype)
        assert set(found) == set(TENSORS)
        np.testing.assert_allclose(found["y"], h / (1 + np.exp(-h)), rtol=tolerance, atol=tolerance)
    wide = {"x": v["x"][None], "w": v["w"]}
    np.testing.assert_array_equal(graph().evaluate(wide)["y"], graph().evaluate(v)["y"])


def test_repeated_reads_and_unread_dims_count() -> None:
    """A sum over a dim that no operand has multiplies; a parallel one repeats."""
    op = Op("s", "generic", (M, N, K), (at("a", "m"),), at("y", "m", "n"),
            ("mul", ("const", 0.5), ("arg", 0)), "sum")  # fmt: skip
    tensors = {"a": Tensor("a", (4,), "i8", "input"), "y": TENSORS["y"]}
    found = OperatorGraph("g", tensors, (op,)).evaluate({"a": [1, 2, 3, 4]})["y"]
    np.testing.assert_array_equal(found, np.repeat([[4], [8], [12], [16]], 6, 1))


def test_large_reductions_are_computed_in_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    op = replace(MATMUL, body=("square", ("sub", ("arg", 0), ("arg", 1))), dims=(K, N, M))
    v = given()
    expected = ((v["x"][:, None] - v["w"][None]) ** 2).sum(2)
    for most in (1 << 26, 10):
        monkeypatch.setattr(values_module, "_MOST_AT_ONCE", most)
        found = graph(op, SILU).evaluate(v, "float64")["h"]
        np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"x": np.ones((4, 8))}, "values of w: weight 6x8 i4 are missing"),
        ({**given(), "wx": 1}, "called 'wx'"),
        ({**given(), "h": 1}, "no input, weight or state is called 'h'"),
        ({**given(), "x": np.ones((8, 4))}, "have shape (8, 4); give (4, 8)"),
        ({**given(), "x": np.full((4, 8), "a")}, "expected numbers"),
    ],
)
def test_values_that_do_not_fit_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError) as caught:
        graph().evaluate(values)
    assert message in str(caught.value)
    with pytest.raises(CompileError, match="float32 or float64, found int8"):
        graph().evaluate(given(), "int8")


def test_every_structured_kind_has_values() -> None:
    assert set(values_module._KINDS) == {"generic", *STRUCTURED}
