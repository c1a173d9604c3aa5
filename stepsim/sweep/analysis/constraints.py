"""Conditions that designs must satisfy over all of their runs, as searches state them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stepsim.errors import ArgError
from stepsim.results import EVERY_MEASURE
from stepsim.sweep.analysis.objectives import COST, parse_objective, run_costs, statistic_names
from stepsim.sweep.spec.filter_types import Kinds, kinds_of
from stepsim.sweep.spec.filters import Condition, parse_condition


class Constraints:
    """Conditions on the values of designs and on the statistics of their metrics.

    Parameters
    ----------
    texts : conditions such as ``onchip_bytes <= 40e6``, on the mean over the runs, or
        ``p95_cycles < 1e6``.
    known : names that they may use apart from metrics, with the kinds of their values.
    metrics : metrics that the runs have.
    weights : weights of columns in ``cost``; those of the machine if None.

    Attributes
    ----------
    conditions : the conditions, with full names.
    metrics : the metrics that they name.

    Raises
    ------
    ArgError
        A condition cannot be read or has an unknown name; the message starts with ``[1]: `` for the
        second one.
    """

    def __init__(
        self,
        texts: Sequence[str],
        known: Mapping[str, Kinds],
        metrics: Iterable[str] = EVERY_MEASURE,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        number = kinds_of([0.0])
        own = {name: number for metric in metrics for name in statistic_names(metric, [0.0])}
        own |= dict.fromkeys(statistic_names(COST, [0.0]), number)
        self.conditions: list[Condition] = []
        self._weights = weights
        for at, text in enumerate(texts):
            try:
                self.conditions.append(parse_condition(text).resolved({**known, **own}))
            except ArgError as error:
                raise ArgError(f"[{at}]: {error}") from None
        names = {name for condition in self.conditions for name in condition.names}
        self.metrics = {parse_objective(name).metric for name in names & own.keys()}

    def violated(
        self, values: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
    ) -> tuple[str, ...]:
        """The conditions that are not known to hold for a design, by its values and its runs.

        Where that is so because something is not known, the text says so.
        """
        found = {**values, **statistics_by_name(self.metrics, values, rows, self._weights)}
        return tuple(
            one.text + ("" if truth is False else _unknown(one, found))
            for one in self.conditions
            if (truth := one.truth({name: found.get(name) for name in one.names})) is not True
        )


def _unknown(condition: Condition, values: Mapping[str, Any]) -> str:
    """Why it is not known whether a condition holds."""
    names = [name for name in condition.names if values.get(name) is None]
    return f" ({' and '.join(names) or 'its value'} not known)"


def statistics_by_name(
    metrics: Iterable[str],
    values: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    weights: Mapping[str, float] | None,
) -> dict[str, float]:
    """``cycles``, ``p95_cycles`` and so on over the runs of a design that have the metric."""
    found: dict[str, float] = {}
    for metric in metrics:
        column = (
            run_costs(weights, values, rows)
            if metric == COST
            else [row[metric] for row in rows if row[metric] is not None]
        )
        if column:
            found |= statistic_names(metric, column)
    return found
