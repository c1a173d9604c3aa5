"""Errors of steps that were not audited: near audits theirs, far from learned steps wide."""

from __future__ import annotations

import numpy as np
import pytest

from stepsim.serving.service import error_field
from stepsim.serving.service.error_field import ErrorField, Reals, _scales
from stepsim.serving.steps.alike import correlations


def draws(field: ErrorField, places: Reals, unlike: Reals, count: int = 200) -> Reals:
    """Functions of the posterior. [count, places]"""
    rng = np.random.default_rng(5)
    return np.array([field.draw(rng, places, unlike) for _ in range(count)])


def smooth(places: Reals) -> Reals:
    """An error of up to 2 % that like places share."""
    found: Reals = 0.01 * (np.sin(2 * places[:, 0]) + np.cos(1.5 * places[:, 1]))
    return found


@pytest.fixture(scope="module")
def audited() -> tuple[Reals, Reals]:
    places = np.random.default_rng(1).uniform(0, 2, (60, 2))
    return places, np.full(60, 0.2)


def test_at_audits_the_error_is_theirs(audited: tuple[Reals, Reals]) -> None:
    places, unlike = audited
    found = draws(ErrorField(places, unlike, smooth(places)), places, unlike)
    assert np.abs(found.mean(axis=0) - smooth(places)).max() < 1e-3
    assert found.std(axis=0).max() < 2e-3


@pytest.mark.parametrize(
    ("power", "corner", "distance"), [(0.0, 0.0, 0.2), (1.0, 2.5, 1.0)], ids=["between", "far"]
)
def test_intervals_hold_the_errors_of_steps_without_audit(
    power: float, corner: float, distance: float
) -> None:
    """Between audits, and where errors are larger than any audit has shown."""
    rng = np.random.default_rng(3)
    held, larger = [], []
    for _ in range(40):
        places, unlike = rng.uniform(0, 2, (40, 2)), rng.uniform(0.0, 0.3, 40)
        others, far = rng.uniform(corner, corner + 1.5, (3, 2)), np.full(3, distance)
        every = np.concatenate([places, others])
        scales = _scales(np.concatenate([unlike, far]), power)
        covariance = correlations(every, every, 0.8) + 1e-9 * np.eye(43)
        errors = 0.01 * scales * (np.linalg.cholesky(covariance) @ rng.standard_normal(43))
        found = draws(ErrorField(places, unlike, errors[:40]), others, far, 60)
        low, high = np.quantile(found, [0.025, 0.975], axis=0)
        held += ((low <= errors[40:]) & (errors[40:] <= high)).tolist()
        larger += (np.abs(errors[40:]) > np.abs(errors[:40]).max()).tolist()
    assert np.mean(held) > 0.9
    if power:
        assert np.mean(larger) > 0.5  # the audits themselves hold few of them


def test_few_audits_give_wide_errors() -> None:
    errors = np.array([0.001, -0.002, 0.001, 0.003])
    places = np.array([[0.0], [1.0], [2.0], [3.0]])
    widths = []
    for count in (2, 4):
        field = ErrorField(places[:count], np.full(count, 0.1), errors[:count])
        found = draws(field, np.array([[9.0]]), np.array([0.1]), 2000)
        widths.append(np.subtract(*np.quantile(found, [0.9, 0.1])))
    assert widths[0] > 1.5 * widths[1]


def test_audits_without_error_leave_none() -> None:
    places = np.array([[0.0, 1.0], [0.0, 1.0], [2.0, 1.0]])  # two at one place
    field = ErrorField(places, np.zeros(3), np.zeros(3))
    assert draws(field, places, np.ones(3), 5).tolist() == np.zeros((5, 3)).tolist()


def test_of_many_audits_a_part_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_field, "_MOST", 40)
    places = np.random.default_rng(4).uniform(0, 2, (200, 2))
    field = ErrorField(places, np.full(200, 0.2), smooth(places))
    assert len(field._places) == 40
    found = draws(field, places, np.full(200, 0.2))
    assert np.abs(found.mean(axis=0) - smooth(places)).mean() < 5e-3
