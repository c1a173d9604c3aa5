"""Two sweeps side by side, and the design points of one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from stepsim.errors import SweepError
from stepsim.sweep.pareto import frontier
from stepsim.sweep.tables import read_runs

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
        A folder holds no sweep, the metric is unknown or no number, or no run is in both.
    """
    first, second = _by_run(before, metric), _by_run(after, metric)
    common = [run for run in first if run in second]
    if not common:
        raise SweepError(
            f"{before} and {after} have no run in common; compare sweeps over the same "
            "workload, parameters, machine and traces"
        )
    changes = []
    for run in common:
        (label, a), (_, b) = first[run], second[run]
        changes.append(Change(run, label, a, b, b / a if a else None))
    changes.sort(key=lambda change: -math.inf if change.ratio is None else -change.ratio)
    ratios = [change.ratio for change in changes if change.ratio]
    mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios else None
    missing = len(first) - len(common), len(second) - len(common)
    return Comparison(metric, tuple(changes), *missing, mean)


def _by_run(folder: str | Path, metric: str) -> dict[str, tuple[str, float]]:
    columns = [
        "run",
        "model",
        "workload",
        "parameters",
        "machine",
        "trace",
        "layer",
        "step",
        "window",
    ]
    table = read_runs(folder, [*dict.fromkeys([*columns, metric])])
    _check_number(table, metric)
    return {
        row["run"]: (_label(row), float(row[metric]))
        for row in table.to_pylist()
        if row[metric] is not None
    }


def _label(row: Mapping[str, Any]) -> str:
    """``moe qwen3-30b-a3b tile=8 sda-1024 layer 3 step 7``."""
    parts = [row["workload"], row["model"] or ""]
    parts += [f"{k}={v}" for k, v in json.loads(row["parameters"]).items() if v is not None]
    parts.append(row["machine"])
    if row["layer"] is not None:
        parts.append(f"layer {row['layer']} step {row['step']}")
    elif row["trace"] is not None:
        parts.append(row["trace"])
    parts += [] if row["window"] is None else [f"window {row['window']}"]
    return " ".join(part for part in parts if part)


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
        There is no such sweep or metric, or no run has it.
    ArgError
        A mean is not above zero.
    """
    table = read_runs(folder, [*dict.fromkeys(["point", "parameters", "machine", x, y])])
    for metric in (x, y):
        _check_number(table, metric)
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        if row[x] is not None and row[y] is not None:
            groups.setdefault(row["point"], []).append(row)
    if not groups:
        raise SweepError(
            f"{folder}: no run has both {x} and {y}; keep them with the key 'metrics' of the sweep"
        )
    means = {
        point: tuple(math.fsum(row[m] for row in rows) / len(rows) for m in (x, y))
        for point, rows in sorted(groups.items())
    }
    best = {list(means)[i] for i in frontier(list(means.values()))}
    names = _varying({point: rows[0] for point, rows in groups.items()})
    return [
        DesignCost(point, names[point], len(groups[point]), mean[0], mean[1], point in best)
        for point, mean in means.items()
    ]


def _varying(rows: Mapping[int, Mapping[str, Any]]) -> dict[int, str]:
    """The parameters in which the design points differ."""
    full = {p: {**json.loads(r["parameters"]), "machine": r["machine"]} for p, r in rows.items()}
    keys = list(dict.fromkeys(key for values in full.values() for key in values))
    shown = [k for k in keys if len({repr(values.get(k)) for values in full.values()}) > 1]
    return {
        p: " ".join(f"{k}={values.get(k)}" for k in shown) or "all" for p, values in full.items()
    }


def _check_number(table: pa.Table, metric: str) -> None:
    kind = table.schema.field(metric).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise SweepError(f"column '{metric}' holds {kind}, expected numbers; choose a metric")
