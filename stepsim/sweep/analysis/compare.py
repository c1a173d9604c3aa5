"""Two sweeps side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from stepsim.errors import SweepError
from stepsim.results import (
    BETTER,
    COUNTED,
    OF_CYCLES,
    Direction,
    geometric_mean,
    ratio,
    within_spread,
    worsening,
)
from stepsim.sweep.analysis.absence import why_none_succeeded
from stepsim.sweep.analysis.differences import key_differences
from stepsim.sweep.analysis.labels import TRACE_COLUMNS, label_runs
from stepsim.sweep.analysis.measured import (
    count_missing,
    read_succeeded,
    titled,
    with_metrics,
)
from stepsim.sweep.analysis.tables import read_failures
from stepsim.sweep.spec.problems import listing
from stepsim.sweep.storage.manifest import read_manifest
from stepsim.typed import typed

_CODE = "workload_digest"
_RANGE = ("cycles_p5", "cycles_p95")

_ROWS = pa.schema(
    [
        ("run", pa.string()),
        ("label", pa.string()),
        ("before", pa.float64()),
        ("after", pa.float64()),
        ("ratio", pa.float64()),
        ("noise", pa.bool_()),
        ("error", pa.string()),
        ("message", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Change:
    """One run in both sweeps; ``ratio`` is ``after / before``, None when before is 0.

    ``noise`` states whether the difference in cycles is within the spread of both ensembles;
    None without ensembles, and for other metrics.
    """

    run: str
    label: str
    before: float
    after: float
    ratio: float | None
    noise: bool | None = None


@dataclass(frozen=True, slots=True)
class NewFailure:
    """A run that succeeded before and fails after; ``error`` is its error's type, or its status."""

    run: str
    label: str
    before: float
    error: str
    message: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs by key.

    Attributes
    ----------
    better : which values of the metric are better, None if unknown.
    new_failures : runs that succeeded before and fail after.
    changes : runs that succeeded in both, those that became worst first; where it is not
        known what is worse, those that changed most.
    recovered : runs that failed before and succeed after.
    failing_in_both : number of runs that fail in both.
    only_before, only_after : number of runs that only one sweep has.
    missing_before, missing_after : number of runs that are not done yet.
    countings_before, countings_after : how bytes and FLOPs are counted in the runs that
        succeeded.
    codes_before, codes_after : SHA-256 of the code of the workload, for those of users and plugins.
    mean_ratio : geometric mean of the ratios, None if there are none and where a value is 0.
    """

    metric: str
    better: Direction | None
    new_failures: tuple[NewFailure, ...]
    changes: tuple[Change, ...]
    recovered: int
    failing_in_both: int
    only_before: int
    only_after: int
    missing_before: int
    missing_after: int
    countings_before: tuple[str, ...]
    countings_after: tuple[str, ...]
    codes_before: tuple[str, ...]
    codes_after: tuple[str, ...]
    mean_ratio: float | None

    @property
    def title(self) -> str:
        """The metric, with how it is counted where that matters."""
        countings = sorted({*self.countings_before, *self.countings_after})
        return titled(self.metric, countings)

    @property
    def remark(self) -> str:
        """Reasons for differences that are not part of the keys of runs, one line each."""
        texts = []
        if self.codes_before != self.codes_after:
            texts.append(
                "the code of the workload differs between A and B, which is not part of the key of "
                "a run"
            )
        before, after = self.countings_before, self.countings_after
        if self.metric in COUNTED and self.changes and before != after:
            texts.append(
                f"{self.metric} is counted as {' and as '.join(before)} in A and as "
                f"{' and as '.join(after)} in B, so the ratios compare the countings too; run both "
                "sweeps with the same 'counting'"
            )
        return "\n".join(texts)

    @typed
    def to_arrow(self) -> pa.Table:
        """One row per new failure, which has no ``after``, and per run that succeeded in both."""
        rows = [asdict(f) for f in self.new_failures] + [asdict(c) for c in self.changes]
        return pa.Table.from_pylist(rows, schema=_ROWS)


@typed
def compare(before: str | Path, after: str | Path, metric: str = "cycles") -> Comparison:
    """Ratios of a metric, run by run: same workload, parameters, machine, limits and trace.

    Raises
    ------
    SweepError
        A folder holds no sweep or no finished run, the metric is unknown or not a number, no run
        of a sweep has it or succeeded, or the sweeps have no run in common; the message lists
        what differs.
    """
    first, second = _read(before, metric), _read(after, metric)
    for folder, side in ((before, first), (after, second)):
        if not side.known:
            raise SweepError(f"{folder}: {why_none_succeeded(folder)}")
    if not first.values and not second.values:
        raise SweepError(f"{before}: {why_none_succeeded(before)}")
    if not first.known & second.known:
        differing = listing(key_differences(before, after)) or " how the same values are combined"
        raise SweepError(
            f"{before} (A) and {after} (B) have no run in common; compare sweeps over the same "
            f"workload, parameters, machine, limits and traces, or pair their designs by axes with "
            f"--by, as in --by layer,step; what differs:{differing}"
        )
    better = BETTER.get(metric)
    changes = [
        Change(run, first.labels[run], a, b, ratio(a, b), _noise(run, first, second))
        for run, a in first.values.items()
        if (b := second.values.get(run)) is not None
    ]
    changes.sort(key=lambda one: -worsening(one.before, one.after, better))
    ratios = [change.ratio for change in changes if change.ratio]
    return Comparison(
        metric=metric,
        better=better,
        new_failures=tuple(
            NewFailure(run, first.labels[run], value, *second.failures[run])
            for run, value in first.values.items()
            if run in second.failures
        ),
        changes=tuple(changes),
        recovered=len(first.failures.keys() & second.values.keys()),
        failing_in_both=len(first.failures.keys() & second.failures.keys()),
        only_before=len(first.known - second.known),
        only_after=len(second.known - first.known),
        missing_before=count_missing(before),
        missing_after=count_missing(after),
        countings_before=first.countings,
        countings_after=second.countings,
        codes_before=first.codes,
        codes_after=second.codes,
        mean_ratio=geometric_mean(ratios) if ratios and len(ratios) == len(changes) else None,
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """A sweep by run: the metric of the runs that succeeded, the errors of the others."""

    values: Mapping[str, float]
    labels: Mapping[str, str]
    failures: Mapping[str, tuple[str, str]]
    countings: tuple[str, ...]
    codes: tuple[str, ...]
    spreads: Mapping[str, Mapping[str, float | None]]

    @property
    def known(self) -> set[str]:
        return self.values.keys() | self.failures.keys()


def _read(folder: str | Path, metric: str) -> _Side:
    spread = metric in OF_CYCLES and set(_RANGE) <= read_manifest(folder).parameters.keys()
    others = [*TRACE_COLUMNS, "counting", _CODE, *(_RANGE if spread else ())]
    runs, points = read_succeeded(folder, [metric], others)
    codes = set(runs[_CODE].to_pylist())
    if runs.num_rows:
        runs = with_metrics(folder, runs, [metric])
    values = zip(*(runs[name].to_pylist() for name in ("run", metric)), strict=True)
    labels = label_runs(runs.select(["run", "point", *TRACE_COLUMNS]).to_pylist(), points)
    failures = read_failures(folder, ["run", "error", "message", _CODE]).to_pylist()
    codes |= {row[_CODE] for row in failures}
    return _Side(
        {run: float(value) for run, value in values},
        labels,
        {row["run"]: (row["error"], row["message"]) for row in failures},
        tuple(sorted(runs["counting"].unique().to_pylist())),
        tuple(sorted(codes - {None})),
        {row["run"]: row for row in runs.to_pylist()} if spread else {},
    )


def _noise(run: str, before: _Side, after: _Side) -> bool | None:
    return within_spread(before.spreads.get(run, {}), after.spreads.get(run, {}))
