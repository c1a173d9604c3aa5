"""The design points of a sweep by two or three metrics, over the same traces for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stepsim.errors import ArgError, SweepError
from stepsim.results.columns import MEASURES
from stepsim.sweep.analysis.constraints import Constraints
from stepsim.sweep.analysis.frame import Frame, read_frame
from stepsim.sweep.analysis.labels import TRACE_COLUMNS
from stepsim.sweep.analysis.measured import count_missing, read_measured, titled
from stepsim.sweep.analysis.objectives import BETTER, COST, Objective, parse_objective
from stepsim.sweep.analysis.pareto import frontier
from stepsim.sweep.analysis.statistics import Statistics, statistics
from stepsim.sweep.manifest import read_manifest
from stepsim.sweep.problems import listing

__all__ = [
    "CONTENT_COLUMNS",
    "DesignCost",
    "DesignCosts",
    "LeftOut",
    "compared_traces",
    "design_costs",
    "trace_numbers",
]

CONTENT_COLUMNS: Final = ("trace_id", "lengths_id")
"""Columns of the runs that tell traces of one name apart."""

_LEAST_SHARE = 0.5
"""Of the traces that the best design point finished, which are to be left to compare over."""

_Numbers = npt.NDArray[np.int64]


class _Costs(NamedTuple):
    """The metrics of the runs of a design point, by the number of the trace, in its order."""

    traces: _Numbers
    metrics: tuple[npt.NDArray[Any], ...]


@dataclass(frozen=True, slots=True)
class DesignCost:
    """A design point with its metrics over its runs.

    Attributes
    ----------
    runs : runs that the metrics are over, the same traces for all design points.
    x, y, z : what it is judged by: means, or the percentiles that were asked for; ``z`` is None
        where two metrics are compared.
    pareto_optimal : no other design point is at least as good in all and better in one.
    lost : traces of the sweep on which it has no run with all metrics that succeeded.
    statistics : mean and percentiles of each metric, in their order.
    values : axes and other values of the design by full name.
    """

    point: int
    label: str
    runs: int
    x: float
    y: float
    pareto_optimal: bool
    lost: int = 0
    z: float | None = None
    statistics: tuple[Statistics, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A design point that lost too many runs to be compared; ``runs`` of it succeeded."""

    point: int
    label: str
    runs: int
    lost: int


@dataclass(frozen=True, slots=True)
class DesignCosts(Sequence[DesignCost]):
    """The design points that are compared, in their order.

    Attributes
    ----------
    points : what it is a sequence of.
    traces : how many the means are over, which all of the points finished.
    all_traces : of the sweep.
    designs : how many points the sweep has, with those of which no run succeeded.
    left_out : points that lost too many runs to be compared.
    missing : runs that are not there yet, which count as lost.
    countings : how bytes and FLOPs are counted in the runs.
    violating : of the folder of a search, labels of the points that violate its constraints over
        all their runs, with these; they are not compared.
    chosen : a condition chose among the runs.
    """

    points: tuple[DesignCost, ...]
    traces: int
    all_traces: int
    designs: int
    left_out: tuple[LeftOut, ...]
    missing: int = 0
    countings: tuple[str, ...] = ()
    violating: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    chosen: bool = False

    @overload
    def __getitem__(self, index: int) -> DesignCost: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[DesignCost, ...]: ...
    def __getitem__(self, index: int | slice) -> DesignCost | tuple[DesignCost, ...]:
        return self.points[index]

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[DesignCost]:
        return iter(self.points)

    def title(self, metric: str) -> str:
        """``mean onchip_bytes (executed)``: statistic, metric, and how it is counted."""
        objective = _objective(metric)
        return f"{objective.statistic} {titled(objective.metric, self.countings)}"

    @property
    def remark(self) -> str:
        """What the means are over, empty when they are over all traces."""
        if self.traces == self.all_traces:
            return ""
        return (
            f"means over {self.traces:,} of {self.all_traces:,} traces, those that all design "
            f"points shown finished{' and that satisfy the condition' if self.chosen else ''}"
        )


