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
from math import exp, log, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.serving.scheduling.interface import Batch
from stepsim.serving.service.error_field import ErrorField
from stepsim.serving.service.record import StepRows, joined
from stepsim.serving.steps.audited import RECALLED, Audit, AuditedSteps
from stepsim.serving.steps.interface import StepModel, StepTime

Reals = NDArray[np.float64]
Ints = NDArray[np.int64]

JUDGED: Final = ("ttft_mean_ms", "ttft_p99_ms", "tpot_mean_ms", "tpot_p99_ms")
"""Metrics whose error is stated."""

_TIMES: Final = 39
"""Services with drawn errors: one more, the true one, lies between the least and the largest of
them in 38 of 40 cases, whatever the distribution. A request that is taken a step later makes it one
of jumps, for which the quantiles of a normal distribution are too near."""

_FEWEST: Final = 2
"""Audits from which on errors are drawn."""

_COMPARED: Final = 512
"""Decoding steps that are compared with like ones."""

Serve = Callable[[list[StepModel]], Mapping[str, Any]]
"""Serves all requests with these step models, and returns the metrics."""


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
    models: Sequence[AuditedSteps], rows: Sequence[StepRows], serve: Serve, *,
    is_last: bool = True, progress: Callable[[str], None] | None = None,
) -> MetricErrors | None:  # fmt: skip
    """The errors of the metrics of a service whose steps, for each model, are ``rows``.

    None as soon as one is seen to be too large, unless this is the last round.
    """
    say = _nothing if progress is None else progress
    say("error of the steps: some more of them are simulated")
    reports = [model.report() for model in models]
    wanted, rounds = max(model.error for model in models), models[0].rounds
    audits = [one for model in models for one in model.audits]
    known = len(audits) >= _FEWEST and all(report.bias is not None for report in reports)
    if not known:
        return MetricErrors(rounds, wanted, False, {})
    near = all(one.within for one in reports)
    most = np.inf if is_last else wanted
    if not near and not is_last:
        return None
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    what = f"of {_TIMES} services with drawn errors of steps"
    say(f"error of the metrics: 0 {what}")
    for number, drawn in enumerate(_drawn(_Recalled(rows, models), audits, serve, models), 1):
        say(f"error of the metrics: {number} {what}")
        low = {name: min(error, low.get(name, error)) for name, error in drawn.items()}
        high = {name: max(error, high.get(name, error)) for name, error in drawn.items()}
        if max(map(abs, drawn.values()), default=0.0) > most:
            return None
    intervals = {name: (low[name], high[name]) for name in low}
    near = near and all(max(-low, high) <= wanted for low, high in intervals.values())
    return MetricErrors(rounds, wanted, near, intervals)


def _drawn(
    recalled: _Recalled, audits: Sequence[Audit], serve: Serve, models: Sequence[AuditedSteps]
) -> Iterator[dict[str, float]]:
    """Errors of the metrics, by name, as they are if one service after the other is exact."""

    def metrics(factors: Reals, rng: np.random.Generator | None) -> Mapping[str, Any]:
        return serve([_Perturbed(recalled, factors, model, rng) for model in models])

    base = metrics(np.ones(len(recalled)), None)
    names = [name for name in JUDGED if base.get(name)]
    # An estimator learns with every step, so that early steps are off otherwise than late ones.
    places = _logs([(one.requests, one.tokens, one.cached, one.step) for one in audits])
    unlike = np.array([one.unlike for one in audits])
    errors = np.log([one.correction for one in audits])
    field = ErrorField(places, unlike, errors, np.array([one.variance for one in audits]))
    at = np.concatenate([_logs(recalled.amounts), _logs(recalled.numbers[:, None])], axis=1)
    rng = np.random.default_rng([models[0].seed, len(audits)])
    for _ in range(_TIMES):
        drawn = metrics(np.exp(field.draw(rng, at, recalled.unlike)), rng)
        yield {name: float(base[name] / drawn[name] - 1) for name in names}


