"""Errors of steps that were not audited: near audits theirs, far from learned steps wide."""

from __future__ import annotations

import numpy as np
import pytest

from stepsim.serving.service.errors import error_field
from stepsim.serving.service.errors.error_field import ErrorField, Reals, _scales
from stepsim.serving.steps.alike import correlations


def field_of(places: Reals, unlike: Reals, errors: Reals) -> ErrorField:
    """The field of audits of all layers of their steps."""
    return ErrorField(places, unlike, errors, np.zeros(len(errors)))


def draws(
    field: ErrorField, places: Reals, unlike: Reals, count: int = 200, seed: int = 5
) -> Reals:
    """Functions of the posterior. [count, places]"""
    rng = np.random.default_rng(seed)
    return np.array([field.draw(rng, places, unlike) for _ in range(count)])


def smooth(places: Reals) -> Reals:
    """An error of up to 2 % that like places share."""
    found: Reals = 0.01 * (np.sin(2 * places[:, 0]) + np.cos(1.5 * places[:, 1]))
    return found


@pytest.fixture(scope="module")
def audited() -> tuple[Reals, Reals]:
    places = np.random.default_rng(1).uniform(0, 2, (60, 2))
    return places, np.full(60, 0.2)


@pytest.mark.slow
def test_at_audits_the_error_is_theirs(audited: tuple[Reals, Reals]) -> None:
    places, unlike = audited
    found = draws(field_of(places, unlike, smooth(places)), places, unlike)
    assert np.abs(found.mean(axis=0) - smooth(places)).max() < 1e-3
    assert found.std(axis=0).max() < 2e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("power", "corner", "distance", "own"),
    [
        pytest.param(0.0, 0.0, 0.2, 0.0, id="between-0.0"),
        pytest.param(0.0, 0.0, 0.2, 0.3, id="between-0.3", marks=pytest.mark.slow),
        pytest.param(1.0, 2.5, 1.0, 0.0, id="far-0.0", marks=pytest.mark.slow),
        pytest.param(1.0, 2.5, 1.0, 0.3, id="far-0.3"),
    ],
)
def test_intervals_hold_the_errors_of_steps_without_audit(
    power: float, corner: float, distance: float, own: float
) -> None:
    """Between audits, and where errors are larger than any audit has shown, with and without what
    every step has of its own.
    """
    rng = np.random.default_rng(3)
    held, larger = [], []
    for trial in range(40):
        places, unlike = rng.uniform(0, 2, (40, 2)), rng.uniform(0.0, 0.3, 40)
        others, far = rng.uniform(corner, corner + 1.5, (3, 2)), np.full(3, distance)
        every = np.concatenate([places, others])
        scales = _scales(np.concatenate([unlike, far]), power)
        covariance = correlations(every, every, 0.8) + (1e-9 + own) * np.eye(43)
        errors = 0.01 * scales * (np.linalg.cholesky(covariance) @ rng.standard_normal(43))
        found = draws(field_of(places, unlike, errors[:40]), others, far, 39, trial)
        low, high = found.min(axis=0), found.max(axis=0)  # which hold one more in 38 of 40 cases
        held += ((low <= errors[40:]) & (errors[40:] <= high)).tolist()
        larger += (np.abs(errors[40:]) > np.abs(errors[:40]).max()).tolist()
    assert np.mean(held) > 0.9
    if power:
        assert np.mean(larger) > 0.5  # the audits themselves hold few of them


@pytest.mark.slow
def test_few_audits_give_wide_errors() -> None:
    errors = np.array([0.001, -0.002, 0.001, 0.003])
    places = np.array([[0.0], [1.0], [2.0], [3.0]])
    widths = []
    for count in (2, 4):
        field = field_of(places[:count], np.full(count, 0.1), errors[:count])
        found = draws(field, np.array([[9.0]]), np.array([0.1]), 2000)
        widths.append(np.subtract(*np.quantile(found, [0.9, 0.1])))
    assert widths[0] > 1.5 * widths[1]


def test_audits_without_error_leave_none() -> None:
    places = np.array([[0.0, 1.0], [0.0, 1.0], [2.0, 1.0]])  # two at one place
    field = field_of(places, np.zeros(3), np.zeros(3))
    assert draws(field, places, np.ones(3), 5).tolist() == np.zeros((5, 3)).tolist()


@pytest.mark.slow
def test_of_many_audits_a_part_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_field, "_MOST", 40)
    places = np.random.default_rng(4).uniform(0, 2, (200, 2))
    field = field_of(places, np.full(200, 0.2), smooth(places))
    assert len(field._places) == 40
    found = draws(field, places, np.full(200, 0.2))
    assert np.abs(found.mean(axis=0) - smooth(places)).mean() < 5e-3


def test_steps_have_what_audits_have_of_their_own_but_for_the_sample_of_layers() -> None:
    rng = np.random.default_rng(6)
    places, unlike = rng.uniform(0, 2, (60, 2)), np.full(60, 0.2)
    errors = 0.01 * rng.standard_normal(60)  # which like steps do not share
    for variance, low, high in ((0.0, 0.008, 0.012), (0.75e-4, 0.003, 0.007), (1.1e-4, 0.0, 0.003)):
        field = ErrorField(places, unlike, errors, np.full(60, variance))
        found = draws(field, np.tile([[1.0, 1.0]], (40, 1)), np.full(40, 0.2), 40)
        assert low < found.std(axis=1).mean() < high, variance
