"""A forecast of untried points from those that were tried.

Costs of designs are close to products of the effects of single parameters and of pairs of them: the
logarithm is regressed on every axis and every pair of axes, with a kernel that correlates near
values of an axis (a Gaussian process with an additive kernel of second order).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from stepsim.sweep.search.space import Place, Space

_NOISE = 1e-3
_PAIRS = 0.25
"""Weight of pairs of axes relative to single ones."""

_MOST_FITTED = 600
"""Most points that a forecast is made from; if there are more, the latest."""

_Real = npt.NDArray[np.float64]


Outcome = tuple[Sequence[float] | None, bool]
"""Costs of a point, None if it is infeasible, and whether it satisfies all constraints."""


def promising(
    space: Space, outcomes: Mapping[Place, Outcome], candidates: Sequence[Place], count: int
) -> list[Place]:
    """Candidates that are forecast to lie furthest beyond the front, and beyond each other.

    Costs are above 0. Candidates that are forecast to be infeasible, or to violate a constraint,
    are left out.
    """
    tried = [*outcomes.items()][-_MOST_FITTED:]
    good = [(place, costs) for place, (costs, _) in tried if costs is not None]
    if len(good) < 2 or not candidates:
        return []
    there = np.array(candidates)
    found = _forecast(space, [p for p, _ in good], np.log([costs for _, costs in good]), there)
    wanted = [costs is not None and allowed for _, (costs, allowed) in tried]
    bad = _forecast(space, [p for p, _ in tried], 1.0 - np.array(wanted)[:, None], there)
    known = np.log(
        [c for c, allowed in outcomes.values() if c is not None and allowed]
        or np.ones((0, len(good[0][1])))
    )
    # By how much the best of the objectives beats each known point, in the worst case.
    gain = np.full(len(there), np.inf)
    for point in known:
        np.minimum(gain, np.max(point - found, axis=1), out=gain)
    gain[bad[:, 0] >= 0.5] = -np.inf
    chosen: list[Place] = []
    while len(chosen) < count:
        best = int(np.argmax(np.round(gain, 9)))
        if gain[best] == -np.inf:
            break
        chosen.append(candidates[best])
        gain = np.minimum(gain, np.max(found[best] - found, axis=1))
        gain[best] = -np.inf
    return chosen


def _forecast(
    space: Space, places: Sequence[Place], values: _Real, there: npt.NDArray[np.int64]
) -> _Real:
    here = np.array(places)
    middle = values.mean(axis=0)
    inner = _kernel(space, here, here) + _NOISE * np.eye(len(here))
    weights = np.linalg.solve(inner, values - middle)
    forecast: _Real = _kernel(space, there, here) @ weights + middle
    return forecast


def _kernel(space: Space, a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> _Real:
    single = np.zeros((len(a), len(b)))
    squares = np.zeros_like(single)
    for axis in range(len(space.names)):
        own = space.likeness(axis)[a[:, axis][:, None], b[:, axis][None, :]]
        single += own
        squares += own * own
    found: _Real = single + _PAIRS * (single * single - squares) / 2
    return found
