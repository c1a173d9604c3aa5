"""The successful runs of a sweep, with chosen metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepsim.errors import SweepError
from stepsim.results import COUNTED, ENERGY, EVERY_MEASURE, MEASURES, OF_LIMITS, SERVING, SPREAD
from stepsim.sweep.analysis.labels import POINT_COLUMNS, label_points
from stepsim.sweep.analysis.tables import read_designs, read_failures, read_runs
from stepsim.sweep.storage.manifest import read_manifest

_CAUSES = {
    ENERGY: "the machine has a table of energies",
    SPREAD: "the sweep has the key ensemble",
    SERVING: "they are services",
}
"""Measures that not all sweeps have, and what makes a sweep have them."""

_OF_SOME = {name for names in _CAUSES for name in names}


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


def read_measured(
    folder: str | Path, metrics: Sequence[str], columns: Sequence[str]
) -> tuple[pa.Table, dict[int, str]]:
    """Runs that succeeded and have the metrics; labels of all design points that have runs.

    Raises
    ------
    SweepError
        There is no such sweep, a metric is unknown or not a number, or no successful run has it.
    """
    table, labels = read_succeeded(folder, metrics, columns)
    if not table.num_rows:
        raise SweepError(f"{folder}: {why_none_succeeded(folder)}")
    return with_metrics(folder, table, metrics), labels


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
    known, is_service = manifest.parameters, manifest.spec.get("service") is not None
    if is_service and (lost := [name for name in metrics if name in MEASURES]):
        raise SweepError(
            f"{folder}: services have no {', '.join(lost)}; choose other metrics, such as "
            "tpot_p99_ms or goodput"
        )
    if lost := [name for name in metrics if name in _OF_SOME and name not in known]:
        cause = next(why for names, why in _CAUSES.items() if {*names} & {*lost})
        if is_service:
            cause = "they are among the metrics of the sweep"
        raise SweepError(f"{folder}: the runs have no {', '.join(lost)}; they have it if {cause}")
    wanted = dict.fromkeys(["run", "status", *POINT_COLUMNS, *columns, *metrics])
    every = read_runs(folder, [*wanted], ok_only=False)
    for metric in metrics:
        kind = every.schema.field(metric).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise SweepError(f"column '{metric}' holds {kind}, expected numbers; choose a metric")
    # The texts of the design points, most of the data that was read, are not copied.
    rows = every.select([*dict.fromkeys(["run", "status", "point", *columns, *metrics])])
    return rows.filter(pc.equal(rows["status"], "ok")), _point_labels(folder, every)


def with_metrics(folder: str | Path, runs: pa.Table, metrics: Sequence[str]) -> pa.Table:
    """The runs that have all metrics.

    Raises
    ------
    SweepError
        No run has all of them. The message lists those that no run has, or all if there are none
        such.
    """
    measured = runs.filter(reduce(pc.and_, [pc.is_valid(runs[metric]) for metric in metrics]))
    if not measured.num_rows:
        different = dict.fromkeys(metrics)
        absent = [name for name in different if runs[name].null_count == runs.num_rows]
        absent = absent or list(different)
        names = " and ".join(absent)
        advice = why_absent(folder, absent)
        raise SweepError(f"{folder}: none of {runs.num_rows:,} runs has {names}; {advice}")
    return measured


_UNKNOWN_SIZES = (
    "they depend on sizes that only a run decides; the workload states these with Built.symbols"
)
_NO_PEAK = (
    "memories of machines with hbm.model=uncontended have no peak; choose another machine or metric"
)
_UNKNOWN = {
    "milliseconds": "runs have them if the machine states clock_ghz; cycles are always available",
    "edp": "runs have it if the machine states clock_ghz as well as energies",
    "tokens_per_second": "runs have them if the machine states clock_ghz as well as energies, and "
    "the workload has traces or states its tokens with Built.tokens",
    "onchip_bytes": _UNKNOWN_SIZES,
    "fifo_bytes": "they depend on sizes that only a run decides, or a FIFO is unbounded; state "
    "sizes with Built.symbols, and a depth for every FIFO",
    "offchip_bytes": _UNKNOWN_SIZES,
    "flops": _UNKNOWN_SIZES,
    "compute_utilization": _UNKNOWN_SIZES,
    "padded_flops": "the workload states them with Built.padded_flops",
    "bandwidth_utilization": _NO_PEAK,
    **dict.fromkeys(OF_LIMITS, "services have it if they state limits as slo"),
    **dict.fromkeys(
        ("served_cycles", "served_offchip_bytes"), "services have it whose steps are simulated"
    ),
    **dict.fromkeys(
        ("estimate_bias", "estimate_bias_low", "estimate_bias_high"),
        "services have it whose steps are estimated and audited",
    ),
}
"""Why runs that kept a metric do not have it, and what would help."""


def why_absent(folder: str | Path, metrics: Sequence[str]) -> str:
    """Why runs do not have metrics, and how to get them, for a message.

    The sweep did not keep them, or it did, but they are not known for such a program or machine.
    """
    if not set(metrics) <= set(EVERY_MEASURE):
        return f"choose among {', '.join(MEASURES)}"
    kept = read_manifest(folder).spec.get("metrics")
    lost = [] if kept is None else [name for name in metrics if name not in kept]
    reasons = []
    if lost:
        which = "them" if lost == [*metrics] else ", ".join(lost)
        reasons.append(f"add {which} to the key 'metrics' of the sweep")
    for name in metrics:
        if name not in lost and (reason := _UNKNOWN.get(name)) is not None:
            reasons.append(reason if len(metrics) == 1 else f"{name}: {reason}")
    return "; ".join(dict.fromkeys(reasons)) or "choose another metric"


def count_missing(folder: str | Path) -> int:
    """The number of runs of a sweep that have neither succeeded nor failed yet.

    Raises
    ------
    SweepError
        The folder holds no sweep, or a file is damaged.
    """
    known: int = read_runs(folder, ["run"]).num_rows + read_failures(folder, ["run"]).num_rows
    return read_manifest(folder).runs - known


def why_none_succeeded(folder: str | Path) -> str:
    """Why no run succeeded, for a message."""
    kinds = Counter(read_failures(folder, ["error"])["error"].to_pylist())
    if not kinds:
        return "no run is finished yet; continue the sweep with --resume"
    found = ", ".join(f"{count:,} x {kind}" for kind, count in sorted(kinds.items()))
    return (
        f"no run succeeded ({found}), so there is nothing to compare; the reasons are in its "
        "table failures"
    )


def _point_labels(folder: str | Path, runs: pa.Table) -> dict[int, str]:
    _, first = np.unique(runs["point"].to_numpy(), return_index=True)
    about = runs.select(POINT_COLUMNS)
    # Selecting the few rows by number would copy all of them.
    found = [row for index in first for row in about.slice(index, 1).to_pylist()]
    rows = {row["point"]: row for row in found}
    specified = dict.fromkeys(key for design in read_designs(folder).values() for key in design)
    return label_points(folder, rows, list(specified), read_manifest(folder).replicates)
