"""Linear programs with few coefficients in a row, solved by HiGHS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stepsim.deferred import deferred

if TYPE_CHECKING:
    from scipy import optimize, sparse
else:
    optimize = deferred("scipy.optimize")
    sparse = deferred("scipy.sparse")

__all__ = ["Row", "minimized"]

Row = tuple[Sequence[int], Sequence[float], float]
"""Columns, their coefficients, and the most that the sum may be."""


def minimized(
    cost: NDArray[np.float64], rows: Sequence[Row], top: Sequence[float] | NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Variables from 0 to ``top`` of the least cost; None where the solver finds none."""
    matrix = bounds = None
    if rows:
        ends = np.cumsum([0, *(len(columns) for columns, _, _ in rows)])
        values = np.concatenate([np.array(values) for _, values, _ in rows])
        places = np.concatenate([np.array(columns) for columns, _, _ in rows])
        matrix = sparse.csr_array((values, places, ends), shape=(len(rows), len(cost)))
        bounds = np.array([bound for _, _, bound in rows])
    found = optimize.linprog(
        cost,
        A_ub=matrix,
        b_ub=bounds,
        bounds=np.column_stack((np.zeros(len(cost)), top)),
        method="highs",
    )
    solution: NDArray[np.float64] | None = found.x
    return solution
