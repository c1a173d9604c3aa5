"""Sums of alike terms are written once; nothing of a formula is lost."""

from __future__ import annotations

import pytest
import sympy

from stepsim.report.formulas import fold_sum

N = sympy.symbols("n0:12", integer=True, nonnegative=True)
X = sympy.Symbol("x")


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (7, "7"),
        (2 * N[0] + 5, "2*n0 + 5"),
        (sum(2 * n for n in N) + 5, "sum(2*n for n in n0..n11) + 5"),
        (sum(N[:2]), "n0 + n1"),
        (N[1] + N[3] + N[5], "sum(n for n in n1, n3, n5)"),
        (sum(sympy.ceiling(n / 4) for n in N) + X * N[0],
         "sum(ceiling(n/4) for n in n0..n11) + n0*x"),
        (sum(n + 3 * sympy.Min(1, n) for n in N[:3]),
         "sum(3*Min(1, n) for n in n0..n2) + sum(n for n in n0..n2)"),
    ],
)  # fmt: skip
def test_fold(formula: object, text: str) -> None:
    assert fold_sum(formula) == text
