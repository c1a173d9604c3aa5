"""The design points of a sweep by two or three metrics, over the same traces for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepsim.errors import ArgError, SweepError
from stepsim.results import BETTER, EVERY_MEASURE, SERVING
from stepsim.sweep.analysis.common_traces import (
    CONTENT_COLUMNS,
    TraceCosts,
    comparable,
    trace_numbers,
)
from stepsim.sweep.analysis.feasibility import violated_constraints
from stepsim.sweep.analysis.frame import Frame, read_frame
from stepsim.sweep.analysis.labels import TRACE_COLUMNS
from stepsim.sweep.analysis.measured import count_missing, read_succeeded, titled, with_metrics
from stepsim.sweep.analysis.objectives import COST, Objective, parse_objective
from stepsim.sweep.analysis.pareto import LEAST, frontier
from stepsim.sweep.analysis.statistics import Statistics, statistics
from stepsim.sweep.spec.problems import listing
from stepsim.sweep.storage.manifest import read_manifest
from stepsim.typed import typed


@dataclass(frozen=True, slots=True)
class DesignCost:
    """A design point with its metrics over its runs.

    Attributes
    ----------
    runs : number of runs that the metrics are taken over; all design points share their traces.
    x, y, z : the metrics: means, or percentiles if chosen; ``z`` is None
        if two metrics are compared.
    pareto_optimal : no other design point is at least as good in all and better in one.
    lost : number of traces on which it has no successful run with all metrics; with a
        condition, no such run that satisfies it.
    statistics : mean and percentiles of each metric, in their order.
    values : axes and other values of the design by full name.
    """

    point: int
    label: str
    runs: int
    x: float
    y: float
    pareto_optimal: bool
    lost: int = 0
    z: float | None = None
    statistics: tuple[Statistics, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A design point that lost too many runs to be compared; ``runs`` of it succeeded."""

    point: int
    label: str
    runs: int
    lost: int


@dataclass(frozen=True, slots=True)
class DesignCosts(Sequence[DesignCost]):
    """The design points that are compared, in their order.

    Attributes
    ----------
    points : the design points that are compared.
    traces : number of traces that the means are taken over, which all of the points finished.
    all_traces : number of traces of the sweep.
    designs : number of design points of the sweep, including those without a successful run.
    left_out : points that lost too many runs to be compared.
    missing : number of runs that are not done yet, which count as lost.
    countings : how bytes and FLOPs are counted in the runs.
    violating : for a search, labels of the points that violate its constraints over
        all their runs, with these constraints; they are not compared.
    chosen : whether a condition selected among the runs.
    design_values : metrics that are values of the designs, as ``channels``, with their full names.
    """

    points: tuple[DesignCost, ...]
    traces: int
    all_traces: int
    designs: int
    left_out: tuple[LeftOut, ...]
    missing: int = 0
    countings: tuple[str, ...] = ()
    violating: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    chosen: bool = False
    design_values: Mapping[str, str] = field(default_factory=dict)

    @overload
    def __getitem__(self, index: int) -> DesignCost: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[DesignCost, ...]: ...
    def __getitem__(self, index: int | slice) -> DesignCost | tuple[DesignCost, ...]:
        return self.points[index]

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[DesignCost]:
        return iter(self.points)

    @typed
    def title(self, metric: str) -> str:
        """``mean onchip_bytes (executed)``: statistic, metric, and how it is counted; for a value
        of the designs, which is the same in all runs, its full name.
        """
        if metric in self.design_values:
            return self.design_values[metric]
        objective = _objective(metric)
        return f"{objective.statistic} {titled(objective.metric, self.countings)}"

    @property
    def remark(self) -> str:
        """The traces that the means are taken over, in words; empty if they are all traces."""
        if self.traces == self.all_traces:
            return ""
        if self.chosen:
            return (
                f"means over {self.traces:,} of {self.all_traces:,} traces, those on which every "
                "design point shown has a run that satisfies the condition"
            )
        return (
            f"means over {self.traces:,} of {self.all_traces:,} traces, those that all design "
            "points shown finished"
        )


