"""The error of metrics: intervals that hold the metrics of exact steps, and more effort until
they are narrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from stepsim.serving import Batch, LinearSteps, StepTime
from stepsim.serving.service.errors.uncertainty import JUDGED, Judged, metric_errors
from stepsim.serving.service.serve import Service
from stepsim.serving.steps.audited import Audit, AuditReport, attended_by

_WANTED = 0.01


class Estimated:
    """Linear steps that are too long by a share, with audits of some that say so; the first
    ``exact`` ones are not too long.
    """

    error, seed, rounds = _WANTED, 1, 0

    def __init__(self, bias: float, spread: float = 0.0) -> None:
        self.linear = LinearSteps(step_ns=2e6, token_ns=2e4, decode_context_ns=40)
        self.bias, self.spread = bias, spread
        self.audits: list[Audit] = []
        self.unlike: list[float] = []
        self.attended: list[tuple[int, int]] = []
        self.exact, self.is_exact = 0, False

    def time(self, step: int, batch: Batch) -> StepTime:
        exact = self.linear.time(step, batch).ns
        off = self.bias + self.spread * np.random.default_rng(step).standard_normal()
        found = round(exact * (1 + off))
        self.unlike.append(0.1)
        self.attended.append(attended_by(batch))
        if step < self.exact:
            return StepTime(exact, how="exact")
        if step % 5 == 0:
            self.audits.append(
                Audit(
                    step, len(batch.new), int(batch.new.sum()), int(batch.before.sum()), 1.0, 0.1,
                    found, 0, found, exact, 0.0,
                )
            )  # fmt: skip
        return StepTime(found, how="estimated")

    def report(self) -> AuditReport:
        return AuditReport(
            9, len(self.audits), 9, 0.0, 0.0, self.bias, self.bias, self.bias, _WANTED,
            abs(self.bias) <= _WANTED,
        )  # fmt: skip


def errors(service: Service, model: Any) -> tuple[Any, Mapping[str, float]]:
    """The stated errors, and the true ones."""
    served = service._served([model], None, None)
    found = service._metrics([Recording(served)])
    exact = service._metrics([model.linear])
    stated = metric_errors([model], served.steps, found, service._metrics)
    return stated, {name: found[name] / exact[name] - 1 for name in JUDGED}


class Recording:
    """The recorded times of steps."""

    def __init__(self, served: Any) -> None:
        self._rows = served.steps[0]

    def time(self, step: int, batch: Batch) -> StepTime:
        return StepTime(int(self._rows.length_ns[step]))


@pytest.mark.slow
def test_estimates_without_error_give_intervals_without_width(service: Service) -> None:
    stated, true = errors(service, Estimated(0.0))
    assert true == dict.fromkeys(JUDGED, 0.0)
    assert stated.within
    assert all(interval == (0.0, 0.0) for interval in stated.intervals.values())


@pytest.mark.slow
@pytest.mark.parametrize("bias", [-0.03, 0.03])
def test_intervals_hold_what_a_bias_of_steps_makes_of_the_metrics(
    service: Service, bias: float
) -> None:
    stated, true = errors(service, Estimated(bias, 0.004))
    assert not stated.within
    assert stated.intervals.keys() == set(JUDGED)
    for name, (low, high) in stated.intervals.items():
        assert low - 1e-3 <= true[name] <= high + 1e-3, (name, low, high)
    low, high = stated.intervals["tpot_mean_ms"]
    assert (low + high) * bias > 0


@pytest.mark.slow
@pytest.mark.parametrize("bias", [-0.02, 0.02])
def test_a_bias_that_all_audits_agree_on_is_known_well(service: Service, bias: float) -> None:
    stated, true = errors(service, Estimated(bias))
    for name, (low, high) in stated.intervals.items():
        assert low - 1e-3 <= true[name] <= high + 1e-3, (name, true[name], low, high)
        assert high - low < 0.5 * abs(true[name]) + 1e-3, (name, low, high)


@pytest.mark.slow
def test_exact_steps_have_no_error(service: Service) -> None:
    """The more of the first steps are exact, the less wide the intervals are, which still hold the
    true errors; in the end they have no width.
    """
    widths = []
    steps = len(service._served([Estimated(0.0)], None, None).steps[0])
    for exact in (0, steps // 2, steps * 3 // 4):
        model = Estimated(0.03, 0.004)
        model.exact = exact
        stated, true = errors(service, model)
        for name, (low, high) in stated.intervals.items():
            assert low - 1e-3 <= true[name] <= high + 1e-3, (exact, name, true[name], low, high)
        widths.append(max(map(abs, stated.intervals["tpot_mean_ms"])))
    assert widths[0] > widths[1] > widths[2] > 0
    model = Estimated(0.03)
    model.exact, model.is_exact = 10 * steps, True
    stated, true = errors(service, model)
    assert true == dict.fromkeys(JUDGED, 0.0)
    assert stated.within
    assert stated.intervals == dict.fromkeys(JUDGED, (0.0, 0.0))


@pytest.mark.slow
def test_queues_amplify_the_error_of_steps(service: Service) -> None:
    stated, _ = errors(service, Estimated(0.009))
    assert stated.intervals["tpot_mean_ms"][0] > 0.015
    assert not stated.within


def test_without_audits_nothing_is_stated(service: Service) -> None:
    model: Any = Estimated(0.0)
    served = service._served([model], None, None)
    model.audits = []
    assert metric_errors([model], served.steps, served.metrics(), service._metrics) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bias", "spread", "most"), [(0.02, 0.0, 0), (0.009, 0.0, 1), (0.0, 0.0, 39)],
    ids=["steps", "queues", "neither"],
)  # fmt: skip
def test_a_round_ends_as_soon_as_its_error_is_seen_to_be_too_large(
    service: Service, bias: float, spread: float, most: int
) -> None:
    """Of the services with drawn errors one is served that shows it; or none, if the error of the
    steps is too large already.
    """
    model: Any = Estimated(bias, spread)
    times: list[Any] = []
    first = service._served([model], None, None)

    def served(models: Any) -> Mapping[str, Any]:
        times.append(models)
        return service._metrics(models)

    stated = metric_errors([model], first.steps, first.metrics(), served, judged=Judged.METRICS)
    assert (stated is None) == (bias > 0)
    assert len(times) == most


@pytest.mark.slow
def test_of_a_long_service_only_the_steps_are_judged(service: Service) -> None:
    """Their time is within what was asked for, TPOT is not: both are stated."""
    model: Any = Estimated(0.009)
    served = service._served([model], None, None)
    stated = metric_errors(
        [model], served.steps, served.metrics(), service._metrics, judged=Judged.STEPS
    )
    assert stated is not None
    assert not stated.within
    model.bias = 0.02
    assert (
        metric_errors(
            [model], served.steps, served.metrics(), service._metrics, judged=Judged.STEPS
        )
        is None
    )
