"""Designs against a baseline, within a sweep and between sweeps whose constants differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepsim.errors import ArgError, SweepError
from stepsim.results import BETTER, geometric_mean
from stepsim.sweep.analysis.frame import Failed, Frame, group_order, read_failed, read_frame
from stepsim.sweep.analysis.measured import count_missing
from stepsim.sweep.analysis.objectives import Objective, parse_objective
from stepsim.sweep.analysis.statistics import Statistics, interval, statistics
from stepsim.sweep.spec.filters import find_name, parse_condition
from stepsim.typed import typed


@dataclass(frozen=True, slots=True)
class AgainstBaseline:
    """A design and its baseline over the traces that both finished.

    Attributes
    ----------
    group : values of the columns by which runs are grouped.
    label, baseline : the designs.
    runs : number of traces that both finished.
    before, after : statistics of the metric over the runs of the baseline and of the design.
    ratio : design / baseline: for a mean the geometric mean of the ratios trace by trace, for a
        percentile the ratio of the percentiles; None where a value is 0.
    low, high : 95 % confidence interval of the geometric mean over replicates, which are paired;
        None with fewer than two, and for a percentile.
    worst, least : the worst and the best of the ratios trace by trace: the largest and the
        smallest unless larger values are better.
    """

    group: Mapping[str, Any]
    label: str
    baseline: str
    runs: int
    before: Statistics
    after: Statistics
    ratio: float | None
    worst: float | None
    least: float | None
    low: float | None = None
    high: float | None = None

    @property
    def is_clear(self) -> bool | None:
        """Whether the interval does not hold 1; None without an interval."""
        if self.low is None or self.high is None:
            return None
        return self.low > 1 or self.high < 1


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """All designs against their baselines.

    Attributes
    ----------
    differing : constants that differ between the sweeps, as ``fifo_depth: 4 in A, 8 in B``.
    unpaired : labels of designs for which there is no baseline.
    newly_failing : labels and errors of runs that failed although the baseline finished them.
    lost : labels of baselines without a design in the other sweep, not even a failed one.
    lost_runs : runs that a baseline finished and that its design neither finished nor failed.
    missing : runs of the sweep with the designs that are not done yet.
    """

    objective: Objective
    rows: tuple[AgainstBaseline, ...]
    differing: tuple[str, ...]
    unpaired: tuple[str, ...]
    newly_failing: tuple[tuple[str, str], ...]
    lost: tuple[str, ...]
    lost_runs: int
    missing: int

    @property
    def metric(self) -> str:
        return self.objective.metric

    @typed
    def judged(self, row: AgainstBaseline) -> tuple[float, float]:
        """The baseline and the design by the chosen statistic."""
        statistic = self.objective.statistic
        return row.before.of(statistic), row.after.of(statistic)


def parse_assignments(text: str) -> dict[str, str]:
    """``tile=32,channels=16`` by name.

    Raises
    ------
    ArgError
        A part has no value, or a name is given twice.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (one.strip() for one in part.partition("="))
        if not (name and equals and value) or name in found:
            raise ArgError(
                f"--baseline: expected values such as tile=32,channels=16, found '{part}'"
            )
        found[name] = value
    return found


@typed
def compare_baseline(
    before: str | Path,
    after: str | Path | None = None,
    metric: str = "cycles",
    *,
    baseline: Mapping[str, str] | None = None,
    by: Sequence[str] = (),
    where: str | None = None,
    weights: Mapping[str, float] | None = None,
) -> BaselineComparison:
    """Each design against the baseline with the same values on all other axes, trace by trace.

    Parameters
    ----------
    before : folder with the baselines.
    after : folder with the designs, ``before`` if absent. Values that are constant in each of the
        sweeps may differ; those that do are reported.
    baseline : values of axes by name, as text; empty to pair designs by their axes alone.
    by : columns by which runs are grouped, such as layer and step.
    where, weights : as in :func:`design_costs`.

    Raises
    ------
    SweepError
        There is no such sweep, no baseline has these values, several fit one design, or nothing is
        in common.
    ArgError
        A name is wrong.
    """
    judged = parse_objective(metric)
    designs = before if after is None else after
    first = read_frame(before)
    second = first if after is None else read_frame(after)
    whole = second
    if where is not None:
        first, second = first.where(where), second.where(where)
    chosen = _chosen(first, baseline or {})
    fixed = {find_name(n, [*first.varying, *first.constants], "--baseline") for n in baseline or {}}
    names = dict.fromkeys([*first.varying, *second.varying])
    paired = [name for name in names if name not in fixed and _is_shared(name, first, second)]
    index: dict[str, list[int]] = {}
    for point in chosen:
        index.setdefault(_key(first.designs[point], paired), []).append(point)
    pairs: list[tuple[int, int]] = []
    unpaired = []
    for point in second.designs:
        if after is None and point in chosen:
            continue
        found = index.get(_key(second.designs[point], paired), [])
        if len(found) > 1:
            texts = ", ".join(f"'{first.labels[one]}'" for one in found[:3])
            raise SweepError(
                f"{before}: {len(found)} designs match as the baseline of '{second.labels[point]}' "
                f"({texts}), expected one; give more values with --baseline"
            )
        if found:
            pairs.append((found[0], point))
        else:
            unpaired.append(second.labels[point])
    if not pairs:
        raise SweepError(
            f"{before}: no design has a baseline with the same "
            f"{', '.join(paired) or 'values'}; give other values with --baseline"
        )
    rows = [row for pair in pairs for row in _rows(first, second, pair, judged, by, weights)]
    if not rows:
        raise SweepError(f"{before} and {after}: the designs have no trace in common")
    newly_failing = _newly_failing(whole, first, index, paired, where)
    failed: dict[str, list[Failed]] = {}
    for run in read_failed(designs):
        failed.setdefault(_key(run.values, paired), []).append(run)
    there = {_key(values, paired) for values in whole.designs.values()} | failed.keys()
    gone = [first.labels[p] for key, points in index.items() if key not in there for p in points]
    order = sorted(rows, key=lambda row: group_order(row.group.values()))
    return BaselineComparison(
        objective=judged,
        rows=tuple(order),
        differing=tuple(_differing(first, second)),
        unpaired=tuple(unpaired),
        newly_failing=newly_failing,
        lost=tuple(gone),
        lost_runs=sum(
            not any(run.is_on([trace]) for run in failed.get(_key(first.designs[base], paired), ()))
            for base, point in pairs
            for trace in first.runs[base].keys() - whole.runs[point].keys()
        ),
        missing=count_missing(designs),
    )


