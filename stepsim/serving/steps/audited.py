"""`AuditedSteps`: most layers are estimated, some are simulated, and the error is measured.

An estimator learns from layers that were simulated exactly. A step that is unlike all before it is
learned from at once. Apart from that, steps are drawn at random and some layers of each, of which
estimates were already made, are simulated: these audits, which the estimator has not seen, give the
error of the whole run with a confidence interval. Then they are learned from as well.

A service whose error is too large begins anew with what was learned, and with more effort.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict, deque
from dataclasses import asdict, dataclass, replace
from math import log, sqrt
from operator import itemgetter
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

RECALLED: Final = 4096
"""Steps of a kind, with prompt tokens or without, of which times are recalled; of longer services,
as many at even distances. Every step of every service with drawn errors looks for a like one."""

_FEWEST: Final = 16
"""Audits from which on an interval is stated."""

_ENOUGH: Final = 40
"""Audits of a service at the least, if it has as many steps."""

_NORMAL: Final = 1.96

_READY: Final = 4.0
"""How much smaller the distance is for steps whose program is there: to build one takes about ten
times as long as to run it."""

_AUDITED: Final = 8
"""Layers of an audited step that are simulated, at even distances: what a layer has of its own says
nothing of the step, and once the program is built, more layers take little time. On several chips,
where each layer has a program of its own, it is one."""

_HARDER: Final = 16.0
"""How much smaller the errors are, from one round to the next, at which steps are learned."""


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
    bias : of the time of all steps; above 0 if the estimates are too long.
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
        if self.bias is None or self.median is None or self.p99 is None:
            return f"{self.steps:,} steps, none of them audited"
        assert self.low is not None
        assert self.high is not None
        return (
            f"layers of {self.audits} of {self.steps:,} steps were simulated beside their "
            f"estimates: error {100 * self.median:.2f} % in the median, {100 * self.p99:.2f} % at "
            f"p99; the time of all steps is off by {100 * self.bias:+.2f} % (95 % between "
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


class _Line:
    """Cycles by a number of rows, with straight lines between those that are known."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._points: tuple[Reals, Reals] | None = None

    def add(self, rows: int, cycles: int) -> None:
        """What so many rows take."""
        if rows not in self._known:
            self._known[rows], self._points = cycles, None

    def at(self, rows: int) -> float:
        """What any number takes, as far as is known."""
        if self._points is None:
            found = np.array(sorted(self._known.items()), dtype=np.float64)
            self._points = found[:, 0], found[:, 1]
        return float(np.interp(rows, *self._points))


