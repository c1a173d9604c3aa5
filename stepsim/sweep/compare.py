"""Two sweeps side by side, and the design points of one."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepsim.errors import SweepError
from stepsim.sweep.labels import POINT_COLUMNS, TRACE_COLUMNS, label_points, label_runs
from stepsim.sweep.pareto import frontier
from stepsim.sweep.schema import METRICS
from stepsim.sweep.tables import open_table, read_designs, read_runs

__all__ = ["Change", "Comparison", "DesignCost", "compare", "design_costs"]


@dataclass(frozen=True, slots=True)
class Change:
    """One run in both sweeps; ``ratio`` is ``after / before``, None when before is 0."""

    run: str
    label: str
    before: float
    after: float
    ratio: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs by key.

    Attributes
    ----------
    changes : runs in both, largest ratio first.
    only_before, only_after : runs without a partner.
    mean_ratio : geometric mean of the ratios, None without any.
    """

    metric: str
    changes: tuple[Change, ...]
    only_before: int
    only_after: int
    mean_ratio: float | None

    def to_arrow(self) -> pa.Table:
        """One row per run in both."""
        rows = [{name: getattr(c, name) for name in Change.__slots__} for c in self.changes]
        kinds = [pa.string(), pa.string(), pa.float64(), pa.float64(), pa.float64()]
        return pa.Table.from_pylist(
            rows, schema=pa.schema(list(zip(Change.__slots__, kinds, strict=True)))
        )


def compare(before: str | Path, after: str | Path, metric: str = "cycles") -> Comparison:
    """Ratios of a metric, run by run: same workload, parameters, machine and trace.

    Raises
    ------
    SweepError
        A folder holds no sweep, the metric is unknown or no number, or no run of one or of both
        has it.
    """
    (runs, points), (others, _) = _measured(before, [metric]), _measured(after, [metric])
    first, second = (
        dict(zip(*(t[name].to_pylist() for name in ("run", metric)), strict=True))
        for t in (runs, others)
    )
    common = [run for run in first if run in second]
    if not common:
        raise SweepError(
            f"{before} and {after} have no run in common; compare sweeps over the same "
            "workload, parameters, machine and traces"
        )
    rows = runs.select(["run", "point", *TRACE_COLUMNS]).to_pylist()
    labels = label_runs(rows, points)
    changes = []
    for run in common:
        a, b = float(first[run]), float(second[run])
        changes.append(Change(run, labels[run], a, b, b / a if a else None))
    changes.sort(key=lambda change: -math.inf if change.ratio is None else -change.ratio)
    ratios = [change.ratio for change in changes if change.ratio]
    mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios else None
    missing = len(first) - len(common), len(second) - len(common)
    return Comparison(metric, tuple(changes), *missing, mean)


@dataclass(frozen=True, slots=True)
class DesignCost:
    """A design point with the mean of two metrics over its runs.

    Attributes
    ----------
    on_frontier : no other design point is at least as good in both and better in one.
    """

    point: int
    label: str
    runs: int
    x: float
    y: float
    on_frontier: bool


def design_costs(folder: str | Path, x: str, y: str) -> list[DesignCost]:
    """Mean costs of every design point, and which points are worth having.

    Only runs that ended well count.

    Raises
    ------
    SweepError
        There is no such sweep or metric, no run has it, or a mean is not above zero.
    """
    runs, labels = _measured(folder, [x, y])
    costs: dict[int, list[tuple[float, float]]] = {}
    for point, *pair in zip(*(runs[name].to_pylist() for name in ("point", x, y)), strict=True):
        costs.setdefault(point, []).append((pair[0], pair[1]))
    means: dict[int, tuple[float, float]] = {}
    for point, pairs in sorted(costs.items()):
        mean_x, mean_y = (math.fsum(column) / len(pairs) for column in zip(*pairs, strict=True))
        if min(mean_x, mean_y) <= 0:
            raise SweepError(
                f"{folder}: the mean {x if mean_x <= 0 else y} of design point '{labels[point]}' "
                f"is {min(mean_x, mean_y):g}, expected costs above 0; choose another metric"
            )
        means[point] = mean_x, mean_y
    best = {list(means)[i] for i in frontier(list(means.values()))}
    return [
        DesignCost(point, labels[point], len(costs[point]), *mean, point in best)
        for point, mean in means.items()
    ]


def _measured(folder: str | Path, metrics: list[str]) -> tuple[pa.Table, dict[int, str]]:
    """Runs that ended well and have the metrics; labels of all design points that have runs."""
    columns = ["run", "status", *POINT_COLUMNS, *TRACE_COLUMNS, *metrics]
    every = read_runs(folder, [*dict.fromkeys(columns)], ok_only=False)
    for metric in metrics:
        kind = every.schema.field(metric).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise SweepError(f"column '{metric}' holds {kind}, expected numbers; choose a metric")
    table = every.filter(pc.equal(every["status"], "ok"))
    if not table.num_rows:
        raise SweepError(f"{folder}: {_without_a_good_end(folder)}")
    measured = table.filter(reduce(pc.and_, [pc.is_valid(table[metric]) for metric in metrics]))
    if not measured.num_rows:
        names = " and ".join(dict.fromkeys(metrics))
        mend = "keep them with the key 'metrics' of the sweep"
        if not set(metrics) <= set(METRICS):
            mend = f"choose among {', '.join(METRICS)}"
        raise SweepError(f"{folder}: none of {table.num_rows:,} runs has {names}; {mend}")
    return measured, _point_labels(folder, every)


def _without_a_good_end(folder: str | Path) -> str:
    """Why there is nothing to look at."""
    failures = open_table(folder, "failures").to_table(columns=["error"])
    kinds = Counter(failures["error"].to_pylist())
    if not kinds:
        return "no run is finished yet; continue the sweep with --resume"
    found = ", ".join(f"{count:,} x {kind}" for kind, count in sorted(kinds.items()))
    return (
        f"no run ended well ({found}), so there is nothing to compare; the reasons are in its "
        "table failures"
    )


def _point_labels(folder: str | Path, runs: pa.Table) -> dict[int, str]:
    _, first = np.unique(runs["point"].to_numpy(), return_index=True)
    rows = {row["point"]: row for row in runs.select(POINT_COLUMNS).take(first).to_pylist()}
    specified = dict.fromkeys(key for design in read_designs(folder).values() for key in design)
    return label_points(rows, list(specified))