def _chosen(frame: Frame, baseline: Mapping[str, str]) -> list[int]:
    every = dict.fromkeys(name for values in frame.designs.values() for name in values)
    wanted = {find_name(name, every, "--baseline"): text for name, text in baseline.items()}
    found = [
        point
        for point, values in frame.designs.items()
        if all(_text(values.get(name)) == text for name, text in wanted.items())
    ]
    if not found:
        there = {
            name: sorted({_text(values.get(name)) for values in frame.designs.values()})
            for name in wanted
        }
        raise SweepError(
            f"{frame.folder}: no design has {', '.join(f'{k}={v}' for k, v in wanted.items())}; "
            + "; ".join(
                f"the values found are {name} = {', '.join(texts)}" for name, texts in there.items()
            )
        )
    return found


def _rows(
    first: Frame,
    second: Frame,
    pair: tuple[int, int],
    judged: Objective,
    by: Sequence[str],
    weights: Mapping[str, float] | None,
) -> list[AgainstBaseline]:
    metric = judged.metric
    worst, least = (min, max) if BETTER.get(metric) == "larger" else (max, min)
    base, point = pair
    own = second.of({point: second.runs[point]})
    found = []
    for group, part in own.grouped(by) if by else [((), own)]:
        traces = [key for key in part.runs[point] if key in first.runs[base]]
        if not traces:
            continue
        a = [first.value(base, key, metric, weights) for key in traces]
        b = [second.value(point, key, metric, weights) for key in traces]
        ratios = [y / x for x, y in zip(a, b, strict=True) if x > 0 and y > 0]
        whole = len(ratios) == len(traces)
        before, after = statistics(a), statistics(b)
        low: float | None = None
        high: float | None = None
        if whole and judged.statistic == "mean":
            logs = [math.log(one) for one in ratios]
            low, high = interval(logs, [first.runs[base][key]["replicate"] for key in traces])
        found.append(
            AgainstBaseline(
                dict(zip(by, group, strict=True)),
                second.labels[point],
                first.labels[base],
                len(traces),
                before,
                after,
                _ratio(judged, before, after, ratios) if whole else None,
                worst(ratios) if whole else None,
                least(ratios) if whole else None,
                None if low is None else math.exp(low),
                None if high is None else math.exp(high),
            )
        )
    return found


def _ratio(
    judged: Objective, before: Statistics, after: Statistics, ratios: Sequence[float]
) -> float:
    if judged.statistic == "mean":
        return geometric_mean(ratios)
    return after.of(judged.statistic) / before.of(judged.statistic)


def _newly_failing(
    whole: Frame,
    first: Frame,
    index: Mapping[str, Sequence[int]],
    paired: Sequence[str],
    where: str | None,
) -> tuple[tuple[str, str], ...]:
    """Runs that failed although their baseline finished the trace."""
    found = []
    condition = None if where is None else parse_condition(where).resolved(whole.kinds())
    for run in read_failed(whole.folder):
        # A failed run has no metrics, so conditions on them cannot be evaluated.
        if (
            condition is not None
            and run.values.keys() >= set(condition.names)
            and not condition.holds(run.values)
        ):
            continue
        bases = index.get(_key(run.values, paired), ())
        if any(run.is_on(first.runs[base]) for base in bases):
            found.append((run.label, run.error))
    return tuple(found)


def _is_shared(name: str, first: Frame, second: Frame) -> bool:
    """Whether designs are paired by a name; constants, which may differ, do not pair them."""
    return name in first.varying or (name in second.varying and name in first.axes)


def _differing(first: Frame, second: Frame) -> list[str]:
    a, b = first.constants, second.constants
    return [
        f"{name}: {_text(a[name])} in A, {_text(b[name])} in B"
        for name in a
        if name in b and repr(a[name]) != repr(b[name])
    ]


def _key(values: Mapping[str, Any], names: Sequence[str]) -> str:
    return repr([repr(values.get(name)) for name in names])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)
