"""RMSNorm, LayerNorm and softmax: values, FLOPs, errors."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, DimError, DTypeError, RankError
from tests.functional.nn import references as ref
from tests.functional.nn.support import checked, normal

M, N, TILES = 4, 24, 3
X = normal(M * TILES, N) + 1
WEIGHT, BIAS = normal(N, seed=1), normal(N, seed=2)


def rows() -> st.Stream:
    """[3] of 4x24."""
    return st.linear_load(X, (M, N)).flatten(0, 1)


def columns(width: int = 8) -> st.Stream:
    """[3, 24 / width] of 4 x width."""
    return st.linear_load(X, (M, width))


def first_of_two() -> st.Stream:
    """[n] of 4x24, as many as a routing says."""
    return st.partition(rows(), st.routing(st.spec(3, 1), experts=2).multihot())[0]


def split(y: np.ndarray, width: int = 8) -> np.ndarray:
    """Rows as the tiles of a stream that is split over columns."""
    return y.reshape(TILES, M, -1, width).transpose(0, 2, 1, 3)


@pytest.mark.parametrize("weighted", [False, True])
def test_rms_norm(weighted: bool) -> None:
    weight = WEIGHT if weighted else None
    y = ref.rms_norm(X) * (WEIGHT if weighted else 1)
    each = 3 * M * N + 6 * M + M * N * weighted
    checked(lambda: st.nn.rms_norm(rows(), weight), y, TILES * each)
    for width in (8, 24):
        c = N // width
        each = c * (3 * M * width + M + M * width * weighted) + 6 * M
        checked(
            lambda width=width: st.nn.rms_norm(columns(width), weight, split=True),
            split(y, width), TILES * each,
        )  # fmt: skip


@pytest.mark.parametrize(("weighted", "shifted"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_layer_norm(weighted: int, shifted: int) -> None:
    weight, bias = WEIGHT if weighted else None, BIAS if shifted else None
    y = ref.layer_norm(X) * (WEIGHT if weighted else 1) + (BIAS if shifted else 0)
    more = M * N * (weighted + shifted)
    each = 5 * M * N + 7 * M + more
    checked(lambda: st.nn.layer_norm(rows(), weight, bias), y, TILES * each)
    each = 3 * (5 * M * 8 + 2 * M) + 7 * M + more
    checked(lambda: st.nn.layer_norm(columns(), weight, bias, split=True), split(y), TILES * each)


def test_epsilon_counts() -> None:
    checked(lambda: st.nn.rms_norm(rows(), eps=0.5), ref.rms_norm(X, 0.5), 3 * (72 * 4 + 24))
    checked(lambda: st.nn.layer_norm(rows(), eps=0.5), ref.layer_norm(X, 0.5), 3 * (5 * 96 + 28))


def test_weights_can_be_streams() -> None:
    def build() -> st.Stream:
        w = st.linear_load(WEIGHT[None], (1, N), shape=(TILES,), stride=(0,))
        return st.nn.rms_norm(rows(), w)

    checked(build, ref.rms_norm(X) * WEIGHT, TILES * (4 * M * N + 6 * M))


@pytest.mark.parametrize("large", [0, 300])
def test_softmax(large: int) -> None:
    x = X + np.float32(large) * (np.arange(N) == 5)

    def load(width: int) -> st.Stream:
        loaded = st.linear_load(x, (M, width))
        return loaded.flatten(0, 1) if width == N else loaded

    y = ref.softmax(x)
    checked(lambda: st.nn.softmax(load(N)), y, TILES * 8 * M * N)
    checked(lambda: st.nn.softmax(load(8), split=True), split(y), TILES * 3 * (8 * M * 8 + 2 * M))
    checked(
        lambda: st.nn.softmax(load(8), split=True, online=True), split(y),
        TILES * 3 * (13 * M * 8 + 8 * M),
    )  # fmt: skip


def test_rows_may_depend_on_the_data() -> None:
    """Tiles of rows that a routing decides."""
    table = [[0], [1], [0], [0], [1], [0]]
    x = normal(6, 8)

    def build() -> st.Stream:
        route = st.routing(table, experts=2)
        part, rest = st.partition(st.linear_load(x, (1, 8)).flatten(0, 1), route.multihot())
        rest.consume()
        return st.nn.softmax(st.nn.rms_norm(part.promote().accum(st.fn.pack_rows, 1)))

    chosen = x[[0, 2, 3, 5]]
    checked(build, ref.softmax(ref.rms_norm(chosen)), 3 * 32 + 24 + 8 * 32)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: st.nn.rms_norm(rows(), eps=-1), ArgError, "eps must be a number from 0, found -1"),
        (lambda: st.nn.rms_norm(rows(), np.ones(7, np.float32)), ArgError, "weight must be 1 x 24"),
        (lambda: st.nn.rms_norm(rows(), st.spec(24)), ArgError, r"one row: spec\(1, 24\)"),
        (lambda: st.nn.layer_norm(rows(), split=True), RankError, "split=True needs a dim of row"),
        (lambda: st.nn.softmax(rows(), online=True), ArgError, "online=True is for rows that are"),
        (lambda: st.nn.softmax(st.metadata([1])), DTypeError, "x must carry tiles of numbers"),
        (lambda: st.nn.rms_norm(rows(), rows()), DTypeError, "weight must carry tiles of 1x24"),
        (lambda: st.nn.rms_norm(rows(), columns(24)), RankError, "weight has dims"),
        (lambda: st.nn.softmax(rows(), compute_bw=0), ArgError, "compute_bw must be an int from 1"),
        (lambda: st.nn.softmax(rows(), write_back=1), ArgError, "write_back must be True or False"),
        (lambda: st.nn.softmax(1), ArgError, "x must be a Stream"),
    ],
)
def test_errors_name_the_layer_and_the_argument(call, error, message) -> None:
    with pytest.raises(error, match=message) as caught, st.Program(compute_bw=8):
        call()
    assert any(name in str(caught.value) for name in ("rms_norm", "layer_norm", "softmax"))


def test_split_needs_a_constant_dim() -> None:
    message = "counts the column tiles of each row"
    with pytest.raises(DimError, match=message), st.Program(compute_bw=8):
        st.nn.softmax(first_of_two().promote(), split=True)


def test_operators_carry_the_label_and_the_bandwidth() -> None:
    with st.Program() as p:
        y = st.nn.rms_norm(rows(), WEIGHT, compute_bw=16, write_back=True, label="norm")
        y.consume()
    labels = [op.label for op in p.operators if op.label]
    assert labels == [
        "norm.square", "norm.mean", "norm.eps", "norm.rsqrt", "norm.scale", "norm.load_weight",
        "norm.weight", "norm.weigh",
    ]  # fmt: skip
    maps = [op for op in p.operators if op.name == "map"]
    assert {op.compute_bw for op in maps} == {16}
    assert [op.write_back for op in maps] == [False] * 5 + [True]
