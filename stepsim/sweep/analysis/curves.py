"""Metrics of the designs of a sweep over one axis: a curve for each value of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepsim.arguments import counted
from stepsim.errors import ArgError, SweepError
from stepsim.results import COLUMNS, EVERY_MEASURE
from stepsim.sweep.analysis.common_traces import TraceCosts, comparable
from stepsim.sweep.analysis.costs import nothing_common
from stepsim.sweep.analysis.frame import Frame, TraceKey, read_frame
from stepsim.sweep.analysis.objectives import parse_objective
from stepsim.sweep.analysis.statistics import Ends, interval
from stepsim.sweep.spec.filters import find_name
from stepsim.sweep.spec.problems import listing
from stepsim.sweep.storage.manifest import read_manifest
from stepsim.typed import typed


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A design on a curve.

    Attributes
    ----------
    x : its value on the axis.
    y : the metric by which it is judged, over its runs.
    low, high : 95 % confidence interval of a mean over replicates; None without replicates.
    runs : number of its runs.
    """

    x: float
    y: float
    low: float | None
    high: float | None
    runs: int


@dataclass(frozen=True, slots=True)
class Curve:
    """Designs that differ in the axis alone, by rising value; ``values`` are those they share."""

    values: Mapping[str, Any]
    points: tuple[CurvePoint, ...]

    @property
    def label(self) -> str:
        """The shared values, as ``tile=32``."""
        return " ".join(f"{name}={value}" for name, value in self.values.items())


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves of several metrics.

    Attributes
    ----------
    x, x_unit : full name of the axis, and its unit.
    by : full names of the values that distinguish curves.
    metrics : curves by metric.
    left_out : runs of which a metric is not known, as that of a service that finished no request.
    remarks : of metrics that are not over all traces of all designs, which they are over.
    """

    x: str
    x_unit: str
    by: tuple[str, ...]
    metrics: Mapping[str, tuple[Curve, ...]]
    left_out: int
    remarks: tuple[str, ...] = ()

    @typed
    def title(self, metric: str) -> str:
        """The statistic over runs and the metric, as ``mean goodput``."""
        return parse_objective(metric).title


@typed
def curves(
    folder: str | Path,
    x: str,
    y: Sequence[str],
    *,
    by: Sequence[str] | None = None,
    where: str | None = None,
) -> Curves:
    """Metrics over an axis of a sweep, with a curve for each combination of the values of others.

    A metric is taken over the traces on which all points have it, so that no point gains from runs
    that failed; designs that lost too many runs are left out, as in :func:`design_costs`.

    Parameters
    ----------
    x : a number that designs differ in: an axis, a parameter or a field of the machine.
    y : metrics; a mean over the runs of a design, or a percentile such as ``p95_cycles``.
    by : what distinguishes curves; by default all other axes.
    where : as in :func:`design_costs`.

    Raises
    ------
    SweepError
        There is no such sweep or run, the axis is not a number, several designs would be one
        point of a curve, or no trace is common to them.
    ArgError
        A name is unknown or given twice, or there is no metric.
    """
    if not y:
        raise ArgError("y: expected at least one metric, found none; name one, such as goodput")
    objectives = {text: parse_objective(text, EVERY_MEASURE) for text in y}
    frame = read_frame(folder)
    if where is not None:
        frame = frame.where(where)
    known = dict.fromkeys(name for values in frame.designs.values() for name in values)
    axis = find_name(x, known, "x")
    if by is None:
        names = [name for name in frame.axes if name in frame.varying and name != axis]
    else:
        names = [find_name(name, known, "by") for name in by]
    if len({axis, *names}) <= len(names):
        raise ArgError(f"by: {', '.join([axis, *names])} has a name twice; name each once")
    places = frame.numbers(axis)
    groups: dict[str, dict[float, int]] = {}
    shared: dict[str, dict[str, Any]] = {}
    for point, values in frame.designs.items():
        own = {name: values.get(name) for name in names}
        key = repr(own)
        shared[key] = own
        other = groups.setdefault(key, {}).setdefault(places[point], point)
        if other != point:
            raise _several(frame, other, point, axis)
    found: dict[str, tuple[Curve, ...]] = {}
    left_out = 0
    remarks: list[str] = []
    for text, objective in objectives.items():
        finished = {
            point: [trace for trace, row in own.items() if row.get(objective.metric) is not None]
            for point, own in frame.runs.items()
        }
        left_out += sum(len(own) - len(finished[point]) for point, own in frame.runs.items())
        if not any(finished.values()):
            # Says why no run has it.
            first, rows = next(iter(frame.runs.items()))
            frame.value(first, next(iter(rows)), objective.metric, None)
        kept, common, remark = _compared(frame, finished)
        if remark:
            remarks.append(f"{objective.title}: {remark}")
        lines = []
        for key, points in groups.items():
            made = []
            for place in sorted(place for place, point in points.items() if point in kept):
                whole = frame.values(points[place], objective, common, None)
                ends: Ends = (None, None)
                if objective.statistic == "mean":
                    own_rows = [frame.runs[points[place]][trace] for trace in common]
                    every = [float(row[objective.metric]) for row in own_rows]
                    ends = interval(every, [row["replicate"] for row in own_rows])
                value = whole.of(objective.statistic)
                low, high = ends
                made.append(CurvePoint(place, value, low, high, len(common)))
            lines.append(Curve(shared[key], tuple(made)))
        found[text] = tuple(line for line in lines if line.points)
    return Curves(axis, _unit(folder, axis), tuple(names), found, left_out, tuple(remarks))


def _compared(
    frame: Frame, finished: Mapping[int, Sequence[TraceKey]]
) -> tuple[list[int], list[TraceKey], str]:
    """The design points to show, the traces to show them over, and what to say about these."""
    traces = list(dict.fromkeys(key for own in finished.values() for key in own))
    numbers = {key: number for number, key in enumerate(traces)}
    costs = {
        point: TraceCosts(np.array(sorted(numbers[key] for key in own)), ())
        for point, own in finished.items()
        if own
    }
    lost = {point: len(traces) - len(own.traces) for point, own in costs.items()}
    kept, common = comparable(costs, lost)
    if not len(common):
        raise nothing_common(frame.folder, costs, lost, frame.labels, kept)
    parts = []
    if len(common) < len(traces):
        parts.append(
            f"over {len(common):,} of {counted(len(traces), 'trace')}, on which all points shown "
            "have it"
        )
    if few := [frame.labels[point] for point in costs if point not in kept]:
        many = counted(len(few), "design")
        parts.append(f"{many} left out that lost too many runs:{listing(few)}")
    return kept, [traces[number] for number in common], "; ".join(parts)


def _several(frame: Frame, one: int, other: int, axis: str) -> SweepError:
    first, second = frame.designs[one], frame.designs[other]
    names: Iterable[str] = dict.fromkeys([*frame.axes, *frame.varying])
    differing = [name for name in names if repr(first.get(name)) != repr(second.get(name))]
    return SweepError(
        f"{frame.folder}: '{frame.labels[one]}' and '{frame.labels[other]}' have the same {axis} "
        f"on one curve; they differ in {', '.join(differing[:3]) or 'their runs'}, which --by or "
        "--where can tell apart"
    )


def _unit(folder: str | Path, name: str) -> str:
    """The unit of a parameter or a column; empty if there is none."""
    column = read_manifest(folder).parameters.get(name, COLUMNS.get(name))
    return "" if column is None else str(column.metadata.get(b"unit", b"").decode())
