"""The estimator of layers: near all that it has learned, however long ago."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from stepsim.serving.steps import estimator
from stepsim.serving.steps.estimator import Estimator

Reals = NDArray[np.float64]


def _terms(count: int, low: float, high: float, seed: int) -> Reals:
    """Terms of layers, of which the two of a resource each are between these cycles."""
    rng = np.random.default_rng(seed)
    return np.concatenate([np.ones((count, 1)), rng.uniform(low, high, (count, 2))], axis=1)


def _cycles(terms: Reals) -> Reals:
    """No sum of terms: two resources that hinder each other where both are busy."""
    return np.asarray(np.hypot(terms[:, 1], terms[:, 2]) + 0.3 * np.sqrt(terms[:, 1] * terms[:, 2]))


def test_estimates_follow_what_is_no_sum_of_terms() -> None:
    known, other = _terms(60, 1e4, 4e4, 0), _terms(200, 1e4, 4e4, 1)
    found = Estimator()
    found.add(known, _cycles(known))
    error = found.cycles(other) / _cycles(other) - 1
    assert np.abs(error).max() < 0.01
    assert abs(error.mean()) < 0.0005


@pytest.mark.parametrize("most", [2048, 512])
def test_what_was_learned_first_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(estimator, "_MOST", most)
    short, long = _terms(60, 1e4, 4e4, 0), _terms(700, 1e6, 4e6, 2)
    found = Estimator()
    for known in (short, *np.split(long, 7)):
        found.add(known, _cycles(known))
    assert len(found) == 760
    for other in (_terms(200, 1e4, 4e4, 1), _terms(200, 1e6, 4e6, 3)):
        error = found.cycles(other) / _cycles(other) - 1
        assert abs(error.mean()) < 0.005
        assert np.abs(error).max() < 0.05


def test_novelty_is_the_distance_of_logarithms() -> None:
    found = Estimator()
    assert found.novelty(np.array([1.0, 2.0, 3.0])) == np.inf
    found.add(np.array([[1.0, 200.0, 300.0]]), np.array([500.0]))
    assert found.novelty(np.array([1.0, 200.0, 300.0])) == pytest.approx(0, abs=1e-6)
    assert found.novelty(np.array([1.0, 200.0 * np.e, 300.0])) == pytest.approx(1)