class _Recalled:
    """The times of steps by what they compute, from those of a service or of a part of its steps.

    Attributes
    ----------
    amounts : requests, new tokens and earlier tokens. [steps, 3]
    numbers : of the steps on their engines. [steps]
    unlike : how far they were from all that were learned. [steps]
    spread : of decoding steps about what like ones take, as the logarithm of the ratio (rms).
    """

    def __init__(self, engines: Sequence[StepRows], models: Sequence[AuditedSteps]) -> None:
        rows = joined(list(engines))
        amounts = np.stack([rows.requests, rows.new_tokens, rows.before_tokens], axis=1)
        decodes = np.flatnonzero(amounts[:, 1] == amounts[:, 0])
        few = np.linspace(0, len(decodes) - 1, min(RECALLED, len(decodes))).round().astype(int)
        begins = np.cumsum([0, *(len(one) for one in engines)])
        prompts = [
            (begin + step, model.estimated_ns(batch))
            for begin, model in zip(begins, models, strict=False)
            for step, batch in model.prompts
        ]
        some = np.concatenate([decodes[few], np.array([step for step, _ in prompts], np.int64)])
        self._decodes, self._prompts = slice(0, len(few)), slice(len(few), len(some))
        self.amounts = amounts[some]
        self.numbers = np.concatenate([np.arange(len(one)) for one in engines])[some]
        self.unlike = np.concatenate([one.unlike for one in models])[some]
        self._lengths = rows.length_ns[some].astype(float)
        self._places = _logs(self.amounts)
        self._weights = (self._places**2).sum(axis=1)
        self._equal: dict[tuple[int, ...], list[int]] = {}
        for step, found in enumerate(self.amounts.tolist()):
            self._equal.setdefault(tuple(found), []).append(step)
        self._estimates = np.array([estimate for _, estimate in prompts])
        terms = np.concatenate([np.ones((len(few), 1)), self.amounts[self._decodes]], axis=1)
        each = np.maximum(self._lengths[self._decodes], 1.0)
        self._slopes = np.linalg.lstsq(terms / each[:, None], np.ones(len(few)), rcond=None)[0]
        self._plane = terms @ self._slopes
        self.spread = self._spread()

    def __len__(self) -> int:
        return len(self._lengths)

    def of(
        self, number: int, batch: Batch, model: AuditedSteps, rng: np.random.Generator | None
    ) -> tuple[int, float]:
        """The recalled step that is most like a step, and the time of the step in ns.

        A decoding step takes about what a near one took, but its tokens have other experts: it is
        off by as much as steps of the service are from like ones. One with prompt tokens may be off
        by more, as those of another prompt have other tokens before them: unless it was served, it
        is estimated. The estimator has learned since the steps were served, and errors are those of
        then; so what counts is the ratio of two estimates of now, that of the step and that of the
        recalled one.
        """
        amounts = len(batch.request), int(batch.new.sum()), int(batch.before.sum())
        equal = self._equal.get(amounts)
        if equal is not None:
            step = min(equal, key=lambda one: abs(int(self.numbers[one]) - number))
            return step, float(self._lengths[step])
        if amounts[1] > amounts[0] and len(self._estimates):
            step = self._nearest(amounts, self._prompts)
            ratio = model.estimated_ns(batch) / self._estimates[step - self._prompts.start]
        elif len(self._plane):
            step = self._nearest(amounts, self._decodes)
            ratio = self._ratio(np.array(amounts), step)
            if rng is not None:
                ratio *= exp(self.spread * rng.standard_normal())
        else:
            step, ratio = self._nearest(amounts, self._prompts), 1.0
        return step, float(self._lengths[step] * ratio)

    def _nearest(self, amounts: tuple[int, ...], among: slice) -> int:
        far = self._weights[among] - 2 * (self._places[among] @ _logs(amounts))
        return int(among.start) + int(far.argmin())

    def _ratio(self, amounts: NDArray[np.int64], step: int) -> float:
        """What decoding steps of these amounts take, over what a recalled one took."""
        now, then = float(self._slopes[0] + self._slopes[1:] @ amounts), float(self._plane[step])
        return min(max(now / then, 0.5), 2.0) if then > 0 else 1.0

    def _spread(self) -> float:
        """How far decoding steps are from what the nearest other one says of them."""
        places, lengths = self._places[self._decodes], self._lengths[self._decodes]
        some = np.linspace(0, len(lengths) - 1, min(_COMPARED, len(lengths))).round().astype(int)
        found = []
        for step in np.unique(some):
            far = ((places - places[step]) ** 2).sum(axis=1)
            far[step] = np.inf
            near = int(far.argmin())
            if np.isfinite(far[near]):
                expected = lengths[near] * self._ratio(self.amounts[step], near)
                found.append(log(lengths[step] / expected))
        return sqrt(float(np.mean(np.square(found)))) if found else 0.0


class _Perturbed:
    """Steps that take so many times what like steps take by all that a model has learned."""

    def __init__(
        self, recalled: _Recalled, factors: Reals, model: AuditedSteps,
        rng: np.random.Generator | None,
    ) -> None:  # fmt: skip
        self._recalled, self._factors, self._model, self._rng = recalled, factors, model, rng

    def time(self, step: int, batch: Batch) -> StepTime:
        """See `StepModel`."""
        nearest, length = self._recalled.of(step, batch, self._model, self._rng)
        return StepTime(round(length * self._factors[nearest]))


def _nothing(_: str) -> None:
    """Progress that nobody asked for."""


def _logs(amounts: Any) -> Reals:
    found: Reals = np.log1p(np.asarray(amounts, dtype=float))
    return found
