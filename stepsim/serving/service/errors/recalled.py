"""Steps that take what the steps of an earlier service took, times factors."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels import MOST_UNLIKE, RecalledKind, Recollection, recalled_step
from stepsim.serving.scheduling.engine import CompiledTime
from stepsim.serving.scheduling.interface import Batch
from stepsim.serving.service.record import StepRows, joined
from stepsim.serving.steps.audited import AuditedSteps, attended_by
from stepsim.serving.steps.interface import StepTime

Reals = NDArray[np.float64]
Ints = NDArray[np.int64]

_COMPARED: Final = 4096
"""Steps of a kind, with prompt tokens or without, among which like ones are looked for; of longer
services, as many at even distances."""

_JUDGED: Final = 512
"""Steps of a kind that are compared with like ones, to know how far they are from them."""


class RecalledSteps:
    """The steps of a service by what they compute: requests, new tokens, earlier tokens of requests
    that decode, and pairs of a new token and one that it attends to.

    A step takes about what a like one took, but its tokens have other experts, and other tokens
    before them: it is off by as much as steps of the service are from like ones.

    Attributes
    ----------
    places : requests, new and earlier tokens, and the number of the step on its engine, as
        logarithms. [steps, 4]
    unlike : how far they were from all that were learned; of exact steps, as others. [steps]
    """

    def __init__(self, engines: Sequence[StepRows], models: Sequence[AuditedSteps]) -> None:
        rows = joined(list(engines))
        attended = np.concatenate([np.array(one.attended, np.int64) for one in models])
        of_rows = np.stack([rows.requests, rows.new_tokens], axis=1)
        amounts = np.concatenate([of_rows, attended], axis=1)
        numbers = np.concatenate([np.arange(len(one)) for one in engines])
        places = [rows.requests, rows.new_tokens, rows.before_tokens, numbers]
        self.places = logs(np.stack(places, axis=1))
        self.unlike = np.concatenate([one.unlike for one in models])
        exact = np.concatenate([np.arange(len(one.unlike)) < one.exact for one in models])
        self.unlike[exact] = self.unlike[~exact].mean() if not exact.all() else 0.0
        self._begins = np.cumsum([0, *(len(one) for one in engines)]).tolist()
        self._lengths = rows.length_ns
        decodes = rows.new_tokens == rows.requests
        kinds = [
            _compared(amounts, rows.length_ns, np.flatnonzero(of_kind))
            for of_kind in (~decodes, decodes)
        ]
        self._kept = Recollection(amounts, numbers, rows.length_ns, kinds)

    def engine(
        self, place: int, exact: int, factors: Reals, rng: np.random.Generator
    ) -> PerturbedSteps:
        """Steps of an engine, by its place among all, that take so many times what they took; the
        first ``exact`` ones take what they took.
        """
        begin, end = self._begins[place : place + 2]
        own = factors[begin:end].copy()
        own[:exact] = 1.0
        times = np.rint(self._lengths[begin:end] * own).astype(np.int64)
        noise = rng.standard_normal(max(1, end - begin))
        return PerturbedSteps(*self._kept.engine(begin, times, factors, noise))


class PerturbedSteps:
    """Steps that take so many times what these or like steps of an engine took."""

    how: Final = "recalled"

    def __init__(self, words: Ints, reals: Reals) -> None:
        self._words, self._reals = words, reals

    def time(self, step: int, batch: Batch) -> StepTime:
        """See `StepModel`."""
        amounts = len(batch.new), int(batch.new.sum()), *attended_by(batch)
        return StepTime(recalled_step(self._words, self._reals, step, amounts), how=self.how)

    def compiled(self) -> CompiledTime:
        """The same for the compiled loop, which counts its steps in the words."""
        return CompiledTime("recalled", self._words.copy(), self._reals)


def logs(amounts: NDArray[np.int64]) -> Reals:
    """Logarithms of amounts plus 1."""
    found: Reals = np.log1p(amounts.astype(float))
    return found


def _compared(amounts: Ints, lengths: Ints, steps: Ints) -> RecalledKind:
    """Steps of one kind for comparison, and how far they are from like ones."""
    some = np.linspace(0, len(steps) - 1, min(_COMPARED, len(steps))).round().astype(int)
    few = steps[some]
    own = np.maximum(lengths[few], 1).astype(float)
    terms = np.concatenate([np.ones((len(few), 1)), amounts[few].astype(float)], axis=1)
    slopes = np.linalg.lstsq(terms / own[:, None], np.ones(len(few)), rcond=None)[0]
    places, plane = logs(amounts[few]), terms @ slopes
    return RecalledKind(few, places, own, slopes, plane, _off_by(places, own, plane))


def _off_by(places: Reals, lengths: Reals, plane: Reals) -> float:
    """How far steps are from what the nearest other one says of them, as the logarithm of the
    ratio (rms).
    """
    count = len(lengths)
    some = np.linspace(0, count - 1, min(_JUDGED, count)).round().astype(int)
    found = []
    for step in np.unique(some):
        far = ((places - places[step]) ** 2).sum(axis=1)
        far[step] = np.inf
        near = int(far.argmin())
        if np.isfinite(far[near]):
            ratio = plane[step] / plane[near] if plane[near] > 0 else 1.0
            expected = lengths[near] * min(max(ratio, 1 / MOST_UNLIKE), MOST_UNLIKE)
            found.append(log(lengths[step] / expected))
    return sqrt(float(np.mean(np.square(found)))) if found else 0.0