def design_costs(
    folder: str | Path,
    x: str,
    y: str,
    z: str | None = None,
    *,
    where: str | None = None,
    weights: Mapping[str, float] | None = None,
) -> DesignCosts:
    """Costs of every design point over its runs, and which points are Pareto-optimal.

    Only runs that succeeded count, and only on traces that all of the points finished: a mean
    over what is left of a point whose slow runs failed would flatter it. Points with the most
    failures are left out until the others have at least half of the traces in common that the best
    point finished, or are two. Runs that are not there yet count as failed.

    Parameters
    ----------
    x, y, z : metrics, of which the means are compared; of utilizations larger ones are better;
        ``p95_cycles`` is a percentile, and ``cost``
        the sum of weighted columns.
    where : condition on the columns of the runs and the values of the designs, as in
        ``tile in (16, 32) and channels <= 32``.
    weights : of columns by name, for ``cost``; those of the machine's ``costs`` if absent.

    Raises
    ------
    SweepError
        There is no such sweep or metric, no run has it, no trace was finished by two design
        points, or a mean is not above zero.
    ArgError
        The condition or a weight names what is unknown.
    """
    wanted = [x, y] if z is None else [x, y, z]
    objectives = [_objective(text) for text in wanted]
    metrics = [objective.metric for objective in objectives]
    columns = [*TRACE_COLUMNS, *CONTENT_COLUMNS, "model", "counting"]
    plain = [metric for metric in metrics if metric != COST]
    runs, labels = read_measured(folder, plain, columns)
    for text, metric in zip(wanted, metrics, strict=True):
        if metric in MEASURES and metric not in BETTER:
            raise SweepError(
                f"pareto: of {text} neither smaller nor larger is known to be better; choose one "
                f"of {', '.join((*BETTER, COST))}"
            )
    frame = read_frame(folder)
    violating = _violating(folder, frame)
    if violating:
        allowed = [point for point in frame.runs if point not in violating]
        if not allowed:
            raise SweepError(
                f"{folder}: every design point violates a constraint of the search: "
                f"{', '.join(dict.fromkeys(c for own in violating.values() for c in own))}"
            )
        runs = runs.filter(pc.is_in(runs["point"], value_set=pa.array(allowed)))
    if where is not None:
        runs = _only(runs, frame.where(where))
        if not runs.num_rows:
            raise SweepError(
                f"{folder}: no run that satisfies '{where}' is of a design point that satisfies "
                "the constraints of the search"
            )
    if COST in metrics:
        runs = _with_cost(runs, frame, weights)
    costs = _by_trace(runs, metrics)
    manifest = read_manifest(folder)
    # A condition may choose among traces, too: what it leaves out is not lost.
    expected = manifest.traces if where is None else max(len(c.traces) for c in costs.values())
    lost = {point: expected - len(own.traces) for point, own in costs.items()}
    kept, common = _comparable(costs, lost)
    if not len(common):
        raise _nothing_common(folder, costs, lost, labels, kept)
    found: dict[int, tuple[Statistics, ...]] = {}
    judged: dict[int, list[float]] = {}
    for point in kept:
        own = costs[point]
        at = np.searchsorted(own.traces, common)
        found[point] = tuple(statistics(metric[at]) for metric in own.metrics)
        judged[point] = [s.of(o.statistic) for s, o in zip(found[point], objectives, strict=True)]
        for text, objective, value in zip(wanted, objectives, judged[point], strict=True):
            if value <= 0:
                name = f"mean {text}" if objective.statistic == "mean" else text
                raise SweepError(
                    f"{folder}: the {name} of design point '{labels[point]}' is {value:g}, "
                    "expected costs above 0; choose another metric"
                )
    signs = [-1 if BETTER.get(metric) == "larger" else 1 for metric in metrics]
    # Costs are compared by ratios, so of the larger the inverse is the smaller.
    inverted = [
        [value**sign for value, sign in zip(judged[point], signs, strict=True)] for point in kept
    ]
    best = {kept[i] for i in frontier(inverted)}
    return DesignCosts(
        tuple(
            DesignCost(
                point,
                labels[point],
                len(common),
                values[0],
                values[1],
                point in best,
                lost[point],
                values[2] if len(values) > 2 else None,
                found[point],
                {name: frame.designs[point].get(name) for name in frame.varying},
            )
            for point, values in judged.items()
        ),
        len(common),
        expected,
        len(manifest.designs),
        tuple(
            LeftOut(point, labels[point], len(own.traces), lost[point])
            for point, own in costs.items()
            if point not in judged
        ),
        count_missing(folder),
        tuple(sorted(runs["counting"].unique().to_pylist())),
        {labels[point]: own for point, own in violating.items()},
        where is not None,
    )


def _violating(folder: str | Path, frame: Frame) -> dict[int, tuple[str, ...]]:
    """The constraints of a search that design points violate; none of a sweep."""
    search = read_manifest(folder).spec.get("search", {})
    texts = search.get("constraints", [])
    if not texts:
        return {}
    kinds = {name: kind for name, kind in frame.kinds().items() if name not in TRACE_COLUMNS}
    constraints = Constraints(texts, kinds, MEASURES, search.get("cost") or None)
    found = {
        point: constraints.violated(frame.designs[point], list(own.values()))
        for point, own in frame.runs.items()
    }
    return {point: own for point, own in found.items() if own}


def _objective(text: str) -> Objective:
    """A metric of the measures, or any column of numbers by its mean."""
    try:
        return parse_objective(text)
    except ArgError:
        return Objective(text, "mean")


def _only(runs: pa.Table, kept: Frame) -> pa.Table:
    keys = [row["run"] for own in kept.runs.values() for row in own.values()]
    return runs.filter(pc.is_in(runs["run"], value_set=pa.array(keys, pa.string())))


