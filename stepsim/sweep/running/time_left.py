"""The time that a sweep takes, forecast from a few of its runs and from those that are done.

Times of designs are close to products of powers of their parameters: the logarithm of the seconds
of a run is regressed on the logarithms of numbers, and on which of its words a parameter is.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stepsim.arguments import is_number
from stepsim.sweep.planning.plan import Chunk, Plan
from stepsim.sweep.running.work import execute_chunk

_PROBED = 5
"""Design points of which one run each is made twice, ten runs in all."""

_LEAST_PROBED = 3
_PROBE_SECONDS = 10.0
"""No further design point is probed after so long."""

_STEP = (math.sqrt(5) - 1) / 2
"""Multiples of it, without their whole parts, are spread evenly, however many there are."""

_RIDGE = 0.05
"""Weight of the penalty on slopes; few runs must not bend the forecast."""

_LEAST_SECONDS = 1e-7

_Real = npt.NDArray[np.float64]


class TimeLeft:
    """What is known of the time of a sweep.

    The time that is spent once for a program is forecast apart from that of its runs.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rows = {point.index: row for row, point in enumerate(plan.points)}
        self._features = _features(plan.spec.design_points(), set(plan.spec.replicates))
        self._prepare: dict[int, list[float]] = defaultdict(list)
        self._run: dict[int, list[float]] = defaultdict(list)

    def probe(self) -> None:
        """Run a few runs of the sweep for their time; their rows are dropped.

        Services are not tried: each is as long as all of its kind.
        """
        if self._plan.spec.service is not None:
            return
        first: dict[int, Chunk] = {}
        for chunk in self._plan.chunks():
            first.setdefault(chunk.point.index, chunk)
        begin = time.perf_counter()
        for count, index in enumerate(spread([*first], _PROBED)):
            if count >= _LEAST_PROBED and time.perf_counter() - begin > _PROBE_SECONDS:
                break
            chunk = replace(first[index], traces=(self._plan.examples[index],))
            whole, again = (execute_chunk(chunk).timing["seconds"] for _ in range(2))
            self._prepare[index].append(max(0.0, whole - again))
            self._run[index].append(again)

    def add(self, point: int, timing: Mapping[str, Any]) -> None:
        """Add what a finished chunk of a design point took."""
        prepare = timing["prepare_seconds"] / (1 if self._plan.shares_programs else timing["runs"])
        self._run[point].append((timing["seconds"] - timing["prepare_seconds"]) / timing["runs"])
        if prepare > 0:
            self._prepare[point].append(prepare)

    def seconds(self, chunks: Iterable[Chunk], jobs: int) -> float | None:
        """The time of these chunks with so many workers; None before anything is known."""
        if not self._run:
            return None
        runs: Counter[int] = Counter()
        parts: Counter[int] = Counter()
        for chunk in chunks:
            runs[chunk.point.index] += len(chunk.traces)
            parts[chunk.point.index] += 1
        if not runs:
            return 0.0
        each, once = self._forecast(self._run), self._forecast(self._prepare)
        total = 0.0
        for point, count in runs.items():
            # Each of the workers that share the chunks of a program prepares it.
            programs = min(jobs, parts[point]) if self._plan.shares_programs else count
            row = self._rows[point]
            total += count * each[row] + programs * once[row]
        return total / max(1, min(jobs, sum(parts.values())))

    def _forecast(self, found: Mapping[int, Sequence[float]]) -> _Real:
        """Seconds of every design point: those of points that were timed, and a forecast."""
        if not found:
            return np.zeros(len(self._features))
        timed = [self._rows[point] for point in found]
        seconds = np.array([sum(own) / len(own) for own in found.values()])
        logs = np.log(np.maximum(seconds, _LEAST_SECONDS))
        here = self._features[timed]
        middle, level = here.mean(axis=0), logs.mean()
        weights = _slopes(here - middle, logs - level)
        forecast: _Real = np.exp(level + (self._features - middle) @ weights)
        forecast = np.clip(forecast, seconds.min() / 10, seconds.max() * 10)
        forecast[timed] = seconds
        return forecast


def _slopes(features: _Real, logs: _Real) -> _Real:
    """Slopes of a ridge regression, by the smaller one of its two systems of equations."""
    runs, columns = features.shape
    if columns < runs:
        inner = features.T @ features + _RIDGE * np.eye(columns)
        return np.asarray(np.linalg.solve(inner, features.T @ logs), np.float64)
    inner = features @ features.T + _RIDGE * np.eye(runs)
    return np.asarray(features.T @ np.linalg.solve(inner, logs), np.float64)


def spread(points: Sequence[int], count: int) -> Iterator[int]:
    """Up to ``count`` of the points, spread over their order, each once."""
    chosen = (points[int(k * _STEP % 1 * len(points))] for k in range(4 * count))
    yield from list(dict.fromkeys(chosen))[:count]


def _features(designs: Sequence[Mapping[str, Any]], without: set[str]) -> _Real:
    """Numbers that describe the designs, a row of each."""
    columns: list[list[float]] = []
    for name in dict.fromkeys(key for design in designs for key in design if key not in without):
        values: list[Any] = [design.get(name) for design in designs]
        if all(is_number(value) and value > 0 for value in values):
            columns.append([math.log(value) for value in values])
            continue
        words = [repr(value) for value in values]
        columns += [[float(word == one) for word in words] for one in dict.fromkeys(words)]
    return np.array(columns).T if columns else np.zeros((len(designs), 0))
