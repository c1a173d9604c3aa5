"""The linear program behind all planned depths: it times units so that tokens wait least.

Units may work later than at given times, as long as no token is taken before it arrives and no
unit ends too late. Tokens then wait where they are small (StreamTensor, on FIFO sizing, with start
times in place of path delays). The given times are those of a recorded run, whose units shift and
stretch (`stepsim.sizing.recorded`), or zero for units that only have rates and shift as a whole
(`stepsim.sizing.rates`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stepsim.deferred import deferred

optimize: Any = deferred("scipy.optimize")
sparse: Any = deferred("scipy.sparse")

Row: TypeAlias = tuple[Sequence[int], Sequence[float], float]
"""Columns, their coefficients, and the upper bound of the sum."""

Work: TypeAlias = tuple[int, float]
"""A unit, and the fraction of its work that is done."""


class Timetable:
    """How much later units work than at the given times.

    Parameters
    ----------
    latest : largest delay of each unit, in cycles.
    stretched : an event at progress ``x`` of a unit happens ``a + (b - a) * x`` cycles later, with
        ``0 <= a <= b``; otherwise all its events happen ``a`` cycles later.
    """

    def __init__(self, latest: Sequence[float] | NDArray[np.float64], *, stretched: bool) -> None:
        self._units = len(latest)
        self._stretched = stretched
        self._top = np.repeat(np.asarray(latest, float), 2 if stretched else 1)
        self._cost = np.zeros(len(self._top))
        self._waits: list[float] = []
        self._rows: list[Row] = []

    def add_order(self, first: Work, second: Work, gap: float) -> None:
        """Shift the first event by at most ``gap`` cycles more than the second."""
        self._add(first, second, gap)

    def add_wait(self, weight: float, waits: Sequence[tuple[Work, Work, float]]) -> None:
        """Charge the tokens of a FIFO that wait from the second event to the first, in cycles.

        The longest wait counts, at ``weight`` per cycle.
        """
        if self._stretched:
            column = len(self._top) + len(self._waits)
            self._waits.append(weight)
            for taken, sent, cycles in waits:
                self._add(taken, sent, -cycles, column)
            return
        ((consumer, _), (producer, _), _), *_ = waits  # a shift delays all equally
        self._cost[consumer] += weight
        self._cost[producer] -= weight

    def solved(self) -> NDArray[np.float64] | None:
        """Cycles for each unit: ``a``, and ``b`` if stretched; None where the solver finds none."""
        rows, cost, top = list(self._rows), self._cost, self._top
        if self._stretched:
            rows += [([2 * u, 2 * u + 1], [1.0, -1.0], 0.0) for u in range(self._units)]
            # Of equally good times take the earliest, so that the shared memory is used as before.
            early = 1e-6 * max(max(self._waits, default=0.0), 1e-9)
            cost = np.concatenate((cost + early, self._waits))
            top = np.concatenate((top, np.full(len(self._waits), np.inf)))
        found = minimized(cost, rows, top)
        return None if found is None else found[: len(self._top)].reshape(self._units, -1)

    def _add(self, first: Work, second: Work, gap: float, column: int = -1) -> None:
        """The shift of the first event is at most that of the second plus a gap or a variable."""
        columns: list[int] = []
        values: list[float] = []
        for (unit, done), sign in ((first, 1.0), (second, -1.0)):
            if self._stretched:
                columns += [2 * unit, 2 * unit + 1]
                values += [sign * (1 - done), sign * done]
            else:
                columns.append(unit)
                values.append(sign)
        if column >= 0:
            columns.append(column)
            values.append(-1.0)
        self._rows.append((columns, values, gap))


def minimized(
    cost: NDArray[np.float64], rows: Sequence[Row], top: Sequence[float] | NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Variables from 0 to ``top`` of the least cost, by HiGHS; None if there is no solution."""
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
