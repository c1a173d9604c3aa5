"""Metrics of the designs of a sweep over one axis: a curve for each value of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepsim.errors import ArgError, SweepError
from stepsim.results import COLUMNS, EVERY_MEASURE
from stepsim.sweep.analysis.frame import Frame, read_frame
from stepsim.sweep.analysis.objectives import parse_objective
from stepsim.sweep.analysis.statistics import Ends, interval
from stepsim.sweep.spec.filters import find_name
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
    """

    x: str
    x_unit: str
    by: tuple[str, ...]
    metrics: Mapping[str, tuple[Curve, ...]]
    left_out: int

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

    Parameters
    ----------
    x : a number that designs differ in: an axis, a parameter or a field of the machine.
    y : metrics; a mean over the runs of a design, or a percentile such as ``p95_cycles``.
    by : what distinguishes curves; by default all other axes.
    where : as in :func:`design_costs`.

    Raises
    ------
    SweepError
        There is no such sweep or run, the axis is not a number, or several designs would be one
        point of a curve.
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
    for text, objective in objectives.items():
        lines = []
        for key, points in groups.items():
            made = []
            for place in sorted(points):
                rows = frame.runs[points[place]]
                known_rows = {
                    k: row for k, row in rows.items() if row.get(objective.metric) is not None
                }
                left_out += len(rows) - len(known_rows)
                if not known_rows:
                    continue
                whole = frame.values(points[place], objective, {*known_rows}, None)
                ends: Ends = (None, None)
                if objective.statistic == "mean":
                    every = [float(row[objective.metric]) for row in known_rows.values()]
                    ends = interval(every, [row["replicate"] for row in known_rows.values()])
                value = whole.of(objective.statistic)
                low, high = ends
                made.append(CurvePoint(place, value, low, high, len(known_rows)))
            lines.append(Curve(shared[key], tuple(made)))
        if not any(line.points for line in lines):
            # Says why no run has it.
            first, rows = next(iter(frame.runs.items()))
            frame.value(first, next(iter(rows)), objective.metric, None)
        found[text] = tuple(line for line in lines if line.points)
    return Curves(axis, _unit(folder, axis), tuple(names), found, left_out)


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
