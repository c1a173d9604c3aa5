"""The best design for each group of runs, such as each layer, and the best one for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepsim.errors import SweepError
from stepsim.results import BETTER
from stepsim.sweep.analysis.frame import Frame, read_frame
from stepsim.sweep.analysis.objectives import Objective, parse_objective
from stepsim.sweep.analysis.statistics import Statistics
from stepsim.typed import typed


@dataclass(frozen=True, slots=True)
class BestOfGroup:
    """The best design point of a group.

    Attributes
    ----------
    group : values of the columns, by name; empty for all runs together.
    point, label : the design.
    statistics : statistics of the metric over its runs of the group.
    value : the value by which it was judged.
    runner_up : label of the second best design, None if there is only one design.
    loss : how much worse the second best is, as a fraction of the best; None without one, and
        where a fraction is not defined because the best is 0 and the second is not.
    overall_loss : likewise for the design that is best for all runs; None also if it has no runs
        here.
    runs : number of traces that all designs of the group finished, over which they are compared.
    """

    group: Mapping[str, Any]
    point: int
    label: str
    statistics: Statistics
    value: float
    runner_up: str | None
    loss: float | None
    overall_loss: float | None
    runs: int


@dataclass(frozen=True, slots=True)
class Best:
    """The best designs.

    Attributes
    ----------
    objective : metric and statistic.
    overall : the best design for all runs.
    groups : the best design of each group.
    left_out : design points that have not finished all traces of a group, by group.
    """

    objective: Objective
    overall: BestOfGroup
    groups: tuple[BestOfGroup, ...]
    left_out: int


@typed
def best(
    folder: str | Path,
    objective: str = "cycles",
    *,
    per: Sequence[str] = (),
    where: str | None = None,
    weights: Mapping[str, float] | None = None,
) -> Best:
    """The best design point of each group of runs.

    Within a group, designs are compared over the traces that the designs with the most runs have
    in common; a design that lost runs of the group is not compared, so that no design gains from
    its failures.

    Raises
    ------
    SweepError
        The folder holds no sweep, no run succeeded, or neither smaller nor larger is better.
    ArgError
        A name or the condition is wrong.
    """
    judged = parse_objective(objective)
    if judged.metric not in BETTER and judged.metric != "cost":
        raise SweepError(
            f"best: it is unknown which values of {judged.metric} are better; "
            f"choose among {', '.join(BETTER)}"
        )
    frame = read_frame(folder)
    if where is not None:
        frame = frame.where(where)
    ranked = _ranked(frame, judged, weights)
    left_out = len(frame.runs) - len(ranked)
    overall = ranked[0][0]
    groups = []
    for group, own in frame.grouped(per) if per else ():
        order = _ranked(own, judged, weights)
        left_out += len(own.runs) - len(order)
        values = dict(zip(per, group, strict=True))
        groups.append(_of_group(own, values, order, overall, judged))
    whole = _of_group(frame, {}, ranked, overall, judged)
    return Best(judged, whole, tuple(groups), left_out)


_Ranked = list[tuple[int, Statistics]]


def _ranked(frame: Frame, objective: Objective, weights: Mapping[str, float] | None) -> _Ranked:
    """Design points that finished as many traces as any, the best first."""
    most = max(len(own) for own in frame.runs.values())
    whole = {point: own for point, own in frame.runs.items() if len(own) == most}
    traces = set.intersection(*(set(own) for own in whole.values()))
    if not traces:
        raise SweepError(
            f"{frame.folder}: the design points have no trace in common that all finished; choose "
            "runs with --where"
        )
    found = [(p, frame.values(p, objective, traces, weights)) for p in whole]
    sign = -1 if BETTER.get(objective.metric) == "larger" else 1
    return sorted(found, key=lambda one: (sign * one[1].of(objective.statistic), one[0]))


def _of_group(
    frame: Frame, group: Mapping[str, Any], order: _Ranked, overall: int, objective: Objective
) -> BestOfGroup:
    point, found = order[0]
    value = found.of(objective.statistic)

    def loss(other: Statistics) -> float | None:
        own = other.of(objective.statistic)
        if own == value:
            return 0.0
        return abs(1 - own / value) if value else None

    by_point = dict(order)
    return BestOfGroup(
        group,
        point,
        frame.labels[point],
        found,
        value,
        frame.labels[order[1][0]] if len(order) > 1 else None,
        loss(order[1][1]) if len(order) > 1 else None,
        loss(by_point[overall]) if overall in by_point else None,
        len(frame.runs[point]),
    )
