"""The content of the page of a sweep, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stepsim.errors import ReportError
from stepsim.report.html.run_document import column_facts, plain, table_document

_MOST_RUNS: Final = 60_000
_MOST_FAILURES: Final = 500


@dataclass(frozen=True, slots=True)
class SweepTables:
    """The tables of a sweep.

    Attributes
    ----------
    name : name of the sweep.
    runs : the runs that succeeded: ``point``, the columns of ``traces`` and ``metrics``.
    traces : columns that identify the trace of a run.
    metrics : columns with measurements.
    labels : name of each design point that has runs, by number.
    designs : its values by axis, as they were specified.
    trace_of : number of the trace of each run, the same across design points.
    compare : function from a selection of runs, a mask, to the design points to compare and the
        numbers of the traces that all of them finished.
    failures : ``design``, ``error`` and ``message`` of the other runs.
    missing : runs that are not done yet.
    spec, versions : the specification, and the versions that computed the runs.
    constraints : constraints of a search.
    violated : the constraints that design points violate, by number of the point.
    """

    name: str
    runs: pa.Table
    traces: Sequence[str]
    metrics: Sequence[str]
    labels: Mapping[int, str]
    designs: Mapping[int, Mapping[str, Any]]
    trace_of: npt.NDArray[np.int64]
    compare: Callable[[npt.NDArray[np.bool_]], tuple[Sequence[int], npt.NDArray[np.int64]]]
    failures: pa.Table
    missing: int
    spec: Mapping[str, Any]
    versions: Mapping[str, Any]
    constraints: Sequence[str] = ()
    violated: Mapping[int, Sequence[str]] = field(default_factory=dict)


def sweep_document(tables: SweepTables) -> dict[str, Any]:
    """The content of the page of a sweep.

    If a sweep has too many runs for a page, an even sample of the traces is used.

    Raises
    ------
    ReportError : there are too many design points for a page.
    """
    different, first, of_run = np.unique(tables.trace_of, return_index=True, return_inverse=True)
    traces = _trace_values(tables.runs.select(list(tables.traces)).take(pa.array(first)))
    points = sorted(tables.labels)
    step = -(-len(of_run) // _MOST_RUNS)
    if len(points) > _MOST_RUNS:
        raise ReportError(
            f"sweep {tables.name}: a page holds at most {_MOST_RUNS:,} design points, found "
            f"{len(points):,}; use `stepsim sweep pareto` or `stepsim sweep query`"
        )
    # A selected trace is used for all design points.
    kept = np.flatnonzero(of_run % step == 0)
    runs = tables.runs.take(pa.array(kept))
    place = {point: index for index, point in enumerate(points)}
    metrics = [name for name in tables.metrics if runs[name].null_count < runs.num_rows]
    axes = _axes([tables.designs[point] for point in points])
    return {
        "kind": "sweep",
        "title": tables.name,
        "designs": [tables.labels[point] for point in points],
        "axes": axes,
        "constraints": list(tables.constraints),
        "violated": [list(tables.violated.get(point, ())) for point in points],
        "traces": {name: plain(values) for name, values in traces.items()},
        "trace_count": len(different),
        "trace_step": step,
        "runs": {
            "design": [place[point] for point in runs["point"].to_pylist()],
            "trace": of_run[kept].tolist(),
            **{name: plain(runs[name].to_pylist()) for name in metrics},
        },
        **_comparisons(tables, metrics, place, different, step),
        "metrics": column_facts(runs.select(metrics).schema),
        "counting": sorted(set(runs["counting"].to_pylist())),
        "failures": table_document(tables.failures.slice(0, _MOST_FAILURES)),
        "failed": tables.failures.num_rows,
        "missing": tables.missing,
        "spec": plain(tables.spec),
        "versions": plain(tables.versions),
    }


def _trace_values(traces: pa.Table) -> dict[str, list[Any]]:
    """The properties of each trace, without columns that are null."""
    names = traces.schema.names
    return {n: traces[n].to_pylist() for n in names if traces[n].null_count < traces.num_rows}


def _comparisons(
    tables: SweepTables,
    metrics: Sequence[str],
    place: Mapping[int, int],
    different: npt.NDArray[np.int64],
    step: int,
) -> dict[str, Any]:
    """``measured``: for each metric, the number of the set of runs that have it; ``compared``: the
    design points and traces to compare where one or two of these sets, as ``0 1``, must have it.

    Design points that violate a constraint are not compared.
    """
    feasible = ~np.isin(tables.runs["point"].to_numpy(), list(tables.violated))
    valid = [tables.runs[name].is_valid().to_numpy(zero_copy_only=False) for name in metrics]
    sets: list[npt.NDArray[np.bool_]] = []
    measured = {}
    for name, own in zip(metrics, valid, strict=True):
        same = (i for i, other in enumerate(sets) if np.array_equal(own, other))
        measured[name] = next(same, len(sets))
        if measured[name] == len(sets):
            sets.append(own)
    compared = {}
    for i, one in enumerate(sets):
        for j, other in enumerate(sets[i:], i):
            points, traces = tables.compare(one & other & feasible)
            common = np.searchsorted(different, traces)
            compared[f"{i} {j}" if i < j else f"{i}"] = {
                "designs": [place[point] for point in points],
                "traces": common[common % step == 0].tolist(),
            }
    return {"measured": measured, "compared": compared}


def _axes(designs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The values of each design point by axis, as text or number; only axes with several values."""
    keys = dict.fromkeys(key for design in designs for key in design)
    found = {key: [_shown(design.get(key)) for design in designs] for key in keys}
    return {key: values for key, values in found.items() if len(set(values)) > 1}


def _shown(value: Any) -> str | int | float:
    if value is None:
        return "default"
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return value
    return json.dumps(value, sort_keys=True, default=str)
