"""Judging a design by its objectives and constraints, over its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepsim.errors import ArgError
from stepsim.results import BETTER, Direction
from stepsim.sweep.analysis.constraints import Constraints, statistics_by_name
from stepsim.sweep.analysis.objectives import (
    COST,
    parse_objective,
    priced_weights,
)
from stepsim.sweep.analysis.pareto import LEAST, frontier
from stepsim.sweep.planning.services import limit_problems
from stepsim.sweep.spec.filter_types import kinds_of
from stepsim.sweep.spec.filters import find_name

if TYPE_CHECKING:
    from stepsim.sweep.search.trials import TrialPlanner, Trials

_VIOLATES = "violates "


@dataclass(frozen=True)
class Judgment:
    """The judgment of one design.

    Attributes
    ----------
    values : values by objective, in their units; empty if it failed.
    costs : the same as costs, where smaller is better and all are above 0; None if it failed.
    violated : constraints that do not hold.
    failure : why it cannot be judged.
    """

    values: Mapping[str, float]
    costs: tuple[float, ...] | None
    violated: tuple[str, ...] = ()
    failure: str = ""


class Judge:
    """Judges designs by the section ``search`` of a specification."""

    def __init__(self, planner: TrialPlanner) -> None:
        spec = planner.spec
        self.objectives = tuple(spec.search.objectives)
        self._parsed = [parse_objective(text) for text in self.objectives]
        kept = {*planner.measures, COST}
        for at, objective in enumerate(self._parsed):
            if objective.metric not in kept:
                advice = "metrics; add it"
                if spec.service is not None and spec.metrics is None:
                    advice = f"those of services; choose one of {', '.join(planner.measures)}"
                raise planner.refusal(
                    f"search.objectives[{at}]: {objective.metric} is not among {advice}"
                )
            if objective.metric not in (*BETTER, COST):
                raise planner.refusal(
                    f"search.objectives[{at}]: it is unknown which values of {objective.metric} "
                    f"are better; expected one of {', '.join(BETTER)}"
                )
        weights = self._resolved_weights(planner, kept)
        try:
            self._constraints = Constraints(
                spec.search.constraints, planner.kinds(), kept - {COST}, weights
            )
        except ArgError as error:
            raise planner.refusal(f"search.constraints{error}") from None
        self._weights = weights
        wanted = {one.metric: f"search.objectives[{at}]" for at, one in enumerate(self._parsed)}
        constrained = dict.fromkeys(self._constraints.metrics, "search.constraints")
        if absent := limit_problems(spec, constrained | wanted):
            raise planner.refusal(absent[0])
        self._check_cost(planner)
        self._known: dict[int, Judgment] = {}

    def _resolved_weights(
        self, planner: TrialPlanner, kept: set[str]
    ) -> Mapping[str, float] | None:
        """The weights by full name, None without any; all of their columns are numbers."""
        known = {**planner.kinds(), **dict.fromkeys(kept - {COST}, kinds_of([0.0]))}
        found = {}
        for name, weight in planner.spec.search.cost.items():
            try:
                full = find_name(name, known, f"search.cost.{name}")
            except ArgError as error:
                raise planner.refusal(str(error)) from None
            if known[full] - kinds_of([0.0]):
                raise planner.refusal(
                    f"search.cost.{name}: {full} is not a number in every design; leave it out"
                )
            if full in found:
                raise planner.refusal(f"search.cost.{name}: {full} has a weight already")
            found[full] = weight
        return found or None

    def _check_cost(self, planner: TrialPlanner) -> None:
        """Check that weights or prices exist if ``cost`` is used, and only then."""
        at = next((i for i, one in enumerate(self._parsed) if one.metric == COST), None)
        if at is None and COST not in self._constraints.metrics:
            if self._weights is not None:
                raise planner.refusal(
                    "search.cost: no objective and no constraint uses it; add cost to "
                    "objectives, or leave the weights out"
                )
            return
        if self._weights is None:
            key = "search.constraints" if at is None else f"search.objectives[{at}]"
            for machine in planner.machines():
                try:
                    priced_weights(machine)
                except ArgError as error:
                    raise planner.refusal(f"{key}: {error}") from None

    def refusal(self, design: Mapping[str, Any]) -> str:
        """The constraint that the axes of a design violate by themselves; empty if there is
        none."""
        for condition in self._constraints.conditions:
            if set(condition.names) <= design.keys() and not condition.holds(design):
                return f"{_VIOLATES}{condition.text}"
        return ""

    def of(self, trials: Trials, number: int) -> Judgment:
        """The judgment of a design that was simulated."""
        if number not in self._known:
            self._known[number] = self._judged(trials, number)
        return self._known[number]

    def front(self, trials: Trials, numbers: Sequence[int]) -> list[int]:
        """The Pareto-optimal designs among those that satisfy all constraints."""
        costs = {}
        for number in numbers:
            judgment = self.of(trials, number)
            if judgment.costs is not None and not judgment.violated:
                costs[number] = judgment.costs
        every = list(costs)
        return [every[i] for i in frontier(list(costs.values()))]

    def _judged(self, trials: Trials, number: int) -> Judgment:
        if failure := trials.failure(number):
            return Judgment({}, None, (), failure)
        rows = trials.rows(number)
        values = trials.values(number)
        metrics = {objective.metric for objective in self._parsed}
        found = statistics_by_name(metrics, values, rows, self._weights)
        absent = [text for text in self.objectives if text not in found]
        if absent:
            return Judgment({}, None, (), f"has no {' and no '.join(absent)}")
        violated = self._constraints.violated(values, rows)
        own = {text: found[text] for text in self.objectives}
        costs = tuple(
            _cost(own[text], BETTER.get(objective.metric, "smaller"))
            for text, objective in zip(self.objectives, self._parsed, strict=True)
        )
        return Judgment(own, costs, violated)


def _cost(value: float, better: Direction) -> float:
    """The value as a cost: smaller is better, and it is above 0."""
    return max(LEAST, value if better == "smaller" else 1 / max(LEAST, value))


def is_violation(reason: str) -> bool:
    """Whether a design was refused because of a constraint."""
    return reason.startswith(_VIOLATES)
