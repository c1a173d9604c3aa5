"""How far the times of requests are off because steps were estimated.

Audits say how far some steps are off. The service is served again and again, each time with other
errors of its steps, which may be the true ones as far as the audits tell (`ErrorField`): its
metrics then differ from one time to the next as they differ from those of exact steps. Queues
amplify errors of steps, and a step that ends a little later may take a request that another one
would have taken; both are in the intervals, since the scheduler decides anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np

from stepsim.serving.service.errors.error_field import ErrorField
from stepsim.serving.service.errors.recalled import RecalledSteps, logs
from stepsim.serving.service.record import StepRows
from stepsim.serving.steps.audited import AuditedSteps
from stepsim.serving.steps.interface import StepModel

JUDGED: Final = ("ttft_mean_ms", "ttft_p99_ms", "tpot_mean_ms", "tpot_p99_ms")
"""Metrics whose error is stated."""

_TIMES: Final = 39
"""Services with drawn errors: one more, the true one, lies between the least and the largest of
them in 38 of 40 cases, whatever the distribution. A request that is taken a step later makes it one
of jumps, for which the quantiles of a normal distribution are too near."""

_FEWEST: Final = 2
"""Audits from which on errors are drawn."""

Serve = Callable[[list[StepModel]], Mapping[str, Any]]
"""Serves all requests with these step models, and returns the metrics."""


class Judged(IntEnum):
    """What must be within the error that was asked for: the time of all steps, or metrics too."""

    NOTHING, STEPS, METRICS = range(3)


@dataclass(frozen=True, slots=True)
class MetricErrors:
    """How far the metrics are from those of exact steps, as shares of them.

    Attributes
    ----------
    rounds : how often the service was served with more effort than before.
    wanted : the largest error that was asked for.
    within : whether the time of all steps and every metric are within it.
    intervals : 95 % intervals of the errors of metrics, by name; a metric above its exact value
        has an error above 0. Empty if there are too few audits.
    """

    rounds: int
    wanted: float
    within: bool
    intervals: Mapping[str, tuple[float, float]]

    def to_dict(self) -> dict[str, Any]:
        """All values by name."""
        return asdict(self) | {"intervals": {k: list(v) for k, v in self.intervals.items()}}


def metric_errors(
    models: Sequence[AuditedSteps], rows: Sequence[StepRows], served: Mapping[str, Any],
    serve: Serve, *, judged: Judged = Judged.NOTHING, progress: Callable[[str], None] | None = None,
) -> MetricErrors | None:  # fmt: skip
    """The errors of the metrics ``served`` of a service whose steps, for each model, are ``rows``.

    None if nothing is known of them, and as soon as one that is judged is seen to be too large.
    """
    say = _nothing if progress is None else progress
    say("error of the steps: some more of them are simulated")
    reports = [model.report() for model in models]
    wanted, rounds = max(model.error for model in models), models[0].rounds
    audits = [one for model in models for one in model.audits]
    if all(model.is_exact for model in models):
        exact = {name: (0.0, 0.0) for name in JUDGED if served.get(name)}
        return MetricErrors(rounds, wanted, True, exact)
    if len(audits) < _FEWEST or any(report.bias is None for report in reports):
        return None
    near = all(one.within for one in reports)
    if judged >= Judged.STEPS and not near:
        return None
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    what = f"of {_TIMES} services with drawn errors of steps"
    say(f"error of the metrics: 0 {what}")
    for number, drawn in enumerate(_drawn(rows, served, serve, models), 1):
        say(f"error of the metrics: {number} {what}")
        low = {name: min(error, low.get(name, error)) for name, error in drawn.items()}
        high = {name: max(error, high.get(name, error)) for name, error in drawn.items()}
        if judged >= Judged.METRICS and max(map(abs, drawn.values()), default=0.0) > wanted:
            return None
    intervals = {name: (low[name], high[name]) for name in low}
    near = near and all(max(-low, high) <= wanted for low, high in intervals.values())
    return MetricErrors(rounds, wanted, near, intervals)


def _drawn(
    rows: Sequence[StepRows], served: Mapping[str, Any], serve: Serve,
    models: Sequence[AuditedSteps],
) -> Iterator[dict[str, float]]:  # fmt: skip
    """Errors of the metrics, by name, as they are if one service after the other is exact."""
    recalled = RecalledSteps(rows, models)
    names = [name for name in JUDGED if served.get(name)]
    audits = [one for model in models for one in model.audits]
    # An estimator learns with every step, so that early steps are off otherwise than late ones.
    amounts = [(one.requests, one.tokens, one.cached, one.step) for one in audits]
    places = logs(np.array(amounts))
    unlike = np.array([one.unlike for one in audits])
    errors = np.log([one.correction for one in audits])
    field = ErrorField(places, unlike, errors, np.array([one.variance for one in audits]))
    rng = np.random.default_rng([models[0].seed, len(audits)])
    for _ in range(_TIMES):
        factors = np.exp(field.draw(rng, recalled.places, recalled.unlike))
        drawn = serve(
            [
                recalled.engine(place, model.exact, factors, rng)
                for place, model in enumerate(models)
            ]
        )
        yield {name: float(served[name] / drawn[name] - 1) for name in names}


def _nothing(_: str) -> None:
    """Progress that nobody asked for."""