@typed
def design_costs(
    folder: str | Path,
    x: str,
    y: str,
    z: str | None = None,
    *,
    where: str | None = None,
    weights: Mapping[str, float] | None = None,
) -> DesignCosts:
    """Costs of every design point over its runs, and which points are Pareto-optimal.

    Only runs that succeeded count, and only on traces that all of the points finished: a mean
    over the remaining runs of a point whose slow runs failed would favor it. Points with the most
    failures are left out until the others have at least half of the traces in common that the best
    point finished, or only two are left. Runs that are not done yet count as failed.

    Parameters
    ----------
    x, y, z : metrics whose means are compared; larger utilizations are better;
        ``p95_cycles`` is a percentile, ``cost`` the sum of weighted columns, and ``channels`` a
        value of the designs, where smaller is better.
    where : condition on the columns of the runs and the values of the designs, as in
        ``tile in (16, 32) and channels <= 32``.
    weights : weights of columns by name in ``cost``; those of the machine's ``costs`` if absent.

    Raises
    ------
    SweepError
        There is no such sweep or metric, no run has it, no trace was finished by two design
        points, or a mean is not above zero.
    ArgError
        The condition or a weight has an unknown name.
    """
    wanted = [x, y] if z is None else [x, y, z]
    objectives = [_objective(text) for text in wanted]
    metrics = [objective.metric for objective in objectives]
    columns = [*TRACE_COLUMNS, *CONTENT_COLUMNS, "model", "counting"]
    frame = read_frame(folder)
    varying = frame.varying
    design_values = {
        metric: full
        for metric in metrics
        if metric not in (*EVERY_MEASURE, COST) and (full := frame.design_value(metric))
    }
    plain = [metric for metric in metrics if metric != COST and metric not in design_values]
    runs, labels = read_succeeded(folder, plain, columns)
    for text, metric in zip(wanted, metrics, strict=True):
        if metric in EVERY_MEASURE and metric not in BETTER:
            raise SweepError(
                f"pareto: it is unknown which values of {text} are better; choose one "
                f"of {', '.join((*BETTER, COST))}"
            )
    violating = violated_constraints(frame)
    if violating:
        allowed = [point for point in frame.runs if point not in violating]
        if not allowed:
            raise SweepError(
                f"{folder}: every design point violates a constraint of the search: "
                f"{', '.join(dict.fromkeys(c for own in violating.values() for c in own))}"
            )
        runs = runs.filter(pc.is_in(runs["point"], value_set=pa.array(allowed)))
    which = " of design points that satisfy the constraints of the search" if violating else ""
    if where is not None:
        frame = frame.where(where)
        runs = _only(runs, frame)
        if not runs.num_rows:
            raise SweepError(
                f"{folder}: no run that satisfies '{where}' belongs to a design point that "
                "satisfies the constraints of the search"
            )
        which = f" that satisfy '{where}'{' and are' if which else ''}{which}"
    runs = with_metrics(folder, runs, plain, which)
    if COST in metrics:
        runs = _with_cost(runs, frame, weights)
    for metric, full in design_values.items():
        numbers = frame.numbers(full)
        of_runs = [numbers[point] for point in runs["point"].to_pylist()]
        runs = _with_column(runs, metric, of_runs)
    costs = _by_trace(runs, metrics)
    manifest = read_manifest(folder)
    lost = {point: manifest.traces - len(own.traces) for point, own in costs.items()}
    kept, common = comparable(costs, lost)
    if not len(common):
        raise nothing_common(folder, costs, lost, labels, kept)
    found: dict[int, tuple[Statistics, ...]] = {}
    judged: dict[int, list[float]] = {}
    for point in kept:
        own = costs[point]
        at = np.searchsorted(own.traces, common)
        found[point] = tuple(statistics(metric[at]) for metric in own.metrics)
        judged[point] = [s.of(o.statistic) for s, o in zip(found[point], objectives, strict=True)]
        for text, objective, value in zip(wanted, objectives, judged[point], strict=True):
            # A service may well finish no request within its limits, or preempt none.
            if value < 0 or (value == 0 and objective.metric not in SERVING):
                mean = objective.statistic == "mean" and text not in design_values
                name = f"mean {text}" if mean else text
                raise SweepError(
                    f"{folder}: the {name} of design point '{labels[point]}' is {value:g}, "
                    "expected costs above 0; choose another metric"
                )
    signs = [-1 if BETTER.get(metric) == "larger" else 1 for metric in metrics]
    # Costs are compared by ratios, so metrics that should be large are inverted.
    inverted = [
        [max(value, LEAST) ** sign for value, sign in zip(judged[point], signs, strict=True)]
        for point in kept
    ]
    best = {kept[i] for i in frontier(inverted)}
    return DesignCosts(
        tuple(
            DesignCost(
                point,
                labels[point],
                len(common),
                values[0],
                values[1],
                point in best,
                lost[point],
                values[2] if len(values) > 2 else None,
                found[point],
                {name: frame.designs[point].get(name) for name in varying},
            )
            for point, values in judged.items()
        ),
        len(common),
        manifest.traces,
        manifest.points,
        tuple(
            LeftOut(point, labels[point], len(own.traces), lost[point])
            for point, own in costs.items()
            if point not in judged
        ),
        count_missing(folder),
        tuple(sorted(runs["counting"].unique().to_pylist())),
        {labels[point]: own for point, own in violating.items()},
        where is not None,
        design_values,
    )


