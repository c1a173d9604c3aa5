"""Pareto analysis: which design points are optimal, and how far one lies beyond the others.

A point is a tuple of costs, one per objective, for example ``(cycles, on_chip_bytes)``. Every
objective is minimized, and every cost is above zero, because points are compared by ratios.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from stepsim.errors import ArgError
from stepsim.typed import typed

Costs = Sequence[float]

LEAST: Final = 1e-12
"""Value that replaces one of 0, since costs are compared by their ratios."""


@typed
def dominates(p: Costs, q: Costs) -> bool:
    """Whether ``p`` is at least as good as ``q`` in every objective and better in one.

    Raises
    ------
    ArgError : the points differ in their number of objectives, or a cost is not above zero.
    """
    _check("dominates", [p, q])
    return _dominates(p, q)


@typed
def frontier(points: Sequence[Costs]) -> list[int]:
    """Positions of the points that no other point dominates, by rising first objective.

    Equal points do not dominate each other, so duplicates of a point on the frontier all stay.

    Raises
    ------
    ArgError : the points differ in their number of objectives, or a cost is not above zero.
    """
    _check("frontier", points)
    kept = [i for i, p in enumerate(points) if not any(_dominates(q, p) for q in points)]
    return sorted(kept, key=lambda i: (tuple(points[i]), i))


@typed
def pareto_improvement_distance(point: Costs, baseline: Sequence[Costs]) -> float:
    """How far ``point`` lies beyond the frontier of ``baseline`` (STeP paper, section 5.2).

    For each baseline point ``q`` the gain is the largest ratio ``q[k] / point[k]`` over the
    objectives ``k``; the distance is the smallest gain over all of them. Above 1, no baseline point
    is as good in every objective: all costs of ``point`` must be scaled up by the distance until
    one is. At 1 it lies on the frontier, and below 1 some baseline point is better in
    every objective.

    Points that are not on the frontier of ``baseline`` never give the smallest gain alone, so they
    need not be removed.

    Raises
    ------
    ArgError : ``baseline`` is empty, the points differ in their number of objectives, or a cost is
        not above zero.
    """
    if not baseline:
        raise ArgError(
            "pareto_improvement_distance: the baseline is empty, expected at least one point to "
            "improve on; pass the costs of the designs to compare with"
        )
    _check("pareto_improvement_distance", [point, *baseline])
    return min(max(b / p for b, p in zip(q, point, strict=True)) for q in baseline)


def _dominates(p: Costs, q: Costs) -> bool:
    pairs = list(zip(p, q, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _check(who: str, points: Sequence[Costs]) -> None:
    for i, point in enumerate(points):
        if len(point) != len(points[0]) or not len(point):
            raise ArgError(
                f"{who}: point {i} has {len(point)} objectives, expected {len(points[0])} as in "
                "the first point, and at least one; give every point the same objectives"
            )
        for k, cost in enumerate(point):
            if not (cost > 0 and math.isfinite(cost)):
                raise ArgError(
                    f"{who}: point {i} has the cost {cost!r} in objective {k}, expected a finite "
                    "number above 0; leave the point out, or measure it in another way"
                )
