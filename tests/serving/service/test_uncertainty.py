"""The error of metrics: intervals that hold the metrics of exact steps, and more effort until
they are narrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from stepsim.serving import Batch, LinearSteps, RandomLengths, StepTime
from stepsim.serving.requests.arrivals import DrawnArrivals
from stepsim.serving.service.serve import Service, prepare_service
from stepsim.serving.service.uncertainty import JUDGED, metric_errors
from stepsim.serving.steps.audited import Audit, AuditReport

_WANTED = 0.01

_ARRAYS = ("request", "new", "before", "emits")


class Estimated:
    """Linear steps that are too long by a share, with audits of some that say so.

    Attributes
    ----------
    now : the share by which estimates are too long after the service.
    """

    error, seed, rounds = _WANTED, 1, 0

    def __init__(self, bias: float, spread: float = 0.0) -> None:
        self.exact = LinearSteps(step_ns=2e6, token_ns=2e4, decode_context_ns=40)
        self.bias, self.spread = bias, spread
        self.audits: list[Audit] = []
        self.unlike: list[float] = []
        self.prompts: list[tuple[int, Batch]] = []
        self.now = bias

    def time(self, step: int, batch: Batch) -> StepTime:
        exact = self.exact.time(step, batch).ns
        off = self.bias + self.spread * np.random.default_rng(step).standard_normal()
        found = round(exact * (1 + off))
        self.unlike.append(0.1)
        if step % 5 == 0:
            self.audits.append(
                Audit(
                    step, len(batch.new), int(batch.new.sum()), int(batch.before.sum()), 1.0, 0.1,
                    found, 0, found, exact, 0.0,
                )
            )  # fmt: skip
        if batch.new.sum() > len(batch.new):
            self.prompts.append((step, Batch(*(getattr(batch, one).copy() for one in _ARRAYS))))
        return StepTime(found, how="estimated")

    def estimated_ns(self, batch: Batch) -> float:
        return self.exact.time(0, batch).ns * (1 + self.now)

    def report(self) -> AuditReport:
        return AuditReport(
            9, len(self.audits), 9, 0.0, 0.0, self.bias, self.bias, self.bias, _WANTED,
            abs(self.bias) <= _WANTED,
        )  # fmt: skip


@pytest.fixture(scope="module")
def service() -> Service:
    requests = RandomLengths(
        count=60, input_len=400, output_len=24, input_range=0.5, seed=2
    ).requests()
    return prepare_service(
        trace=DrawnArrivals(120.0, 1.0, 3).arrive(requests), num_blocks=4000,
        steps="linear:2000000,20000,40",
    )  # fmt: skip


def errors(service: Service, model: Any) -> tuple[Any, Mapping[str, float]]:
    """The stated errors, and the true ones."""
    served = service._served([model], None, None)
    found = service._metrics([Recording(served)])
    exact = service._metrics([model.exact])
    stated = metric_errors([model], served.steps, service._metrics)
    return stated, {name: found[name] / exact[name] - 1 for name in JUDGED}


class Recording:
    """The recorded times of steps."""

    def __init__(self, served: Any) -> None:
        self._rows = served.steps[0]

    def time(self, step: int, batch: Batch) -> StepTime:
        return StepTime(int(self._rows.length_ns[step]))


def test_estimates_without_error_give_intervals_without_width(service: Service) -> None:
    stated, true = errors(service, Estimated(0.0))
    assert true == dict.fromkeys(JUDGED, 0.0)
    assert stated.within
    assert all(interval == (0.0, 0.0) for interval in stated.intervals.values())


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


@pytest.mark.parametrize("bias", [-0.02, 0.02])
def test_what_an_estimator_learned_of_audits_is_not_corrected_again(
    service: Service, bias: float
) -> None:
    """Steps with prompt tokens that were not served are estimated after the service, when the
    estimator knows what the audits have shown.
    """
    model = Estimated(bias)
    model.now = 0.0
    stated, true = errors(service, model)
    for name, (low, high) in stated.intervals.items():
        assert low - 1e-3 <= true[name] <= high + 1e-3, (name, true[name], low, high)
        assert high - low < 0.5 * abs(true[name]) + 1e-3, (name, low, high)


def test_queues_amplify_the_error_of_steps(service: Service) -> None:
    stated, _ = errors(service, Estimated(0.009))
    assert stated.intervals["tpot_mean_ms"][0] > 0.015
    assert not stated.within


def test_without_audits_nothing_is_stated(service: Service) -> None:
    model: Any = Estimated(0.0)
    served = service._served([model], None, None)
    model.audits = []
    model.rounds = 2
    stated = metric_errors([model], served.steps, service._metrics, is_last=False)
    assert stated is not None
    assert (stated.within, stated.intervals, stated.rounds) == (False, {}, 2)
    assert stated.to_dict()["wanted"] == _WANTED


@pytest.mark.parametrize(
    ("bias", "spread", "most"), [(0.02, 0.0, 0), (0.009, 0.0, 2), (0.0, 0.0, 40)],
    ids=["steps", "queues", "neither"],
)  # fmt: skip
def test_a_round_ends_as_soon_as_its_error_is_seen_to_be_too_large(
    service: Service, bias: float, spread: float, most: int
) -> None:
    """Of the services with drawn errors one is served that shows it, beside that without; or none,
    if the error of the steps is too large already.
    """
    model: Any = Estimated(bias, spread)
    times: list[Any] = []
    rows = service._served([model], None, None).steps

    def served(models: Any) -> Mapping[str, Any]:
        times.append(models)
        return service._metrics(models)

    stated = metric_errors([model], rows, served, is_last=False)
    assert (stated is None) == (bias > 0)
    assert len(times) == most