def _objective(text: str) -> Objective:
    """A metric among the measures, or the mean of any column of numbers."""
    try:
        return parse_objective(text)
    except ArgError:
        return Objective(text, "mean")


def _only(runs: pa.Table, kept: Frame) -> pa.Table:
    keys = [row["run"] for own in kept.runs.values() for row in own.values()]
    return runs.filter(pc.is_in(runs["run"], value_set=pa.array(keys, pa.string())))


def _with_cost(runs: pa.Table, frame: Frame, weights: Mapping[str, float] | None) -> pa.Table:
    by_run = {
        row["run"]: frame.cost(point, row, weights)
        for point, own in frame.runs.items()
        for row in own.values()
    }
    found = [by_run[run] for run in runs["run"].to_pylist()]
    return _with_column(runs, COST, found)


def _with_column(runs: pa.Table, name: str, values: Sequence[float]) -> pa.Table:
    """The runs with this column, which replaces one of the same name."""
    others = [own for own in runs.column_names if own != name]
    return runs.select(others).append_column(name, pa.array(values, pa.float64()))


def _by_trace(runs: pa.Table, metrics: Sequence[str]) -> dict[int, TraceCosts]:
    """The costs of every design point; runs with the same number have the same trace."""
    numbers = trace_numbers(runs)
    points = runs["point"].to_numpy()
    order = np.lexsort((numbers, points))
    points = points[order]
    columns = numbers[order], *(runs[metric].to_numpy()[order] for metric in metrics)
    found, begins = np.unique(points, return_index=True)
    parts = zip(*(np.split(column, begins[1:]) for column in columns), strict=True)
    return {int(p): TraceCosts(own, tuple(of)) for p, (own, *of) in zip(found, parts, strict=True)}


def nothing_common(
    folder: str | Path,
    costs: Mapping[int, TraceCosts],
    lost: Mapping[int, int],
    labels: Mapping[int, str],
    kept: Sequence[int],
) -> SweepError:
    """The error for design points, chosen by `comparable`, that have no trace in common."""
    finished = [f"'{labels[point]}' finished {len(costs[point].traces):,}" for point in kept]
    every = len(costs[kept[0]].traces) + lost[kept[0]]
    return SweepError(
        f"{folder}: the design points with the fewest failures finished no trace in common, so "
        f"their means cannot be compared; of {every:,} traces"
        f"{listing(finished)}\nfix what makes runs fail, or examine single runs with query"
    )
