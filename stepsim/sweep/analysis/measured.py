"""The successful runs of a sweep, with chosen metrics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepsim.errors import SweepError
from stepsim.results import COUNTED, EVERY_MEASURE, MEASURES, SERVING
from stepsim.sweep.analysis.absence import why_absent
from stepsim.sweep.analysis.labels import POINT_COLUMNS, label_points
from stepsim.sweep.analysis.tables import read_designs, read_failures, read_runs
from stepsim.sweep.planning.optional_measures import BOUND
from stepsim.sweep.storage.manifest import read_manifest


def titled(metric: str, countings: Sequence[str]) -> str:
    """``onchip_bytes (executed)``: a metric with how it is counted, where that matters."""
    return f"{metric} ({', '.join(countings)})" if metric in COUNTED and countings else metric


def usual_measures(folder: str | Path) -> tuple[str, ...]:
    """The measures that runs of every sweep have; those of its services if it has any.

    Raises
    ------
    SweepError
        The folder holds no sweep.
    """
    manifest = read_manifest(folder)
    if manifest.spec.get("service") is None:
        return MEASURES
    return tuple(name for name in SERVING if name in manifest.parameters)


def read_succeeded(
    folder: str | Path, metrics: Sequence[str], columns: Sequence[str]
) -> tuple[pa.Table, dict[int, str]]:
    """Runs that succeeded, possibly none; labels of all design points that have runs.

    Raises
    ------
    SweepError
        There is no such sweep, or a metric is unknown or not a number.
    """
    manifest = read_manifest(folder)
    is_service = manifest.spec.get("service") is not None
    lost = [
        name
        for name in dict.fromkeys(metrics)
        if name in (*EVERY_MEASURE, *BOUND)
        and (is_service if name in MEASURES else name not in manifest.parameters)
    ]
    if lost:
        raise SweepError(
            f"{folder}: the runs have no {' and no '.join(lost)}; {why_absent(folder, lost)}"
        )
    wanted = dict.fromkeys(["run", "status", *POINT_COLUMNS, *columns, *metrics])
    every = read_runs(folder, [*wanted], ok_only=False)
    for metric in metrics:
        kind = every.schema.field(metric).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise SweepError(f"column '{metric}' holds {kind}, expected numbers; choose a metric")
    # The texts of the design points, most of the data that was read, are not copied.
    rows = every.select([*dict.fromkeys(["run", "status", "point", *columns, *metrics])])
    return rows.filter(pc.equal(rows["status"], "ok")), _point_labels(folder, every)


def with_metrics(
    folder: str | Path, runs: pa.Table, metrics: Sequence[str], which: str = ""
) -> pa.Table:
    """The runs that have all metrics; ``which`` says in a message what runs they are.

    Raises
    ------
    SweepError
        No run has all of them. The message lists those that no run has, or all if there are none
        such.
    """
    measured = runs
    for metric in metrics:
        measured = measured.filter(pc.is_valid(measured[metric]))
    if not measured.num_rows:
        different = dict.fromkeys(metrics)
        absent = [name for name in different if runs[name].null_count == runs.num_rows]
        absent = absent or list(different)
        names = " and ".join(absent)
        advice = why_absent(folder, absent, set(runs["run"].to_pylist()))
        raise SweepError(f"{folder}: none of {runs.num_rows:,} runs{which} has {names}; {advice}")
    return measured


def count_missing(folder: str | Path) -> int:
    """The number of runs of a sweep that have neither succeeded nor failed yet.

    Raises
    ------
    SweepError
        The folder holds no sweep, or a file is damaged.
    """
    known: int = read_runs(folder, ["run"]).num_rows + read_failures(folder, ["run"]).num_rows
    return read_manifest(folder).runs - known


def _point_labels(folder: str | Path, runs: pa.Table) -> dict[int, str]:
    _, first = np.unique(runs["point"].to_numpy(), return_index=True)
    about = runs.select(POINT_COLUMNS)
    # Selecting the few rows by number would copy all of them.
    found = [row for index in first for row in about.slice(index, 1).to_pylist()]
    rows = {row["point"]: row for row in found}
    specified = dict.fromkeys(key for design in read_designs(folder).values() for key in design)
    return label_points(folder, rows, list(specified), read_manifest(folder).replicates)
