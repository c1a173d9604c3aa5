"""`AuditedSteps`: most layers are estimated, some are simulated, and the error is measured.

An estimator learns from layers that were simulated exactly. A step that is unlike all before it is
learned from at once. Apart from that, steps are drawn at random and some layers of each, of which
estimates were already made, are simulated: these audits, which the estimator has not seen, give the
error of the whole run with a confidence interval. Then they are learned from as well.

A service whose error is too large begins anew with what was learned, and with more effort: first
more layers are learned, then the first steps are simulated exactly, more of them in each round, up
to all. It is the first ones since a request that comes a step too early or too late changes all
steps after it: those that were simulated exactly after such a change would not be there any more.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict, deque
from dataclasses import asdict, dataclass, replace
from math import log, sqrt
from operator import itemgetter
from sys import maxsize
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.dram import splitmix
from stepsim.errors import ArgError
from stepsim.serving.scheduling.interface import Batch
from stepsim.serving.steps.estimator import Estimator
from stepsim.serving.steps.exact import LayeredSteps
from stepsim.serving.steps.features import LayerTerms
from stepsim.serving.steps.interface import StepTime
from stepsim.serving.steps.layers import PREPARED

if TYPE_CHECKING:
    from stepsim.machine import Machine
    from stepsim.serving.steps.routing import RequestRouting
    from stepsim.workloads import Step

Reals = NDArray[np.float64]

_LEARNED: Final = 2
"""Layers of an unlike step that are simulated."""

_NOVEL: Final = 2.5
"""Distance of terms from which on a step is unlike all before, while estimates are good."""

_RECENT: Final = 8
"""Layers whose errors say how good estimates are."""

_NEAR: Final = 0.05
"""Least distance over which the error of an estimate is taken."""

_CLOSEST: Final = 0.02
"""Share of that distance at the least, where they are bad."""

_FIRST: Final = 8
"""Layers of a kind that are learned before any is only estimated."""

_RATE: Final = 0.015
"""Share of the first steps that is audited; it falls as the root of the number of steps. Long steps
are audited more often, as their lengths."""

_STEADY: Final = 100
"""Steps over which the rate of audits is about that of the first ones."""

_KEPT: Final = 64
"""Steps that are kept for more audits at the end."""

_FEWEST: Final = 16
"""Audits from which on an interval is stated."""

_ENOUGH: Final = 40
"""Audits of a service at the least, if it has as many steps."""

_NORMAL: Final = 1.96

_READY: Final = 4.0
"""How much smaller the distance is for steps whose program is there: to build one takes about ten
times as long as to run it."""

_AUDITED: Final = 4
"""Layers of an audited step that are simulated, at even distances: what a layer has of its own says
nothing of the step, and once the program is built, more layers take little time. On several chips,
where each layer has a program of its own, it is one."""

_MANY: Final = 1000
"""Steps from which on the error of a single one may be larger than that of all, which is wanted: as
the root of their number, as errors of many steps balance each other."""

_HARDER: Final = 16.0
"""How much smaller the errors are, from one round to the next, at which steps are learned."""

_LEARNING: Final = 1
"""Rounds with more effort in which all steps are estimated. Further ones learn hardly anything: a
step has something of its own that no other one tells."""

_PARTS: Final = 4
"""Parts of a service, of which each further round simulates one more exactly."""


@dataclass(frozen=True, slots=True)
class Audit:
    """Layers of a step that were simulated after their estimates were made.

    Attributes
    ----------
    step : its number.
    requests, tokens, cached : of the step: requests, new tokens and earlier ones of its batch.
    chance : of the step to be drawn during the run.
    unlike : how far the step was from all that were learned, when it was estimated.
    layers : cycles of all layers of the step, as estimated.
    head : cycles of its head and between stages, which are exact.
    estimated, simulated : cycles of these layers together.
    variance : of the error of that sample of layers, as their errors differ; 0 if it is all layers,
        or one, which does not tell.
    """

    step: int
    requests: int
    tokens: int
    cached: int
    chance: float
    unlike: float
    layers: float
    head: int
    estimated: float
    simulated: int
    variance: float

    @property
    def error(self) -> float:
        """Relative error of the estimate."""
        return self.estimated / self.simulated - 1

    @property
    def correction(self) -> float:
        """Factor of the time of the step, if its other layers are off as these are."""
        exact = self.layers * self.simulated / self.estimated + self.head
        return exact / (self.layers + self.head)


@dataclass(frozen=True, slots=True)
class AuditReport:
    """How far the times of estimated steps are from exact ones, all as shares of them.

    Attributes
    ----------
    steps, audits : steps, and how many of them were audited.
    simulated : layers and heads that were simulated, audits included.
    median, p99 : of the absolute error of the audited layers of a step; None without audits.
    bias : of the time of all steps, those that were simulated exactly included; above 0 if the
        estimates are too long.
    low, high : 95 % confidence interval of that bias.
    wanted : the largest error that was asked for.
    within : whether the interval is within it.
    """

    steps: int
    audits: int
    simulated: int
    median: float | None
    p99: float | None
    bias: float | None
    low: float | None
    high: float | None
    wanted: float
    within: bool

    def to_dict(self) -> dict[str, Any]:
        """All values by name."""
        return asdict(self)

    def __str__(self) -> str:
        if self.median is None or self.p99 is None:
            what = "none of them audited" if self.bias is None else "all of them simulated exactly"
            return f"{self.steps:,} steps, {what}"
        audited = (
            f"layers of {self.audits} of {self.steps:,} steps were simulated beside their "
            f"estimates: error {100 * self.median:.2f} % in the median, {100 * self.p99:.2f} % at "
            "p99; "
        )
        if self.bias is None or self.low is None or self.high is None:
            return f"{audited}these are too few for an interval of the time of all steps"
        return (
            f"{audited}the time of all steps is off by {100 * self.bias:+.2f} % (95 % between "
            f"{100 * self.low:+.2f} % and {100 * self.high:+.2f} %)"
        )


@dataclass(frozen=True, eq=False, slots=True)
class _Estimated:
    """A step, its chance to be audited, how far it was from all that were learned, its length, and
    its estimates of layers, by kind.
    """

    step: int
    batch: Batch
    chance: float
    unlike: float
    length: float
    terms: list[LayerTerms]
    estimates: list[Reals]


class AuditedSteps(LayeredSteps):
    """Estimates steps from simulated layers, and audits the estimates.

    ``audits`` are those of this round, ``unlike`` how far each of its steps was from all that were
    learned, 0 for a step that was learned itself, and ``attended`` what tokens of each attend to,
    see `attended_by`. The first ``exact`` steps of a round are simulated exactly.

    Args:
        error: the largest error of the time of all steps, as a share; audits become more frequent
            until the confidence interval is within it.
        seed: of the choice of audits.

    Raises
    ------
    ArgError : ``error`` is not between 0 and 1, or the seed not a whole number.
    ServingError : as in `LayeredSteps`.
    """

    def __init__(
        self, workload: Step, machine: Machine, routing: RequestRouting | None, *,
        error: float = 0.01, seed: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(workload, machine, routing)
        if not 0 < error < 1:
            raise ArgError(f"error: expected a share between 0 and 1, such as 0.01, found {error}")
        self.error, self.seed = error, seed
        self.audits: list[Audit] = []
        self.unlike: list[float] = []
        self.attended: list[tuple[int, int]] = []
        self.steps = self.rounds = self.exact = 0
        self._effort, self._later = 1.0, 0
        self._known: dict[bytes, StepTime] = {}
        self._estimators = [Estimator() for _ in self.programs.kinds]
        self._recent: list[deque[float]] = [deque(maxlen=_RECENT) for _ in self.programs.kinds]
        self._kept: list[tuple[float, _Estimated]] = []
        self._latest: OrderedDict[tuple[int, bytes], None] = OrderedDict()
        self._total = self._exact_cycles = 0.0

    def again(self) -> None:
        """Begin anew with what was learned: the next step is the first one of another round.

        Steps are learned that are less unlike all before, audits are more frequent, and more of the
        first steps are simulated exactly, after some rounds all.
        """
        self.rounds += 1
        self._effort *= 2 if self.rounds <= _LEARNING else 1
        parts = self.rounds - _LEARNING
        self.exact = maxsize if parts >= _PARTS else max(0, self.steps * parts // _PARTS)
        self.steps = self._later = 0
        self.audits, self.unlike, self._kept = [], [], []
        self._total = self._exact_cycles = 0.0
        self.attended = []

    def time(self, step: int, batch: Batch) -> StepTime:
        """See `StepModel`.

        Raises
        ------
        ServingError : a layer does not run to its end, or nothing was recorded of a token.
        """
        if step < self.exact:
            return self._simulated_whole(step, batch)
        drawn = splitmix(self._drawing, np.arange(4 * step, 4 * step + 4, dtype=np.uint64))
        chance = float(drawn[0] >> np.uint64(11)) / 2.0**53
        counts = None if self.routing is None else self.routing.counts(batch)
        terms = [self._terms(kind, batch, counts) for kind in range(len(self.models))]
        unlike = [self._learned(kind, batch, one, int(drawn[1])) for kind, one in enumerate(terms)]
        how = "estimated" if None not in unlike else "audited"
        self.unlike.append(max(0.0 if one is None else one for one in unlike))
        estimates = [self._estimate(kind, one) for kind, one in enumerate(terms)]
        beside = self.beside(batch)
        cycles, moved = float(beside.cycles), beside.offchip_bytes
        cycles += sum(
            float(found.sum()) * self.programs.kinds[kind].layers / len(found)
            for kind, found in enumerate(estimates)
        )
        self.steps += 1
        self._total += cycles
        estimated = self.steps - self.exact
        rate = self._effort * _RATE / (1 + estimated / _STEADY) ** 0.5
        rate = min(1.0, rate * cycles * estimated / self._total)
        own = _Estimated(step, batch, rate, self.unlike[-1], cycles, terms, estimates)
        if chance < rate:
            how = "audited"
            self._audit(own, int(drawn[2]))
        self._keep(own, int(drawn[3]))
        self.attended.append(attended_by(batch))
        bounds: dict[str, float] = {}
        for kind, (one, found) in enumerate(zip(terms, estimates, strict=True)):
            times = self.programs.kinds[kind].layers // len(found)
            moved += times * int(one.offchip_bytes.sum())
            for bound, each in zip(one.bound, found, strict=True):
                bounds[bound] = bounds.get(bound, 0) + times * float(each)
        return self.timed(cycles, moved, bounds, how)

    @property
    def is_exact(self) -> bool:
        """Whether all steps until now were simulated exactly."""
        return self.steps <= self.exact

    def report(self) -> AuditReport:
        """The error until now; some of the steps are audited for it if the run has few audits."""
        self._audit_more()
        bias, low, high = self._interval()
        known = [abs(one.error) for one in self.audits]
        inside = low is not None and high is not None and max(-low, high) <= self.error
        return AuditReport(
            self.steps, len(known), self.programs.runs,
            float(np.median(known)) if known else None,
            float(np.quantile(known, 0.99)) if known else None,
            bias, low, high, self.error, inside,
        )  # fmt: skip

    def _simulated_whole(self, step: int, batch: Batch) -> StepTime:
        """The exact time of a step, from an earlier round if it was there already; what is unlike
        all before is learned.
        """
        key = b"".join(getattr(batch, name).tobytes() for name in Batch.__slots__)
        if key not in self._known:
            found = self.exactly(batch, self.experts(batch))
            self._known[key] = found.time
            for kind, (terms, cycles) in enumerate(found.layers):
                self._is_ready(kind, batch)
                middle = [_middle(terms)]
                far = self._estimators[kind].novelty(terms.values[middle[0]])
                if far >= self._unlike(kind, batch):
                    self._learn(kind, terms.values[middle], cycles[middle])
        self.unlike.append(0.0)
        self.steps += 1
        self._exact_cycles += float(self._known[key].cycles or 0)
        self.attended.append(attended_by(batch))
        return self._known[key]

    @property
    def _drawing(self) -> int:
        """The seed of what is drawn in this round."""
        return self.seed + (self.rounds << 33)

    def _terms(self, kind: int, batch: Batch, counts: NDArray[np.int64] | None) -> LayerTerms:
        routed = list(self.programs.kinds[kind].routed)
        loads = counts[routed] if routed and counts is not None else None
        return self.models[kind].terms(batch, loads)

    def _estimate(self, kind: int, terms: LayerTerms) -> Reals:
        return self._estimators[kind].cycles(terms.values)

    def _simulated(self, kind: int, batch: Batch, layers: list[int]) -> Reals:
        """Cycles of some layers of a kind, by place among them."""
        self._is_ready(kind, batch)
        routed = self.programs.kinds[kind].routed
        ids = None
        if routed and self.routing is not None:
            ids = [self.routing.ids(batch, routed[layer]) for layer in layers]
        costs = self.programs.layers(kind, batch, ids)
        return np.array([float(one.cycles) for one in costs])

    def _is_ready(self, kind: int, batch: Batch) -> None:
        """The program of a batch is there from now on; that of another one may not be any more.

        What is ready is known from here, as a resumed service takes costs from its journal.
        """
        self._latest[kind, batch.new.tobytes()] = None
        self._latest.move_to_end((kind, batch.new.tobytes()))
        if len(self._latest) > PREPARED:
            self._latest.popitem(last=False)

    def _learned(self, kind: int, batch: Batch, terms: LayerTerms, drawn: int) -> float | None:
        """Learn from a step that is unlike all before; of others, how far it is from them."""
        estimator, count = self._estimators[kind], len(terms.values)
        middle = _middle(terms)
        far = estimator.novelty(terms.values[middle])
        if len(estimator) >= _FIRST and far < self._unlike(kind, batch):
            return far
        layers = sorted({drawn % count, (drawn // count) % count, middle})[:_LEARNED]
        self._learn(kind, terms.values[layers], self._simulated(kind, batch, layers))
        return None

    def _learn(self, kind: int, terms: Reals, cycles: Reals) -> None:
        """Learn from simulated layers, which say how good estimates are."""
        estimator = self._estimators[kind]
        if len(estimator):
            # Estimates interpolate, so that their errors grow with the distance from samples. It is
            # that of the layers together: what one has of its own says nothing of the step.
            error = float(estimator.cycles(terms).sum() / cycles.sum() - 1)
            self._recent[kind].append(error / max(estimator.novelty(terms[0]), _NEAR))
        estimator.add(terms, cycles)

    def _unlike(self, kind: int, batch: Batch) -> float:
        """Distance of terms from which on a step is learned: the worse the estimates, the less."""
        recent = self._recent[kind]
        slope = sqrt(sum(one**2 for one in recent) / max(len(recent), 1))
        harder: float = _HARDER ** min(self.rounds, _LEARNING)
        if self.programs.shares(kind) and (kind, batch.new.tobytes()) in self._latest:
            harder *= _READY
        single = self.error * max(1.0, sqrt(self.steps / _MANY))
        far = single / harder / max(slope, 1e-12)
        return min(max(far, _NOVEL * _CLOSEST), _NOVEL)

    def _audit(self, one: _Estimated, drawn: int) -> None:
        """Simulate layers of a step that was estimated, and learn from them."""
        times = [kind.layers for kind in self.programs.kinds]
        at = drawn % sum(times)
        kind = int(np.searchsorted(np.cumsum(times), at, side="right"))
        estimates = one.estimates[kind]
        count = 1 if self.programs.on_chips(kind) else min(_AUDITED, len(estimates))
        first, apart = (drawn // sum(times)) % len(estimates), len(estimates) // count
        layers = [(first + apart * place) % len(estimates) for place in range(count)]
        simulated = self._simulated(kind, one.batch, layers)
        batch = one.batch
        head = self.beside(batch).cycles
        spread = float(np.var(np.log(simulated / estimates[layers]), ddof=1)) if count > 1 else 0.0
        self.audits.append(
            Audit(
                one.step, len(batch.new), int(batch.new.sum()), int(batch.before.sum()), one.chance,
                one.unlike, one.length - head, head, float(estimates[layers].sum()),
                int(simulated.sum()), spread * (1 / count - 1 / len(estimates)),
            )
        )  # fmt: skip
        self._learn(kind, one.terms[kind].values[layers], simulated)
        _, low, high = self._interval()
        if low is not None and high is not None and max(-low, high) > self.error:
            self._effort *= 1.1

    def _interval(self) -> tuple[float | None, float | None, float | None]:
        """Bias of the time of all steps and its 95 % interval; None with few audits."""
        if self.is_exact and self.steps:
            return 0.0, 0.0, 0.0
        if len(self.audits) < _FEWEST:
            return None, None, None
        # A step stands for as many others as it was unlikely to be audited, now or at the end.
        layers = np.array([one.layers for one in self.audits])
        head = np.array([float(one.head) for one in self.audits])
        later = self._later * (layers + head) / self._total
        weight = 1 / np.minimum(1.0, later + [one.chance for one in self.audits])
        ratio = np.array([one.simulated / one.estimated for one in self.audits])
        estimated, simulated = weight * (layers + head), weight * (layers * ratio + head)
        bias = float(estimated.sum() / simulated.sum() - 1)
        left = estimated - (1 + bias) * simulated
        count = len(left)
        half = _NORMAL * np.sqrt((left**2).sum() * count / (count - 1)) / simulated.sum()
        return self._of_all(bias), self._of_all(bias - half), self._of_all(bias + half)

    def _of_all(self, bias: float) -> float:
        """The bias of all steps if that of the estimated ones is ``bias``."""
        true = self._total / (1 + bias)
        return float((self._total - true) / (true + self._exact_cycles))

    def _keep(self, one: _Estimated, drawn: int) -> None:
        """Keep a random part of the steps, in which long ones are more likely, as their lengths
        (Efraimidis and Spirakis, Information Processing Letters 97, 2006).
        """
        place = log(((drawn >> 11) + 1) / 2.0**53) / one.length
        if len(self._kept) == _KEPT:
            if place < self._kept[0][0]:
                return
            del self._kept[0]
        insort(self._kept, (place, replace(one, batch=_copied(one.batch))), key=itemgetter(0))

    def _audit_more(self) -> None:
        """Audit kept steps, with the estimates that the run took, until the error is known."""
        audited = {one.step for one in self.audits}
        while self._kept:
            _, low, high = self._interval()
            near = low is not None and high is not None and max(-low, high) <= self.error
            if near and len(self.audits) >= _ENOUGH:
                return
            _, one = self._kept.pop()
            if one.step in audited:
                continue
            self._later += 1
            drawn = splitmix(self._drawing + 1, np.array([one.step], dtype=np.uint64))
            self._audit(one, int(drawn[0]))


def attended_by(batch: Batch) -> tuple[int, int]:
    """Earlier tokens of requests with one new token, and pairs of a new token and one that it
    attends to in all requests, itself included, as without a window.
    """
    new, before = batch.new, batch.before
    return int(before[new == 1].sum()), int(new @ before) + int(new @ (new + 1)) // 2


def _middle(terms: LayerTerms) -> int:
    """The layer whose experts take a time in the middle."""
    return int(np.argsort(terms.values[:, -1], kind="stable")[len(terms.values) // 2])


def _copied(batch: Batch) -> Batch:
    """A batch for later: a scheduler may use the arrays of its batch again."""
    return Batch(*(getattr(batch, name).copy() for name in Batch.__slots__))
