"""Linear layers and feed-forward networks: values, FLOPs, errors."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError
from tests.functional.nn import references as ref
from tests.functional.nn.support import checked, normal

M, D, F, TILES = 4, 8, 12, 2
X = normal(M * TILES, D)
UP, GATE = normal(D, F, seed=1) / 3, normal(D, F, seed=2) / 3
DOWN = normal(F, D, seed=3) / 3
BIAS = normal(F, seed=4)


def rows() -> st.Stream:
    """[2] of 4x8."""
    return st.linear_load(X, (M, D)).flatten(0, 1)


def tiled(y: np.ndarray, width: int) -> np.ndarray:
    """Rows as [row tiles, column tiles, M, width]."""
    return y.reshape(TILES, M, -1, width).transpose(0, 2, 1, 3)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("tile", [None, 4, 12])
@pytest.mark.parametrize("biased", [False, True])
def test_linear(split: bool, tile: int | None, biased: bool) -> None:
    y = X.astype(float) @ UP + (BIAS if biased else 0)
    found: list[st.Stream] = []

    def build() -> st.Stream:
        x = st.linear_load(X, (M, 2)) if split else rows()
        found.append(st.nn.linear(x, UP, BIAS if biased else None, tile=tile, split=split))
        return found[0]

    checked(build, tiled(y, tile or F), TILES * (2 * M * D * F + M * F * biased))
    assert [int(d) for d in found[0].shape] == [TILES] + ([F // tile] if tile else [])


@pytest.mark.parametrize("tile", [None, 6])
@pytest.mark.parametrize(("form", "weight"), [("none", 8), ("tanh", 12)])
def test_gelu_ffn(tile: int | None, form: str, weight: int) -> None:
    y = ref.gelu(X.astype(float) @ UP, form) @ DOWN
    flops = TILES * (4 * M * D * F + weight * M * F)
    checked(lambda: st.nn.gelu_ffn(rows(), UP, DOWN, approximate=form, tile=tile), y, flops)


@pytest.mark.parametrize("tile", [None, 4])
def test_swiglu(tile: int | None) -> None:
    y = (ref.silu(X.astype(float) @ GATE) * (X.astype(float) @ UP)) @ DOWN
    flops = TILES * (6 * M * D * F + 9 * M * F)
    checked(lambda: st.nn.swiglu(rows(), GATE, UP, DOWN, tile=tile), y, flops)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: st.nn.linear(rows(), UP.T), r"weight must be 8 x any number, found"),
        (lambda: st.nn.linear(rows(), UP, tile=5), "tile 5 does not divide the 12 columns of weig"),
        (lambda: st.nn.linear(rows(), UP, BIAS[:3]), "bias must be 1 x 12"),
        (lambda: st.nn.gelu_ffn(rows(), UP, UP), "down must be 12 x"),
        (lambda: st.nn.gelu_ffn(rows(), UP, DOWN, approximate="erf"), "approximate must be 'none'"),
        (lambda: st.nn.swiglu(rows(), GATE, UP[:, :4], DOWN), "up must be 8 x 12"),
        (lambda: st.nn.swiglu(rows(), GATE, UP, DOWN, tile=0), "tile must be an int from 1"),
    ],
)
def test_errors_name_the_argument(call, message: str) -> None:
    with pytest.raises(ArgError, match=message), st.Program(compute_bw=8):
        call()
