"""Values of every function against numpy, padding included, and timing runs that agree."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.errors import EvaluationError
from stepsim.functional import evaluate
from stepsim.graph import Function, fn
from tests.functional.support import run_both

rng = np.random.default_rng(11)


def matrix(rows: int, cols: int) -> Any:
    return rng.normal(size=(rows, cols)).astype(np.float32)


def load(a: Any) -> st.Stream:
    return st.linear_load(np.ascontiguousarray(a, np.float32), a.shape)


def data(result: Any, stream: st.Stream, index: int = 0) -> Any:
    return result.stream(stream)[index].payload.data


erf = np.vectorize(math.erf)

UNARY = [
    (fn.silu, lambda x: x / (1 + np.exp(-x))), (fn.exp, np.exp), (fn.pow2, np.exp2),
    (fn.tanh, np.tanh), (fn.sigmoid, lambda x: 1 / (1 + np.exp(-x))), (fn.square, np.square),
    (fn.neg, np.negative), (fn.abs, np.abs), (fn.relu, lambda x: np.maximum(x, 0)),
    (fn.reciprocal, lambda x: 1 / x), (fn.gelu, lambda x: x * (1 + erf(x / np.sqrt(2))) / 2),
    (
        fn.gelu_tanh,
        lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ),
    (fn.softplus, lambda x: np.log1p(np.exp(x))), (fn.add_const(2), lambda x: x + 2),
    (fn.sub_const(2), lambda x: x - 2), (fn.mul_const(3), lambda x: 3 * x),
    (fn.div_const(4), lambda x: x / 4), (fn.floor_div_const(0.5), lambda x: np.floor(2 * x)),
    (fn.pow(3), lambda x: x**3), (fn.clamp(-0.5, 0.5), lambda x: np.clip(x, -0.5, 0.5)),
    (fn.full_like(7), lambda x: np.full_like(x, 7)), (fn.cast("f32"), lambda x: x),
    (fn.cast("i8"), np.rint), (fn.cast("bool"), lambda x: x != 0),
    (fn.transpose, np.transpose), (fn.slice_rows(1, 3), lambda x: x[1:3]),
    (fn.slice_cols(2, 5), lambda x: x[:, 2:5]),
    (fn.row_sum, lambda x: x.sum(1, keepdims=True)),
    (fn.row_max, lambda x: x.max(1, keepdims=True)),
    (fn.row_mean, lambda x: x.mean(1, keepdims=True)),
    (fn.col_sum, lambda x: x.sum(0, keepdims=True)),
    (fn.col_max, lambda x: x.max(0, keepdims=True)),
    (fn.col_mean, lambda x: x.mean(0, keepdims=True)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "expected"), UNARY, ids=[str(f) for f, _ in UNARY])
def test_functions_of_one_tile(function: Function, expected: Any) -> None:
    a = matrix(4, 6)
    with st.Program(compute_bw=8) as p:
        y = st.map(function, load(a))
        y.consume()
    np.testing.assert_allclose(data(run_both(p), y), expected(a), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("function", [fn.log, fn.sqrt, fn.rsqrt], ids=str)
def test_functions_of_positive_scalars(function: Function) -> None:
    a = np.abs(matrix(4, 6)) + 0.1
    expected = {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x)}
    with st.Program(compute_bw=8) as p:
        y = st.map(function, load(a))
        y.consume()
    np.testing.assert_allclose(data(run_both(p), y), expected[function.name](a), rtol=1e-6)


BINARY = [
    (fn.add, np.add), (fn.sub, np.subtract), (fn.mul, np.multiply), (fn.div, np.divide),
    (fn.max, np.maximum), (fn.min, np.minimum), (fn.eq, np.equal), (fn.ne, np.not_equal),
    (fn.lt, np.less), (fn.le, np.less_equal), (fn.gt, np.greater), (fn.ge, np.greater_equal),
]  # fmt: skip


@pytest.mark.parametrize(("function", "expected"), BINARY, ids=[str(f) for f, _ in BINARY])
@pytest.mark.parametrize("right", [(4, 6), (4, 1), (1, 6), (1, 1)])
def test_functions_of_two_tiles(function: Function, expected: Any, right: Any) -> None:
    a, b = matrix(4, 6).round(), matrix(*right).round() + 0.25 * (function is fn.div)
    with st.Program(compute_bw=8) as p:
        y = st.map(function, load(a), load(b))
        y.consume()
    np.testing.assert_array_equal(data(run_both(p), y), expected(a, b))


@pytest.mark.parametrize(
    ("function", "left", "right", "expected"),
    [
        (fn.matmul, (4, 6), (6, 3), lambda a, b: a @ b),
        (fn.matmul_t, (4, 6), (3, 6), lambda a, b: a @ b.T),
        (fn.t_matmul, (6, 4), (6, 3), lambda a, b: a.T @ b),
        (fn.t_matmul_t, (6, 4), (3, 6), lambda a, b: a.T @ b.T),
    ],
)
def test_products(function: Function, left: Any, right: Any, expected: Any) -> None:
    a, b = matrix(*left), matrix(*right)
    with st.Program(compute_bw=8) as p:
        x, w = load(a), load(b)
        made = [
            st.map(function, x, w), st.map_accum(function, x, w, 1), st.zip(x, w).accum(function, 1)
        ]  # fmt: skip
        for y in made:
            y.consume()
    result = run_both(p)
    for y in made:
        np.testing.assert_allclose(data(result, y), expected(a, b), rtol=1e-5, atol=1e-6)


def test_where_and_masks() -> None:
    a, b = matrix(4, 6), matrix(4, 6)
    with st.Program(compute_bw=8) as p:
        x, z = load(a), load(b)
        chosen = st.map(fn.where, st.map(fn.gt, x, z), x, z)
        numbers = st.map(fn.where, st.map(fn.relu, x), z, x)
        q, k, length = (st.metadata([[v]]) for v in (3, 2, 6))
        causal = st.map(fn.causal_mask(), x, q, k)
        window = st.map(fn.causal_mask(window=2, fill=-9), x, q, k)
        short = st.map(fn.length_mask(), x, k, length)
        for y in (chosen, numbers, causal, window, short):
            y.consume()
    result = run_both(p)
    np.testing.assert_array_equal(data(result, chosen), np.maximum(a, b))
    np.testing.assert_array_equal(data(result, numbers), np.where(a > 0, b, a))
    rows, cols = 3 + np.arange(4)[:, None], 2 + np.arange(6)[None]
    np.testing.assert_array_equal(data(result, causal), np.where(cols <= rows, a, -np.inf))
    seen = (cols <= rows) & (cols > rows - 2)
    np.testing.assert_array_equal(data(result, window), np.where(seen, a, -9))
    np.testing.assert_array_equal(data(result, short), np.where(cols < 6, a, -np.inf))


@pytest.mark.parametrize("pairs", ["half", "interleaved"])
def test_rotary(pairs: str) -> None:
    a, angles = matrix(4, 6), matrix(4, 3)
    with st.Program(compute_bw=8) as p:
        y = st.map(fn.rotary(pairs), load(a), load(np.cos(angles)), load(np.sin(angles)))
        y.consume()
    turned = a[:, :3] + 1j * a[:, 3:] if pairs == "half" else a[:, ::2] + 1j * a[:, 1::2]
    turned = turned * np.exp(1j * angles)
    parts = np.stack([turned.real, turned.imag], axis=2 if pairs != "half" else 1)
    np.testing.assert_allclose(data(run_both(p), y), parts.reshape(4, 6), rtol=1e-5, atol=1e-6)


def test_concatenation_and_quantization() -> None:
    a, b = matrix(4, 6), matrix(2, 6)
    scale = np.abs(a).max(1, keepdims=True) / 127
    with st.Program(compute_bw=8) as p:
        x, s = load(a), load(scale)
        rows = st.map(fn.concat_rows(3), x, load(b), x)
        cols = st.map(fn.concat_cols(2), x, s)
        q = st.map(fn.quantize("i8"), x, s)
        back = st.map(fn.dequantize("f32"), q, s)
        clipped = st.map(fn.quantize("i4"), x, s)
        for y in (rows, cols, back, clipped):
            y.consume()
    result = run_both(p)
    np.testing.assert_array_equal(data(result, rows), np.vstack([a, b, a]))
    np.testing.assert_array_equal(data(result, cols), np.hstack([a, scale]))
    np.testing.assert_array_equal(data(result, q), np.rint(a / scale))
    np.testing.assert_allclose(data(result, back), a, atol=scale.max())
    assert (data(result, clipped).min(), data(result, clipped).max()) == (-8, 7)


def test_accumulations_of_every_kind() -> None:
    a = matrix(12, 4)
    with st.Program(compute_bw=8) as p:
        x = st.linear_load(a, (3, 4), shape=(1, 4), stride=(0, 1))
        made = {
            "max": x.accum(fn.max, 1), "min": x.accum(fn.min, 1), "sub": x.accum(fn.sub, 1),
            "last": x.accum(fn.last, 1), "dot": st.map_accum(fn.mul, x, x, 1),
            "full": x.accum(fn.add, 1, fn.full((3, 4), 2.0)), "scan": x.scan(fn.max, 1),
            "adopted": x.accum(fn.max, 1, fn.empty((0, 4))),
        }  # fmt: skip
        for y in made.values():
            y.consume()
    result = run_both(p)
    c = a.reshape(4, 3, 4)
    for name, expected in {
        "max": c.max(0), "min": c.min(0), "sub": -c.sum(0), "last": c[-1], "dot": (c * c).sum(0),
        "full": 2 + c.sum(0), "adopted": c.max(0),
    }.items():  # fmt: skip
        np.testing.assert_allclose(data(result, made[name]), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(data(result, made["scan"], 1), c[:2].max(0))


# padding


def padded(a: Any, valid: int) -> st.Stream:
    """Rows beyond ``valid`` are padding that holds other numbers."""
    return st.map(fn.set_offset, load(a), st.metadata([[valid]]))


def test_padding_never_contributes() -> None:
    a = matrix(5, 4) - 3  # all negative, so that a zero of padding would show
    real, every = a[:3], np.ones((4, 4), np.float32)
    with st.Program(compute_bw=8) as p:
        x = padded(a, 3)
        t = st.map(fn.transpose, x)  # padding columns
        made = {
            "col_sum": (st.map(fn.col_sum, x), real.sum(0, keepdims=True)),
            "col_max": (st.map(fn.col_max, x), real.max(0, keepdims=True)),
            "col_mean": (st.map(fn.col_mean, x), real.mean(0, keepdims=True)),
            "row_sum": (st.map(fn.row_sum, t), real.T.sum(1, keepdims=True)),
            "row_max": (st.map(fn.row_max, t), real.T.max(1, keepdims=True)),
            "row_mean": (st.map(fn.row_mean, t), real.T.mean(1, keepdims=True)),
            "t_matmul": (st.map(fn.t_matmul, x, x), real.T @ real),
            "matmul": (st.map(fn.matmul, t, x), real.T @ real),
            "t_matmul_t": (st.map(fn.t_matmul_t, x, t), real.T @ real),
            "accum": (st.zip(t, x).accum(fn.matmul, 1), real.T @ real),
            "product": (x.accum(fn.mul, 1), np.vstack([real, every[:2]])),
            "dot": (st.map_accum(fn.mul, x, x, 1), np.vstack([real**2, 0 * every[:2]])),
            "maxima": (x.accum(fn.max, 1), np.vstack([real, np.full((2, 4), -np.inf)])),
            "exp": (st.map(fn.exp, t), np.hstack([np.exp(real.T), 0 * every[:, :2]])),
            "rows": (st.map(fn.concat_rows(2), x, load(every)), np.vstack([real, every, a[3:]])),
        }  # fmt: skip
        for y, _ in made.values():
            y.consume()
    result = run_both(p)
    for name, (y, expected) in made.items():
        found = data(result, y)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=name)
    assert result.stream(made["rows"][0])[0].payload.valid == 7
    assert result.stream(t)[0].payload.width == 3


@pytest.mark.parametrize(("start", "valid"), [(0, 2), (2, 1), (3, 0)])
def test_a_slice_has_the_valid_rows_that_are_in_it(start: int, valid: int) -> None:
    with st.Program(compute_bw=8) as p:
        y = st.map(fn.slice_rows(start, start + 2), padded(matrix(5, 4), 3))
        y.consume()
    assert run_both(p).stream(y)[0].payload.valid == valid


# functions of users


def online_step(m: Any, l: Any, acc: Any, scores: Any, values: Any) -> Any:  # noqa: E741
    high = np.maximum(m, scores.max(axis=1, keepdims=True))
    old, w = np.exp(m - high), np.exp(scores - high)
    return high, l * old + w.sum(axis=1, keepdims=True), acc * old + w @ values


online = st.function(
    "online_softmax", "m 1, m 1, m d; m n, n d -> m 1, m 1, m d",
    lambda m, n, d: 2 * m * n * d + 6 * m * n + 10 * m + m * d,
    values=online_step, padding=(0, 0, 0, -np.inf, 0),
)  # fmt: skip


def test_online_softmax_carries_three_states() -> None:
    q, k, v = matrix(4, 8), matrix(12, 8), matrix(12, 8)
    with st.Program(compute_bw=8) as p:
        keys, values = (st.linear_load(x, (3, 8), shape=(1, 4), stride=(0, 1)) for x in (k, v))
        queries = st.linear_load(q, (4, 8), shape=(1, 4), stride=(0, 0))
        scores = st.map(fn.matmul_t, queries, keys)
        init = (fn.neg_infinity((4, 1)), fn.zero((4, 1)), fn.zero((4, 8)))
        state = st.map_accum(online, scores, values, 1, init)
        _, total, acc = (parts := st.unzip(state))
        out = st.map(fn.div, acc, total)
        parts[0].consume()
        out.consume()
    result = run_both(p)
    w = np.exp(q @ k.T - (q @ k.T).max(1, keepdims=True))
    np.testing.assert_allclose(data(result, out), w @ v / w.sum(1, keepdims=True), rtol=1e-5)
    per_key = 2 * 4 * 3 * 8 + (2 * 4 * 3 * 8 + 6 * 4 * 3 + 10 * 4 + 4 * 8)
    flops = 4 * per_key + 4 * 8
    assert p.metrics().flops == flops == st.simulate(p).flops


def test_cycles_of_a_function_of_three_operands_by_hand() -> None:
    """5*m*n + 3*m FLOPs at 16 per cycle: 172 of a tile of 4x8 take 11 cycles."""
    mine = st.function(
        "mine", "m n, m n, m 1 -> m n", lambda m, n: 5 * m * n + 3 * m,
        values=lambda a, b, s: a * b + s,
    )  # fmt: skip
    a, b, s = matrix(40, 8), matrix(40, 8), matrix(40, 1)
    with st.Program(compute_bw=16) as p:
        xs = [st.linear_load(x, (4, x.shape[1])).with_depth(10) for x in (a, b, s)]
        y = st.map(mine, *xs, label="mine")
        y.consume()
    assert p.metrics().flops == st.simulate(p).flops == 10 * 172
    (unit,) = [row for row in st.simulate(p).units.to_pylist() if "mine" in row["name"]]
    assert (unit["flops"], unit["firings"]) == (1720, 10)
    assert unit["busy"] == 10 * math.ceil(172 / 16)
    np.testing.assert_allclose(data(run_both(p), y, 3), (a * b + s)[12:16], rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (st.function("f", "m n -> m 1", values=lambda x: x), r"array of shape \(4, 6\), expected"),
        (st.function("f", "same", values=lambda x: 1 // 0), "values of f raised ZeroDivisionError"),
        (st.function("f", "same", values=lambda x, y: x), "values of f raised TypeError"),
        (st.function("f", "same", values=lambda x: (x, x)), "array of shape"),
        (
            st.function("f", "m n -> m n, m 1", values=lambda x: x),
            "returned ndarray, expected a tuple of 2 arrays",
        ),
    ],
)
def test_values_that_are_wrong_are_named(function: Function, message: str) -> None:
    with st.Program(compute_bw=8) as p:
        st.map(function, load(matrix(4, 6))).consume()
    with pytest.raises(EvaluationError, match=message):
        evaluate(p)


def test_weights_reach_symbolic_and_executed_flops_and_cycles() -> None:
    def run(weights: Any) -> Any:
        with st.Program(compute_bw=1, flop_weights=weights) as p:
            st.map(fn.exp, load(np.ones((4, 6)))).consume()
        result = st.simulate(p)
        assert p.metrics().flops == result.flops
        assert result.provenance["flop_weights"] == (weights or {})
        return result

    plain, light = run(None), run({"exp": 1})
    assert (plain.flops, light.flops) == (96, 24)
    assert plain.cycles - light.cycles == 72
