"""The choice of points to try next: Optuna's samplers with a forecast, the grid, or chance.

No point is proposed twice. All random numbers come from the seed, so that the same outcomes
give the same proposals in every process.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, Protocol

import numpy as np

from stepsim.deferred import require
from stepsim.errors import SweepError
from stepsim.sweep.analysis.pareto import frontier
from stepsim.sweep.search.forecast import Outcome, promising
from stepsim.sweep.search.space import Place, Space

Sampler = Literal["nsga2", "tpe", "random", "grid"]

_ASKED: Final = {"nsga2": 20, "tpe": 2}
"""Attempts of a sampler per point of a batch; if it finds no new point, one is drawn at random."""

_CANDIDATES = 20_000
"""Points of a large space whose costs are forecast: neighbors of the front, and random ones."""

_NO_DESIGN = 2.0
"""Violation of an infeasible point; a point that violates a constraint has 1."""

_FORECAST = 0.5
"""Fraction of a batch that is chosen by the forecast; the sampler chooses the rest."""

_EXPLORED = 2
"""Batches before the first forecast."""


class Proposals(Protocol):
    """A way to choose points."""

    def batch(self, count: int) -> list[Place]:
        """Up to ``count`` points that were not proposed before; empty if there are no more."""
        ...

    def learn(self, place: Place, costs: Sequence[float] | None, *, allowed: bool = True) -> None:
        """Record the outcome of a point: its costs (smaller is better), or None if it is
        infeasible.

        ``allowed`` is false when it violates a constraint.
        """
        ...


def make_proposals(
    sampler: Sampler, space: Space, objectives: int, *, seed: int, batch: int
) -> Proposals:
    """Proposals of a sampler.

    Raises
    ------
    SweepError
        Optuna is not installed, or too old.
    """
    if sampler == "grid":
        return _Listed(space.places())
    if sampler == "random":
        return _Listed(_shuffled(space, np.random.default_rng(seed)))
    return _Guided(sampler, space, objectives, seed, batch)


class _Listed:
    """Points in an order that does not depend on their outcomes."""

    def __init__(self, places: Iterator[Place]) -> None:
        self._places = places
        self._known: set[Place] = set()

    def batch(self, count: int) -> list[Place]:
        found: list[Place] = []
        for place in self._places:
            if place not in self._known:
                self._known.add(place)
                found.append(place)
            if len(found) == count:
                break
        return found

    def learn(self, place: Place, costs: Sequence[float] | None, *, allowed: bool = True) -> None:
        self._known.add(place)


class _Guided:
    """Half of a batch is forecast to improve on the front; Optuna chooses the other half."""

    def __init__(
        self, sampler: Sampler, space: Space, objectives: int, seed: int, batch: int
    ) -> None:
        self._sampler: str = sampler
        self._space, self._draw = space, np.random.default_rng(seed)
        self._optuna = _import_optuna()
        self._study = self._make_study(objectives, seed, max(2, batch))
        self._batches = 0
        self._proposed: dict[Place, Any] = {}
        """The trials of Optuna by point; None for points unknown to it."""
        self._outcomes: dict[Place, Outcome] = {}

    def batch(self, count: int) -> list[Place]:
        count = min(count, self._space.count - len(self._proposed))
        found: list[Place] = []
        if not self._batches:
            found = [p for p in self._space.extremes() if p not in self._proposed][:count]
        elif self._batches >= _EXPLORED:
            found = self._forecast(math.ceil(count * _FORECAST))
        self._batches += 1
        for place in found:
            self._propose(place)
        asked = 0
        while len(found) < count:
            asked += 1
            if asked <= _ASKED[self._sampler] * count:
                chosen = self._ask()
                if chosen is not None:
                    found.append(chosen)
            else:
                place = next(_shuffled(self._space, self._draw, self._proposed))
                self._propose(place)
                found.append(place)
        return found

    def learn(self, place: Place, costs: Sequence[float] | None, *, allowed: bool = True) -> None:
        if place not in self._proposed:
            self._propose(place)
        self._outcomes[place] = costs, allowed
        self._tell(self._proposed[place], place)

    def _forecast(self, count: int) -> list[Place]:
        """The most promising of all points and of the neighbors of the front, in turn.

        A forecast is too coarse for small steps along the front, which neighbors take.
        """
        good = {p: costs for p, (costs, allowed) in self._outcomes.items() if costs and allowed}
        places = list(good)
        best = [places[i] for i in frontier(list(good.values()))]
        near = list(dict.fromkeys(n for place in best for n in self._space.neighbors(place)))
        near = [place for place in near if place not in self._proposed]
        found = promising(self._space, self._outcomes, near, count // 2)
        others = [place for place in self._candidates(near) if place not in found]
        return found + promising(self._space, self._outcomes, others, count - len(found))

    def _candidates(self, near: list[Place]) -> list[Place]:
        """All remaining points of a small space; for a large one, points near the front and random
        ones."""
        if self._space.count <= _CANDIDATES:
            return [place for place in self._space.places() if place not in self._proposed]
        others = [self._space.random(self._draw) for _ in range(_CANDIDATES // 4)]
        found = dict.fromkeys([*near, *others])
        return [place for place in found if place not in self._proposed]

    def _ask(self) -> Place | None:
        """A point chosen by Optuna; None for a known point, whose outcome is reported at once."""
        trial = self._study.ask()
        place = self._suggested(trial)
        if place in self._outcomes:
            self._tell(trial, place)
        elif place in self._proposed:
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        else:
            self._proposed[place] = trial
            return place
        return None

    def _propose(self, place: Place) -> None:
        """Report a point to Optuna that it did not choose."""
        self._study.enqueue_trial({f"x{axis}": at for axis, at in enumerate(place)})
        trial = self._study.ask()
        self._suggested(trial)
        self._proposed[place] = trial

    def _suggested(self, trial: Any) -> Place:
        found = []
        for axis, size in enumerate(self._space.sizes):
            if self._space.numbers(axis) == size:
                found.append(int(trial.suggest_int(f"x{axis}", 0, size - 1)))
            else:
                found.append(int(trial.suggest_categorical(f"x{axis}", list(range(size)))))
        return tuple(found)

    def _tell(self, trial: Any, place: Place) -> None:
        costs, allowed = self._outcomes[place]
        if costs is None:
            # Samplers ignore failed trials, but learn from large violations.
            trial.set_constraint("allowed", _NO_DESIGN)
            self._study.tell(trial, self._worst())
            return
        trial.set_constraint("allowed", 0.0 if allowed else 1.0)
        self._study.tell(trial, list(costs))

    def _worst(self) -> list[float]:
        """The largest cost so far in each objective."""
        known = [costs for costs, _ in self._outcomes.values() if costs is not None]
        if not known:
            return [1.0] * len(self._study.directions)
        return [float(max(column)) for column in zip(*known, strict=True)]

    def _make_study(self, objectives: int, seed: int, batch: int) -> Any:
        optuna = self._optuna
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with warnings.catch_warnings():
            # A test pins the interface that this version calls experimental.
            warnings.simplefilter("ignore")
            if self._sampler == "nsga2":
                sampler = optuna.samplers.NSGAIISampler(population_size=batch, seed=seed)
            else:
                sampler = optuna.samplers.TPESampler(
                    n_startup_trials=batch, multivariate=True, constant_liar=True, seed=seed
                )
            return optuna.create_study(directions=["minimize"] * objectives, sampler=sampler)


def _shuffled(space: Space, draw: np.random.Generator, known: Any = ()) -> Iterator[Place]:
    """All points in random order, without the known ones."""
    if space.count <= _CANDIDATES:
        every = [place for place in space.places() if place not in known]
        for at in draw.permutation(len(every)):
            yield every[at]
        return
    seen: set[Place] = set()
    while len(seen) < space.count:
        place = space.random(draw)
        if place not in seen and place not in known:
            seen.add(place)
            yield place


def _import_optuna() -> Any:
    optuna = require("optuna", SweepError, advice=", or use the sampler random or grid")
    if not hasattr(optuna.trial.Trial, "set_constraint"):
        raise SweepError(
            f"tune: optuna {optuna.__version__} is installed, expected 5 or later; "
            "pip install -U 'stepsim[search]', or use the sampler random or grid"
        )
    return optuna
