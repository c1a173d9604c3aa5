"""The estimate of a layer's cycles from its terms: a sum of terms, corrected by samples."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.deferred import deferred
from stepsim.serving.steps.alike import correlations, squared_distances

if TYPE_CHECKING:
    from scipy import optimize
else:
    optimize = deferred("scipy.optimize")

Reals = NDArray[np.float64]

_REACH: Final = 1.0
"""Distance over which residuals are alike, in differences of logarithms of terms."""

_NOISE: Final = 0.03
"""Variance of what a layer has of its own, as a share of that of residuals."""

_MOST: Final = 2048
"""Samples that correct an estimate; of more, half as many at even distances, and those after."""


class Estimator:
    """Estimates cycles of layers of one kind.

    Terms that are cycles of a resource have coefficients from 0, found by least squares of relative
    residuals. What is left of them is the mean of a Gaussian process over the logarithms of the
    terms, given all samples: an average of near ones alone would be short in the whole of a slope.
    """

    def __init__(self) -> None:
        self._terms: list[Reals] = []
        self._cycles: list[float] = []
        self._coefficients: Reals | None = None
        self._used: list[int] = []
        self._places: Reals = np.zeros((0, 1))
        self._inverse: Reals = np.zeros((0, 0))
        self._weights: Reals = np.zeros(0)

    def __len__(self) -> int:
        return len(self._cycles)

    def add(self, terms: Reals, cycles: Reals) -> None:
        """Learn from exact samples: terms ``[samples, terms]`` and their cycles."""
        for one, cycle in zip(terms, cycles, strict=True):
            self._terms.append(one)
            self._cycles.append(float(cycle))
            self._use(len(self._cycles) - 1)
        self._fit()

    def novelty(self, terms: Reals) -> float:
        """How far the terms of a layer are from those of every sample; infinite without any."""
        if not len(self):
            return np.inf
        known = self._places[: len(self._used)]
        return float(np.sqrt(squared_distances(_logs(terms[None]), known).min()))

    def cycles(self, terms: Reals) -> Reals:
        """Estimates for ``[layers, terms]``."""
        near = correlations(_logs(terms), self._places[: len(self._used)], _REACH)
        found: Reals = self._plain(terms) * np.exp(near @ self._weights)
        return found

    def _plain(self, terms: Reals) -> Reals:
        assert self._coefficients is not None
        found: Reals = np.maximum(terms @ self._coefficients, 1.0)
        return found

    def _use(self, sample: int) -> None:
        """Let a sample correct estimates: one more row of the inverse of the Cholesky factor of
        the covariance of residuals.
        """
        count = len(self._used)
        if count == _MOST:
            self._used = []
            for one in np.linspace(0, sample, _MOST // 2).round().astype(int):
                self._use(int(one))
            return
        place = _logs(self._terms[sample][None])
        if count == len(self._inverse):
            self._grow(2 * count or 64, place.shape[1])
        known = self._inverse[:count, :count]
        row = known @ correlations(self._places[:count], place, _REACH)[:, 0]
        height = sqrt(max(1 + _NOISE - float(row @ row), _NOISE))
        self._inverse[count, :count] = -(row @ known) / height
        self._inverse[count, count] = 1 / height
        self._places[count] = place[0]
        self._used.append(sample)

    def _grow(self, room: int, terms: int) -> None:
        count = len(self._used)
        inverse, places = np.zeros((room, room)), np.zeros((room, terms))
        inverse[:count, :count] = self._inverse
        places[:count] = self._places[:count]
        self._inverse, self._places = inverse, places

    def _fit(self) -> None:
        terms, cycles = np.stack(self._terms), np.array(self._cycles)
        scale = np.maximum(terms.max(axis=0), 1e-30)
        found, _ = optimize.nnls(terms / scale / cycles[:, None], np.ones(len(cycles)))
        self._coefficients = found / scale
        residuals = np.log(cycles[self._used] / self._plain(terms[self._used]))
        inverse = self._inverse[: len(self._used), : len(self._used)]
        self._weights = inverse.T @ (inverse @ residuals)


def _logs(terms: Reals) -> Reals:
    found: Reals = np.log(np.maximum(terms, 1.0))
    return found