def _with_cost(runs: pa.Table, frame: Frame, weights: Mapping[str, float] | None) -> pa.Table:
    by_run = {
        row["run"]: frame.cost(point, row, weights)
        for point, own in frame.runs.items()
        for row in own.values()
    }
    found = [by_run[run] for run in runs["run"].to_pylist()]
    return runs.append_column(COST, pa.array(found, pa.float64()))


def _by_trace(runs: pa.Table, metrics: Sequence[str]) -> dict[int, _Costs]:
    """The costs of every design point; what has the same number is the same trace for all."""
    numbers = trace_numbers(runs)
    points = runs["point"].to_numpy()
    order = np.lexsort((numbers, points))
    points = points[order]
    columns = numbers[order], *(runs[metric].to_numpy()[order] for metric in metrics)
    found, begins = np.unique(points, return_index=True)
    parts = zip(*(np.split(column, begins[1:]) for column in columns), strict=True)
    return {int(p): _Costs(own, tuple(of)) for p, (own, *of) in zip(found, parts, strict=True)}


def trace_numbers(runs: pa.Table) -> _Numbers:
    """A number for each run, the same for runs of different design points on the same trace."""
    if not runs.num_rows:
        return np.zeros(0, dtype=np.int64)
    # Models have routings of their own, which go together by layer, step and window.
    content = CONTENT_COLUMNS if len(runs["model"].unique()) == 1 else ()
    traces = _numbered([runs[name] for name in (*TRACE_COLUMNS, *content)])
    points = runs["point"].to_numpy()
    # The order of equal ones stays.
    order = np.lexsort((traces, points))
    points, traces = points[order], traces[order]
    changes = (points[1:] != points[:-1]) | (traces[1:] != traces[:-1])
    first = np.flatnonzero(np.concatenate([[True], changes]))
    # Copies of a trace under one name are told apart by their number.
    copies = np.diff(first, append=len(points))
    numbers = np.empty(len(points), dtype=np.int64)
    numbers[order] = traces * int(copies.max()) + np.arange(len(points)) - np.repeat(first, copies)
    return numbers


def compared_traces(
    points: _Numbers, traces: _Numbers, expected: int
) -> tuple[list[int], _Numbers]:
    """Which design points are compared and over which traces, as in :func:`design_costs`.

    Parameters
    ----------
    points, traces : of each run that succeeded and has the metrics, as `trace_numbers` gives them.
    expected : traces of the sweep.

    Returns
    -------
    The numbers of the points, and those of the traces that all of them finished, maybe none.
    """
    order = np.lexsort((traces, points))
    found, begins = np.unique(points[order], return_index=True)
    parts = np.split(traces[order], begins[1:])
    costs = {int(point): _Costs(own, ()) for point, own in zip(found, parts, strict=True)}
    if not costs:
        return [], np.zeros(0, dtype=np.int64)
    return _comparable(costs, {point: expected - len(own.traces) for point, own in costs.items()})


def _numbered(columns: Sequence[pa.ChunkedArray]) -> _Numbers:
    """A number for each row, the same for those that are the same in all columns."""
    numbers = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        encoded = column.dictionary_encode().unify_dictionaries()
        codes = [pc.fill_null(chunk.indices, -1).to_numpy() for chunk in encoded.chunks]
        own = np.concatenate(codes).astype(np.int64)
        own -= own.min()
        if own.any():
            numbers = np.unique(numbers * (own.max() + 1) + own, return_inverse=True)[1]
    return numbers


def _comparable(costs: Mapping[int, _Costs], lost: Mapping[int, int]) -> tuple[list[int], _Numbers]:
    """Which design points are compared, and over which traces."""
    if len(costs) == 1:
        ((point, own),) = costs.items()
        return [point], own.traces
    most = max(len(own.traces) for own in costs.values())
    best: tuple[list[int], _Numbers] | None = None
    kept: list[int] = []
    common = np.zeros(0, dtype=np.int64)
    # From the fewest failures to the most; those with as many stay or go together.
    for bound in sorted(set(lost.values())):
        for point in (point for point in costs if lost[point] == bound):
            own = costs[point]
            common = np.intersect1d(common, own.traces, assume_unique=True) if kept else own.traces
            kept.append(point)
        if len(kept) > 1 and (best is None or len(common) >= _LEAST_SHARE * most):
            best = sorted(kept), common
    assert best is not None  # of several points all make the last
    return best


def _nothing_common(
    folder: str | Path,
    costs: Mapping[int, _Costs],
    lost: Mapping[int, int],
    labels: Mapping[int, str],
    kept: Sequence[int],
) -> SweepError:
    finished = [f"'{labels[point]}' finished {len(costs[point].traces):,}" for point in kept]
    every = len(costs[kept[0]].traces) + lost[kept[0]]
    return SweepError(
        f"{folder}: the design points with the fewest failures finished no trace in common, so "
        f"their means cannot be compared; of {every:,} traces"
        f"{listing(finished)}\nfix what makes runs fail, or examine single runs with query"
    )
