"""`ErrorField`: what errors steps may have of which none was audited, as far as audits tell.

Estimates interpolate between steps that were learned, so that steps unlike all of these may be off
by more. Like steps are off alike: next to an audit the error of a step is that of the audit, far
from all of them anything that audits have shown of steps as unlike the learned ones. This is a
Gaussian process of unknown mean, variance and reach, times an unknown power of that distance.
Functions are drawn from its posterior by random features (Rahimi and Recht, NeurIPS 2007) and a
correction that leads them through the audits (Wilson et al., "Efficiently sampling functions from
Gaussian process posteriors", ICML 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.serving.steps.alike import correlations

Reals = NDArray[np.float64]

_REACHES: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Distances over which errors are alike, of which each is as likely before audits are seen."""

_NOISES: Final = (0.001, 0.1, 1.0, 10.0)
"""Variances of what an audit has of its own, as shares of that of the field; likewise."""

_POWERS: Final = (0.0, 0.5, 1.0)
"""Powers of the distance from learned steps with which errors may grow; likewise."""

_NEAR: Final = 0.05
"""Distance from a learned step up to which errors hardly grow."""

_MOST: Final = 384
"""Audits that the process is fitted to; of more, as many at even distances. Fewer audits give wider
errors, and the time of fitting grows with the cube of their number."""

_FEATURES: Final = 512
"""Cosines of which a function is the sum."""


class ErrorField:
    """The posterior of errors over places, a Matérn process of order 3/2.

    The mean has a flat prior and the variance that of Jeffreys, so that few audits give wide
    errors. An audit has something of its own, which like audits do not share: the sample of layers
    that was simulated, and what is peculiar to its step. Every step has the latter.

    Args:
        places: of the audits. [audits, dimensions]
        unlike: distances of the audited steps from learned ones. [audits]
        errors: of the audits, of which there are at least two.
        variances: of the errors of these samples of layers. [audits]
    """

    def __init__(self, places: Reals, unlike: Reals, errors: Reals, variances: Reals) -> None:
        some = np.linspace(0, len(errors) - 1, min(_MOST, len(errors))).round().astype(int)
        places, unlike, errors = places[some], unlike[some], errors[some]
        self._places, self._unlike, self._sampled = places, unlike, variances[some]
        self._fits = [
            _fitted(places, _scales(unlike, power), errors, reach, noise, power)
            for reach in _REACHES
            for noise in _NOISES
            for power in _POWERS
        ]
        logs = np.array([one.log_likelihood for one in self._fits])
        shares = np.exp(logs - logs.max())
        self._shares = shares / shares.sum()

    def draw(self, rng: np.random.Generator, places: Reals, unlike: Reals) -> Reals:
        """Errors at other places, ``[places, dimensions]``, as they may be together. [places]"""
        fit = self._fits[int(rng.choice(len(self._fits), p=self._shares))]
        count, dimensions = self._places.shape
        spread = sqrt(fit.squares / rng.chisquare(count - 1))
        mean = fit.mean + spread / sqrt(fit.weight) * rng.standard_normal()
        # The spectrum of a Matérn process of order 3/2 is Student's t with 3 degrees of freedom.
        tails = np.sqrt(rng.chisquare(3, _FEATURES) / 3)
        # Single precision is far finer than audits are, and takes a fifth of the time.
        waves = _single(rng.standard_normal((dimensions, _FEATURES)) / tails / fit.reach)
        phases = _single(rng.uniform(0, 2 * np.pi, _FEATURES))
        heights = _single(rng.standard_normal(_FEATURES) * sqrt(2 / _FEATURES))

        def prior(at: Reals) -> Reals:
            found: Reals = (np.cos(_single(at) @ waves + phases) @ heights).astype(np.float64)
            return found

        own = sqrt(fit.noise) * rng.standard_normal(count)
        left = fit.errors - mean - spread * (prior(self._places) + own)
        through = correlations(places, self._places, fit.reach) @ (fit.inverse @ left)
        sampled = float((self._sampled / _scales(self._unlike, fit.power) ** 2).mean())
        peculiar = sqrt(max(fit.noise * spread**2 - sampled, 0.0)) * rng.standard_normal(
            len(places)
        )
        errors = mean + spread * prior(places) + through + peculiar
        found: Reals = _scales(unlike, fit.power) * errors
        return found


@dataclass(frozen=True, eq=False, slots=True)
class _Fit:
    """A process with a reach, a noise and a power, fitted to audits.

    Attributes
    ----------
    errors : of the audits, over that power of their distances. [audits]
    inverse : of the covariance of the audits over the variance. [audits, audits]
    weight : sum of ``inverse``.
    mean : of the process.
    squares : sum of squared errors, each over its variance; their variance is ``squares`` over a
        chi-squared number.
    """

    reach: float
    noise: float
    power: float
    errors: Reals
    inverse: Reals
    weight: float
    mean: float
    squares: float
    log_likelihood: float


def _fitted(
    places: Reals, scales: Reals, errors: Reals, reach: float, noise: float, power: float
) -> _Fit:
    count, errors = len(errors), errors / scales
    covariance = correlations(places, places, reach) + noise * np.eye(count)
    inverse = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
    weight = float(inverse.sum())
    mean = float(inverse.sum(axis=0) @ errors) / weight
    left = errors - mean
    squares = max(float(left @ inverse @ left), 0.0)
    # Mean and variance are integrated out.
    logs = float(np.linalg.slogdet(covariance)[1]) + np.log(weight)
    logs += (count - 1) * np.log(max(squares, 1e-300)) + 2 * np.log(scales).sum()
    return _Fit(reach, noise, power, errors, inverse, weight, mean, squares, -float(logs) / 2)


def _scales(unlike: Reals, power: float) -> Reals:
    found: Reals = (unlike + _NEAR) ** power
    return found


def _single(reals: Reals) -> NDArray[np.float32]:
    return reals.astype(np.float32)
