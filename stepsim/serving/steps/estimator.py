"""The estimate of a layer's cycles from its terms: a sum of terms, corrected by near samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.deferred import deferred

if TYPE_CHECKING:
    from scipy import optimize
else:
    optimize = deferred("scipy.optimize")

Reals = NDArray[np.float64]

_REACH: Final = 0.2
"""Distance over which a residual counts, in differences of logarithms of terms."""

_DOUBT: Final = 0.3
"""Weight against that of near samples, which draws corrections to none."""

_MOST: Final = 600
"""Samples that correct an estimate: the latest ones."""


class Estimator:
    """Estimates cycles of layers of one kind.

    Terms that are cycles of a resource have coefficients from 0, found by least squares of relative
    residuals; what is left of them is interpolated in the logarithms of the terms.
    """

    def __init__(self) -> None:
        self._terms: list[Reals] = []
        self._cycles: list[float] = []
        self._coefficients: Reals | None = None
        self._places: Reals = np.zeros((0, 1))
        self._residuals: Reals = np.zeros(0)

    def __len__(self) -> int:
        return len(self._cycles)

    def add(self, terms: Reals, cycles: Reals) -> None:
        """Learn from exact samples: terms ``[samples, terms]`` and their cycles."""
        self._terms += list(terms)
        self._cycles += [float(one) for one in cycles]
        self._fit()

    def novelty(self, terms: Reals) -> float:
        """How far the terms of a layer are from those of every sample; infinite without any."""
        if not len(self):
            return np.inf
        return float(np.sqrt(self._squares(terms[None]).min()))

    def cycles(self, terms: Reals) -> Reals:
        """Estimates for ``[layers, terms]``."""
        assert self._coefficients is not None
        plain = np.maximum(terms @ self._coefficients, 1.0)
        near = np.exp(-self._squares(terms) / (2 * _REACH**2))
        corrected = near @ self._residuals / (near.sum(axis=1) + _DOUBT)
        found: Reals = plain * np.exp(corrected)
        return found

    def _fit(self) -> None:
        terms, cycles = np.stack(self._terms), np.array(self._cycles)
        scale = np.maximum(terms.max(axis=0), 1e-30)
        found, _ = optimize.nnls(terms / scale / cycles[:, None], np.ones(len(cycles)))
        self._coefficients = found / scale
        plain = np.maximum(terms @ self._coefficients, 1.0)
        self._residuals = np.log(cycles / plain)[-_MOST:]
        self._places = self._logs(terms)[-_MOST:]

    def _logs(self, terms: Reals) -> Reals:
        return np.log(np.maximum(terms, 1.0))

    def _squares(self, terms: Reals) -> Reals:
        """Squared distances ``[layers, samples]``."""
        at = self._logs(terms)
        squares = (at**2).sum(axis=1)[:, None] + (self._places**2).sum(axis=1)
        found: Reals = np.maximum(squares - 2 * at @ self._places.T, 0.0)
        return found
