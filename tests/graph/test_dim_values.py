"""A dim holds a whole number from 0, or an expression that may be one."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import sympy

import stepsim as st
from stepsim.errors import ArgError
from stepsim.graph import Dim
from stepsim.graph.sizes.dims import Kind, Namer
from tests.graph.support import scratch, tiles

N = sympy.Symbol("n", integer=True, nonnegative=True)


@pytest.mark.parametrize("make", [Dim, Dim.of])
@pytest.mark.parametrize(
    "bad",
    [
        -3, 2**51, sympy.nan, sympy.oo, sympy.zoo, sympy.I, sympy.Float(2), sympy.Rational(1, 2),
        sympy.Integer(-3), -N - 1, sympy.Symbol("x", negative=True), N + sympy.Rational(1, 2),
    ],
)  # fmt: skip
def test_what_no_dim_can_be(make: Any, bad: Any) -> None:
    with pytest.raises(ArgError, match=r"a dim (cannot be|must be an int from 0 to)"):
        make(bad)


@pytest.mark.parametrize(
    ("expr", "kind", "message"),
    [
        (4, "x", "dim 4: kind must be Kind.SR or Kind.DR, the size is known, found 'x'"),
        (4, 0, "found 0"),
        (4, Kind.RG, "found <Kind.RG"),
        (N, Kind.SR, "dim n: kind must be Kind.DR or Kind.RG, found <Kind.SR"),
    ],
)
def test_a_kind_fits_the_size(expr: Any, kind: Any, message: str) -> None:
    with pytest.raises(ArgError, match=message):
        Dim(expr, kind)


def test_dims_that_stay() -> None:
    ragged = Namer().ragged("len", "test")
    for dim in (Dim(0), Dim(2**50), Dim(N - 1), Dim(sympy.Symbol("s")), Dim(4, Kind.DR), ragged):
        assert pickle.loads(pickle.dumps(dim)) == dim


def test_types_and_loops_have_no_negative_sizes() -> None:
    with pytest.raises(ArgError, match="found -2"):
        st.Tile(st.graph.DType.bf16, Dim(-2), Dim(3))
    with scratch(), pytest.raises(ArgError, match="found -3"):
        st.feedback(tiles(1).type, [Dim(-3)])
