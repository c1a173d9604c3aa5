"""The design points of a sweep by the means of two metrics, over the same traces for all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stepsim.errors import SweepError
from stepsim.sweep.analysis.labels import TRACE_COLUMNS
from stepsim.sweep.analysis.measured import count_missing, read_measured, titled
from stepsim.sweep.analysis.pareto import frontier
from stepsim.sweep.manifest import read_manifest
from stepsim.sweep.problems import listing

__all__ = ["DesignCost", "DesignCosts", "LeftOut", "design_costs"]

_CONTENT = ("trace_id", "lengths_id")

_LEAST_SHARE = 0.5
"""Of the traces that the best design point finished, which are to be left to compare over."""

_Numbers = npt.NDArray[np.int64]


class _Costs(NamedTuple):
    """Both metrics of the runs of a design point, by the number of the trace, in its order."""

    traces: _Numbers
    x: npt.NDArray[Any]
    y: npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class DesignCost:
    """A design point with the mean of two metrics.

    Attributes
    ----------
    runs : runs that the means are over, the same traces for all design points.
    pareto_optimal : no other design point is at least as good in both and better in one.
    lost : traces of the sweep on which it has no run with both metrics that succeeded.
    """

    point: int
    label: str
    runs: int
    x: float
    y: float
    pareto_optimal: bool
    lost: int = 0


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
    """

    points: tuple[DesignCost, ...]
    traces: int
    all_traces: int
    designs: int
    left_out: tuple[LeftOut, ...]
    missing: int = 0
    countings: tuple[str, ...] = ()

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
        """A metric, with how it is counted where that matters."""
        return titled(metric, self.countings)

    @property
    def remark(self) -> str:
        """What the means are over, empty when they are over all traces."""
        if self.traces == self.all_traces:
            return ""
        return (
            f"means over {self.traces:,} of {self.all_traces:,} traces, those that all design "
            "points shown finished"
        )


def design_costs(folder: str | Path, x: str, y: str) -> DesignCosts:
    """Mean costs of every design point, and which points are Pareto-optimal.

    Only runs that succeeded count, and only on traces that all of the points finished: a mean
    over what is left of a point whose slow runs failed would flatter it. Points with the most
    failures are left out until the others have at least half of the traces in common that the best
    point finished, or are two. Runs that are not there yet count as failed.

    Raises
    ------
    SweepError
        There is no such sweep or metric, no run has it, no trace was finished by two design
        points, or a mean is not above zero.
    """
    runs, labels = read_measured(folder, [x, y], [*TRACE_COLUMNS, *_CONTENT, "model", "counting"])
    costs = _by_trace(runs, x, y)
    manifest = read_manifest(folder)
    expected = manifest.traces
    lost = {point: expected - len(own.traces) for point, own in costs.items()}
    kept, common = _comparable(folder, costs, lost, labels)
    means: dict[int, tuple[float, float]] = {}
    for point in kept:
        own = costs[point]
        at = np.searchsorted(own.traces, common)
        mean_x, mean_y = (math.fsum(metric[at].tolist()) / len(at) for metric in (own.x, own.y))
        if min(mean_x, mean_y) <= 0:
            raise SweepError(
                f"{folder}: the mean {x if mean_x <= 0 else y} of design point '{labels[point]}' "
                f"is {min(mean_x, mean_y):g}, expected costs above 0; choose another metric"
            )
        means[point] = mean_x, mean_y
    best = {kept[i] for i in frontier(list(means.values()))}
    return DesignCosts(
        tuple(
            DesignCost(point, labels[point], len(common), *mean, point in best, lost[point])
            for point, mean in means.items()
        ),
        len(common),
        expected,
        len(manifest.designs),
        tuple(
            LeftOut(point, labels[point], len(own.traces), lost[point])
            for point, own in costs.items()
            if point not in means
        ),
        count_missing(folder),
        tuple(sorted(runs["counting"].unique().to_pylist())),
    )


def _by_trace(runs: pa.Table, x: str, y: str) -> dict[int, _Costs]:
    """The costs of every design point; what has the same number is the same trace for all."""
    # Models have routings of their own, which go together by layer, step and window.
    content = _CONTENT if len(runs["model"].unique()) == 1 else ()
    traces = _numbered([runs[name] for name in (*TRACE_COLUMNS, *content)])
    points = runs["point"].to_numpy()
    # The order of equal ones stays.
    order = np.lexsort((traces, points))
    points, traces = points[order], traces[order]
    changes = (points[1:] != points[:-1]) | (traces[1:] != traces[:-1])
    first = np.flatnonzero(np.concatenate([[True], changes]))
    # Copies of a trace under one name are told apart by their number.
    copies = np.diff(first, append=len(points))
    traces = traces * int(copies.max()) + np.arange(len(points)) - np.repeat(first, copies)
    columns = traces, runs[x].to_numpy()[order], runs[y].to_numpy()[order]
    found, begins = np.unique(points, return_index=True)
    parts = zip(*(np.split(column, begins[1:]) for column in columns), strict=True)
    return {int(point): _Costs(*part) for point, part in zip(found, parts, strict=True)}


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


def _comparable(
    folder: str | Path,
    costs: Mapping[int, _Costs],
    lost: Mapping[int, int],
    labels: Mapping[int, str],
) -> tuple[list[int], _Numbers]:
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
    kept, common = best
    if not len(common):
        finished = [f"'{labels[point]}' finished {len(costs[point].traces):,}" for point in kept]
        every = len(costs[kept[0]].traces) + lost[kept[0]]
        raise SweepError(
            f"{folder}: the design points with the fewest failures finished no trace in common, so "
            f"their means cannot be compared; of {every:,} traces"
            f"{listing(finished)}\nfix what makes runs fail, or examine single runs with query"
        )
    return kept, common
