"""Formulas and texts written short."""

from __future__ import annotations

import pytest
import sympy

from stepsim.graph.sizes.formulas import fold_sum, shorten
from stepsim.graph.sizes.sizes import CeilDiv

N = sympy.symbols("n0:12", integer=True, nonnegative=True)
M = sympy.Symbol("m", integer=True, nonnegative=True)


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (7, "7"),
        (sympy.Integer(7), "7"),
        (2 * N[0] + 2 * N[1], "2*n0 + 2*n1"),
        (2 * N[0] + 2 * N[1] + 2 * N[2] + 7, "sum(2*n for n in n0..n2) + 7"),
        (sum(N), "sum(n for n in n0..n11)"),
        (N[0] + N[1] + N[3] + M, "sum(n for n in m, n0, n1, n3)"),
        (sum(CeilDiv(n, 4) for n in N) + N[0] * M, "sum(ceil(n/4) for n in n0..n11) + m*n0"),
    ],
)
def test_sums_of_alike_terms(formula, text):
    assert fold_sum(formula) == text


def test_shorten():
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdefg", 6) == "abc..."