class AuditedSteps(LayeredSteps):
    """Estimates steps from simulated layers, and audits the estimates.

    ``audits`` are those of this round, ``unlike`` how far each of its steps was from all that were
    learned, 0 for a step that was learned itself, and ``prompts`` its steps with prompt tokens, as
    numbers and batches.

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
        self.prompts: list[tuple[int, Batch]] = []
        self.steps = self.rounds = 0
        self._effort, self._later = 1.0, 0
        self._estimators = [Estimator() for _ in self.programs.kinds]
        self._recent: list[deque[float]] = [deque(maxlen=_RECENT) for _ in self.programs.kinds]
        self._kept: list[tuple[float, _Estimated]] = []
        self._latest: OrderedDict[tuple[int, bytes], None] = OrderedDict()
        self._total = 0.0
        self._prompts, self._apart = 0, 1
        self._heads, self._sent = _Line(), _Line()

    def again(self) -> None:
        """Begin anew with what was learned: the next step is the first one of another round.

        Steps are learned that are less unlike all before, and audits are more frequent.
        """
        self.rounds += 1
        self._effort *= 2
        self.steps = self._later = 0
        self.audits, self.unlike, self._kept, self._total = [], [], [], 0.0
        self.prompts, self._prompts, self._apart = [], 0, 1

    def time(self, step: int, batch: Batch) -> StepTime:
        """See `StepModel`.

        Raises
        ------
        ServingError : a layer does not run to its end, or nothing was recorded of a token.
        """
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
        rows, tokens = int(batch.emits.sum()), int(batch.new.sum())
        self._heads.add(rows, self.programs.head(rows).cycles)
        self._sent.add(tokens, self.programs.handover(tokens).cycles)
        cycles += sum(
            float(found.sum()) * self.programs.kinds[kind].layers / len(found)
            for kind, found in enumerate(estimates)
        )
        self.steps += 1
        self._total += cycles
        rate = self._effort * _RATE / (1 + self.steps / _STEADY) ** 0.5
        rate = min(1.0, rate * cycles * self.steps / self._total)
        own = _Estimated(step, batch, rate, self.unlike[-1], cycles, terms, estimates)
        if chance < rate:
            how = "audited"
            self._audit(own, int(drawn[2]))
        self._keep(own, int(drawn[3]))
        self._recall(step, batch)
        bounds: dict[str, float] = {}
        for kind, (one, found) in enumerate(zip(terms, estimates, strict=True)):
            times = self.programs.kinds[kind].layers // len(found)
            moved += times * int(one.offchip_bytes.sum())
            for bound, each in zip(one.bound, found, strict=True):
                bounds[bound] = bounds.get(bound, 0) + times * float(each)
        return self.timed(cycles, moved, bounds, how)

    def estimated_ns(self, batch: Batch) -> float:
        """The time of a step by all that was learned until now, in ns; nothing is simulated.

        Raises
        ------
        ServingError : nothing was recorded of a token.
        """
        cycles = self._heads.at(int(batch.emits.sum())) + self._sent.at(int(batch.new.sum()))
        counts = None if self.routing is None else self.routing.counts(batch)
        for kind in range(len(self.models)):
            found = self._estimate(kind, self._terms(kind, batch, counts, bounds=False))
            cycles += float(found.sum()) * self.programs.kinds[kind].layers / len(found)
        return cycles / self.programs.clock_ghz

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

    @property
    def _drawing(self) -> int:
        """The seed of what is drawn in this round."""
        return self.seed + (self.rounds << 33)

    def _terms(
        self, kind: int, batch: Batch, counts: NDArray[np.int64] | None, *, bounds: bool = True
    ) -> LayerTerms:
        routed = list(self.programs.kinds[kind].routed)
        loads = counts[routed] if routed and counts is not None else None
        return self.models[kind].terms(batch, loads, bounds=bounds)

    def _estimate(self, kind: int, terms: LayerTerms) -> Reals:
        return self._estimators[kind].cycles(terms.values)

    def _simulated(self, kind: int, batch: Batch, layers: list[int]) -> Reals:
        """Cycles of some layers of a kind, by place among them."""
        # What is ready is known from here, as a resumed service takes costs from its journal.
        self._latest[kind, batch.new.tobytes()] = None
        self._latest.move_to_end((kind, batch.new.tobytes()))
        if len(self._latest) > PREPARED:
            self._latest.popitem(last=False)
        routed = self.programs.kinds[kind].routed
        ids = None
        if routed and self.routing is not None:
            ids = [self.routing.ids(batch, routed[layer]) for layer in layers]
        costs = self.programs.layers(kind, batch, ids)
        return np.array([float(one.cycles) for one in costs])

    def _learned(self, kind: int, batch: Batch, terms: LayerTerms, drawn: int) -> float | None:
        """Learn from a step that is unlike all before; of others, how far it is from them."""
        estimator, count = self._estimators[kind], len(terms.values)
        middle = int(np.argsort(terms.values[:, -1], kind="stable")[count // 2])
        far = estimator.novelty(terms.values[middle])
        if len(estimator) >= _FIRST and far < self._unlike(kind, batch):
            return far
        layers = sorted({drawn % count, (drawn // count) % count, middle})[:_LEARNED]
        self._learn(kind, terms.values[layers], self._simulated(kind, batch, layers))
        return None

    def _learn(self, kind: int, terms: Reals, cycles: Reals) -> None:
        """Learn from simulated layers, of which one says how good estimates are."""
        estimator = self._estimators[kind]
        if len(estimator):
            # Estimates interpolate, so that their errors grow with the distance from samples.
            error = float(estimator.cycles(terms[:1])[0] / cycles[0] - 1)
            self._recent[kind].append(error / max(estimator.novelty(terms[0]), _NEAR))
        estimator.add(terms, cycles)

    def _unlike(self, kind: int, batch: Batch) -> float:
        """Distance of terms from which on a step is learned: the worse the estimates, the less."""
        recent = self._recent[kind]
        slope = sqrt(sum(one**2 for one in recent) / max(len(recent), 1))
        harder: float = _HARDER**self.rounds
        if self.programs.shares(kind) and (kind, batch.new.tobytes()) in self._latest:
            harder *= _READY
        return min(max(self.error / harder / max(slope, 1e-12), _NOVEL * _CLOSEST), _NOVEL)

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
        return bias, float(bias - half), float(bias + half)

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

    def _recall(self, step: int, batch: Batch) -> None:
        """Keep a step if it has prompt tokens, or each second, fourth, ... of many."""
        if int(batch.new.sum()) == len(batch.new):
            return
        if self._prompts % self._apart == 0:
            self.prompts.append((step, _copied(batch)))
        self._prompts += 1
        if len(self.prompts) > RECALLED:
            self.prompts, self._apart = self.prompts[::2], 2 * self._apart

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


def _copied(batch: Batch) -> Batch:
    """A batch for later: a scheduler may use the arrays of its batch again."""
    return Batch(*(getattr(batch, name).copy() for name in Batch.__slots__))
