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
from math import exp, log, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.serving.scheduling.interface import Batch
from stepsim.serving.service.error_field import ErrorField
from stepsim.serving.service.record import StepRows, joined
from stepsim.serving.steps.audited import AuditedSteps, attended_by
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

_RECALLED: Final = 4096
"""Steps of a kind, with prompt tokens or without, among which like ones are looked for; of longer
services, as many at even distances."""

_FURTHEST: Final = 16.0
"""How much longer or shorter a step can be than the most like one."""

_COMPARED: Final = 512
"""Steps of a kind that are compared with like ones."""

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
    recalled = _Recalled(rows, models)
    names = [name for name in JUDGED if served.get(name)]
    audits = [one for model in models for one in model.audits]
    # An estimator learns with every step, so that early steps are off otherwise than late ones.
    places = _logs([(one.requests, one.tokens, one.cached, one.step) for one in audits])
    unlike = np.array([one.unlike for one in audits])
    errors = np.log([one.correction for one in audits])
    field = ErrorField(places, unlike, errors, np.array([one.variance for one in audits]))
    rng = np.random.default_rng([models[0].seed, len(audits)])
    for _ in range(_TIMES):
        factors = np.exp(field.draw(rng, recalled.places, recalled.unlike))
        drawn = serve(
            [
                _Perturbed(recalled, place, model.exact, factors, rng)
                for place, model in enumerate(models)
            ]
        )
        yield {name: float(served[name] / drawn[name] - 1) for name in names}


class _Recalled:
    """The steps of a service by what they compute: requests, new tokens, earlier tokens of requests
    that decode, and pairs of a new token and one that it attends to.

    Attributes
    ----------
    amounts : of all engines, one after the other. [steps, 4]
    places : requests, new and earlier tokens, and the number of the step on its engine, as
        logarithms. [steps, 4]
    unlike : how far they were from all that were learned; of exact steps, as others. [steps]
    """

    def __init__(self, engines: Sequence[StepRows], models: Sequence[AuditedSteps]) -> None:
        rows = joined(list(engines))
        attended = np.concatenate([np.array(one.attended, np.int64) for one in models])
        of_rows = np.stack([rows.requests, rows.new_tokens], axis=1)
        self.amounts = np.concatenate([of_rows, attended], axis=1)
        self._numbers = np.concatenate([np.arange(len(one)) for one in engines])
        places = [rows.requests, rows.new_tokens, rows.before_tokens, self._numbers]
        self.places = _logs(np.stack(places, axis=1))
        self.begins = np.cumsum([0, *(len(one) for one in engines)]).tolist()
        self.unlike = np.concatenate([one.unlike for one in models])
        exact = np.concatenate([np.arange(len(one.unlike)) < one.exact for one in models])
        self.unlike[exact] = self.unlike[~exact].mean() if not exact.all() else 0.0
        self.lengths = rows.length_ns.tolist()
        self.keys = [tuple(one) for one in self.amounts.tolist()]
        self._equal: dict[tuple[int, ...], list[int]] = {}
        for step, key in enumerate(self.keys):
            self._equal.setdefault(key, []).append(step)
        decodes = rows.new_tokens == rows.requests
        self._kinds = [
            _Alike(self.amounts, rows.length_ns, np.flatnonzero(of_kind))
            for of_kind in (~decodes, decodes)
        ]

    def __len__(self) -> int:
        return len(self.lengths)

    def like(
        self, number: int, key: tuple[int, int, int, int], rng: np.random.Generator
    ) -> tuple[int, float]:
        """The step that is most like one of these amounts, and the time of the latter in ns.

        A step takes about what a near one took, but its tokens have other experts, and other tokens
        before them: it is off by as much as steps of the service are from like ones.
        """
        equal = self._equal.get(key)
        if equal is not None:
            step = min(equal, key=lambda one: abs(int(self._numbers[one]) - number))
            return step, self.lengths[step]
        is_decode = key[1] == key[0]
        kind = self._kinds[is_decode] if len(self._kinds[is_decode]) else self._kinds[not is_decode]
        return kind.nearest(key, rng)


class _Alike:
    """Steps of one kind, with prompt tokens or without, among which a like one is looked for."""

    def __init__(self, amounts: Ints, lengths: Ints, steps: Ints) -> None:
        few = np.linspace(0, len(steps) - 1, min(_RECALLED, len(steps))).round().astype(int)
        self._steps = steps[few]
        self._lengths = np.maximum(lengths[self._steps], 1).astype(float)
        self._amounts = amounts[self._steps].astype(float)
        self._places = _logs(self._amounts)
        self._weights = (self._places**2).sum(axis=1)
        terms = np.concatenate([np.ones((len(few), 1)), self._amounts], axis=1)
        relative = terms / self._lengths[:, None]
        self._slopes = np.linalg.lstsq(relative, np.ones(len(few)), rcond=None)[0]
        self._plane = terms @ self._slopes
        self._spread = self._off_by()

    def __len__(self) -> int:
        return len(self._steps)

    def nearest(
        self, amounts: tuple[int, int, int, int], rng: np.random.Generator
    ) -> tuple[int, float]:
        """The most like step, and a time that one of these amounts may have."""
        place = int((self._weights - 2 * (self._places @ _logs(amounts))).argmin())
        ratio = self._ratio(np.array(amounts), place)
        ratio *= exp(self._spread * rng.standard_normal())
        return int(self._steps[place]), float(self._lengths[place] * ratio)

    def _ratio(self, amounts: NDArray[Any], place: int) -> float:
        """What steps of these amounts take, over what a recalled one took."""
        now, then = float(self._slopes[0] + self._slopes[1:] @ amounts), float(self._plane[place])
        return min(max(now / then, 1 / _FURTHEST), _FURTHEST) if then > 0 else 1.0

    def _off_by(self) -> float:
        """How far steps are from what the nearest other one says of them, as the logarithm of the
        ratio (rms).
        """
        count = len(self)
        some = np.linspace(0, count - 1, min(_COMPARED, count)).round().astype(int)
        found = []
        for step in np.unique(some):
            far = ((self._places - self._places[step]) ** 2).sum(axis=1)
            far[step] = np.inf
            near = int(far.argmin())
            if np.isfinite(far[near]):
                expected = self._lengths[near] * self._ratio(self._amounts[step], near)
                found.append(log(self._lengths[step] / expected))
        return sqrt(float(np.mean(np.square(found)))) if found else 0.0


class _Perturbed:
    """Steps that take so many times what these or like steps of an engine took."""

    unfollowed: Final = True
    """Nobody asks in which of them a request was computed."""

    def __init__(
        self, recalled: _Recalled, place: int, exact: int, factors: Reals,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        begin, end = recalled.begins[place : place + 2]
        self._keys = recalled.keys[begin:end]
        own = factors[begin:end].copy()
        own[:exact] = 1.0
        lengths = np.array(recalled.lengths[begin:end], float)
        self._lengths = np.rint(lengths * own).astype(np.int64).tolist()
        self._recalled, self._factors, self._rng = recalled, factors, rng

    def time(self, step: int, batch: Batch) -> StepTime:
        """See `StepModel`."""
        key = len(batch.new), int(batch.new.sum()), *attended_by(batch)
        if step < len(self._keys) and self._keys[step] == key:
            return StepTime(self._lengths[step])
        like, length = self._recalled.like(step, key, self._rng)
        return StepTime(round(length * self._factors[like]))


def _nothing(_: str) -> None:
    """Progress that nobody asked for."""


def _logs(amounts: Any) -> Reals:
    found: Reals = np.log1p(np.asarray(amounts, dtype=float))
    return found
