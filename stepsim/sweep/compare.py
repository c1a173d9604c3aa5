"""Two sweeps side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from stepsim.errors import SweepError
from stepsim.sweep.labels import TRACE_COLUMNS, label_runs
from stepsim.sweep.measured import read_measured

__all__ = ["Change", "Comparison", "compare"]


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
    runs, points = read_measured(before, [metric], TRACE_COLUMNS)
    others, _ = read_measured(after, [metric], [])
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
