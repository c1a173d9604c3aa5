"""Routers and mixtures of experts: values, FLOPs, bindings, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, DTypeError
from stepsim.simulation import run_functional, simulate
from tests.functional.nn import references as ref
from tests.functional.nn.support import checked, compared, normal

ROWS, D, F, EXPERTS, K = 9, 8, 12, 4, 2
X = normal(ROWS, D)
ROUTER = normal(D, EXPERTS, seed=1)
GATE, UP = normal(EXPERTS, D, F, seed=2) / 3, normal(EXPERTS, D, F, seed=3) / 3
DOWN = normal(EXPERTS, F, D, seed=4) / 3
SCORES = ref.softmax(X.astype(float) @ ROUTER)
ROUTER_FLOPS = ROWS * (2 * D * EXPERTS + 8 * EXPERTS)


def rows() -> st.Stream:
    """[9] of 1x8."""
    return st.linear_load(X, (1, D)).flatten(0, 1)


def largest() -> tuple[np.ndarray, np.ndarray]:
    """Indices and scores of the two largest of each row, by sorting pairs."""
    order = [sorted(range(EXPERTS), key=lambda e, row=row: (-row[e], e))[:K] for row in SCORES]
    return np.array(order), np.take_along_axis(SCORES, np.array(order), axis=1)


def weights_of(indices: np.ndarray, normalize: bool) -> np.ndarray:
    chosen = np.take_along_axis(SCORES, indices, axis=1)
    return chosen / chosen.sum(axis=1, keepdims=True) if normalize else chosen


def expected(indices: np.ndarray, weights: np.ndarray) -> np.ndarray:
    out = np.zeros((ROWS, D))
    for row, experts in enumerate(indices):
        for e, weight in zip(experts, weights[row], strict=True):
            hidden = ref.silu(X[row].astype(float) @ GATE[e]) * (X[row].astype(float) @ UP[e])
            out[row] += weight * (hidden @ DOWN[e])
    return out


def test_top_k_is_that_of_numpy() -> None:
    indices, _ = largest()
    with st.Program():
        from_scores = st.nn.top_k(SCORES, K)
        from_logits = st.nn.top_k(X @ ROUTER, K)
        ties = st.nn.top_k([[1, 3, 3, 2], [0, 0, 0, 0]], 3)
    np.testing.assert_array_equal(from_scores.indices, indices)
    np.testing.assert_array_equal(from_logits.indices, indices)
    np.testing.assert_array_equal(ties.indices, [[1, 2, 3], [0, 1, 2]])


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("expert", range(EXPERTS))
def test_router_selects_the_weights(normalize: bool, apart: bool, expert: int) -> None:
    """Also of products that are computed apart, with the matrix read once."""
    indices, _ = largest()
    weights = weights_of(indices, normalize)
    wanted = weights[indices == expert]

    def build() -> st.Stream:
        x, matrix = rows(), ROUTER
        if apart:
            loaded = st.linear_load(ROUTER, (D, EXPERTS)).flatten(0, 1)
            x, matrix = st.map(st.fn.matmul, x, loaded.repeat(ROWS).flatten(0, 1)), None
        made = st.nn.router(x, matrix, st.nn.top_k(X @ ROUTER, K), normalize=normalize)
        for e, other in enumerate(made):
            if e != expert:
                other.consume()
        return made[expert]

    checked(build, wanted, ROUTER_FLOPS + 2 * ROWS * K * normalize)


def computed_rows(tile: Any, indices: np.ndarray) -> int:
    counts = np.bincount(indices.ravel(), minlength=EXPERTS)
    return int(counts.sum() if tile == "dynamic" else (-(-counts // tile) * tile).sum())


@pytest.mark.parametrize("tile", [1, 4, "dynamic"])
@pytest.mark.parametrize("inner", [None, 4])
def test_moe(tile: Any, inner: int | None) -> None:
    indices, _ = largest()
    flops = ROUTER_FLOPS + 2 * ROWS * K + computed_rows(tile, indices) * (6 * D * F + 9 * F)

    def build() -> st.Stream:
        x, table = rows(), st.nn.top_k(X @ ROUTER, K)
        weights = st.nn.router(x, ROUTER, table)
        return st.nn.moe(x, table, GATE, UP, DOWN, weights, tile=tile, inner=inner)

    checked(build, expected(indices, weights_of(indices, True)), flops + 2 * ROWS * K * D)


@pytest.mark.parametrize("tile", [3, "dynamic"])
def test_a_table_can_be_bound_with_the_run(tile: Any) -> None:
    """Experts 2 and 3 get nothing, and weights are not given: plain sums."""
    indices = np.tile([[1, 0]], (ROWS, 1))
    flops = computed_rows(tile, indices) * (6 * D * F + 9 * F) + ROWS * K * D
    with st.Program("layer", compute_bw=64) as p:
        table = st.routing(st.spec(ROWS, K), experts=EXPERTS)
        y = st.nn.moe(rows(), table, GATE, UP, DOWN, tile=tile)
        y.consume()
    compared(p, y, expected(indices, np.ones((ROWS, K))), flops, bindings={table: indices})


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, t: st.nn.moe(x, t, GATE, UP, DOWN, tile=0), ArgError, "tile must be an int"),
        (lambda x, t: st.nn.moe(x, t, GATE, UP, DOWN, tile="any"), ArgError, "or 'dynamic', found"),
        (lambda x, t: st.nn.moe(x, t, GATE[:3], UP, DOWN, tile=4), ArgError, "gate must be a list"),
        (lambda x, t: st.nn.moe(x, t, GATE, UP, UP, tile=4), ArgError, "down must be 12 x any"),
        (lambda x, t: st.nn.moe(x, t, GATE, UP, DOWN, [x], tile=4), ArgError, "weights must be a"),
        (
            lambda x, t: st.nn.moe(x, t, GATE, UP, DOWN, [x] * 4, tile=4),
            DTypeError, r"weights\[0\] must carry tiles of 1x1",
        ),
        (lambda x, t: st.nn.moe(x, 3, GATE, UP, DOWN, tile=4), ArgError, "table must be a routing"),
        (lambda x, t: st.nn.router(x, ROUTER.T, t), ArgError, "weight must be 8 x 4"),
        (
            lambda x, t: st.nn.router(x, None, t),
            ArgError, "x carries tiles of 8 columns, the table has 4 experts",
        ),
        (
            lambda x, t: st.nn.router(x, ROUTER, st.routing(st.spec(8, 2), 4)),
            ArgError, "the table has 8 rows",
        ),
        (
            lambda x, t: st.nn.router(st.linear_load(X, (3, D)).flatten(0, 1), ROUTER, t),
            DTypeError, "x must carry tiles of one row",
        ),
        (lambda x, t: st.nn.top_k([1, 2], 1), ArgError, r"an array of numbers \[rows, experts\]"),
        (lambda x, t: st.nn.top_k([[1, 2]], 3), ArgError, "k must be an int from 1 to 2"),
        (lambda x, t: st.nn.top_k([[1, np.nan]], 1), ArgError, "NaN, which has no order"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(call, error, message: str) -> None:
    with pytest.raises(error, match=message), st.Program(compute_bw=8):
        call(rows(), st.routing(st.spec(ROWS, K), experts=EXPERTS))


def test_chosen_weights_are_those_of_the_router() -> None:
    scores = normal(ROWS, 12, seed=7)
    order = np.argsort(-scores, axis=1)[:, :5]
    chosen = np.take_along_axis(ref.softmax(scores.astype(float)), order, axis=1)
    with st.Program("weights", compute_bw=64) as program:
        x = st.linear_load(scores, (1, 12)).flatten(0, 1)
        y = st.nn.chosen_weights(x, order)
        st.linear_store(y, "weights")
    found = run_functional(program).stored["weights"].reshape(ROWS, 5)
    np.testing.assert_allclose(found, chosen / chosen.sum(axis=1, keepdims=True), rtol=1e-5)
    result = simulate(program)
    assert result.status == "ok"
    assert result.flops == program.metrics().flops == ROWS * (8 * 12 + 2 * 5)
    with pytest.raises(ArgError, match="numbers below 12"), st.Program("bad"):
        st.nn.chosen_weights(st.linear_load(scores, (1, 12)).flatten(0, 1), order + 12)
    with pytest.raises(ArgError, match="experts has 8 rows"), st.Program("bad"):
        st.nn.chosen_weights(st.linear_load(scores, (1, 12)).flatten(0, 1), order[:8])
    with pytest.raises(DTypeError, match="tiles of one row"), st.Program("bad"):
        st.nn.chosen_weights(st.linear_load(scores, (3, 12)).flatten(0, 1), order[:3])
