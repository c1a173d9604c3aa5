"""Runs on the same trace, and the traces over which design points are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stepsim.sweep.analysis.labels import TRACE_COLUMNS

CONTENT_COLUMNS: Final = ("trace_id", "lengths_id")
"""Columns of the runs that distinguish traces of one name."""

_LEAST_SHARE = 0.5
"""Least fraction of the traces of the best design point that must remain for comparison."""

Numbers = npt.NDArray[np.int64]


class TraceCosts(NamedTuple):
    """The metrics of the runs of a design point, by the number of the trace, in its order."""

    traces: Numbers
    metrics: tuple[npt.NDArray[Any], ...]


def trace_numbers(runs: pa.Table) -> Numbers:
    """A number for each run, the same for runs of different design points on the same trace."""
    if not runs.num_rows:
        return np.zeros(0, dtype=np.int64)
    # Each model has its own routings; those of the same layer, step and window are matched.
    content = CONTENT_COLUMNS if len(runs["model"].unique()) == 1 else ()
    traces = _numbered([runs[name] for name in (*TRACE_COLUMNS, *content)])
    points = runs["point"].to_numpy()
    # Equal traces keep their order.
    order = np.lexsort((traces, points))
    points, traces = points[order], traces[order]
    changes = (points[1:] != points[:-1]) | (traces[1:] != traces[:-1])
    first = np.flatnonzero(np.concatenate([[True], changes]))
    # Copies of a trace under one name are distinguished by their number.
    copies = np.diff(first, append=len(points))
    numbers = np.empty(len(points), dtype=np.int64)
    numbers[order] = traces * int(copies.max()) + np.arange(len(points)) - np.repeat(first, copies)
    return numbers


def compared_traces(points: Numbers, traces: Numbers, expected: int) -> tuple[list[int], Numbers]:
    """Choose the design points to compare, and the traces to compare them over.

    Parameters
    ----------
    points, traces : of each run that succeeded and has the metrics, see `trace_numbers`.
    expected : number of traces of the sweep.

    Returns
    -------
    The numbers of the points, and those of the traces that all of them finished, possibly none.
    """
    if not len(points):
        return [], np.zeros(0, dtype=np.int64)
    order = np.lexsort((traces, points))
    found, begins = np.unique(points[order], return_index=True)
    parts = np.split(traces[order], begins[1:])
    costs = {int(point): TraceCosts(own, ()) for point, own in zip(found, parts, strict=True)}
    return comparable(costs, {point: expected - len(own.traces) for point, own in costs.items()})


def _numbered(columns: Sequence[pa.ChunkedArray]) -> Numbers:
    """A number for each row; rows that are equal in all columns have the same number."""
    numbers = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        encoded = column.dictionary_encode().unify_dictionaries()
        codes = [pc.fill_null(chunk.indices, -1).to_numpy() for chunk in encoded.chunks]
        own = np.concatenate(codes).astype(np.int64)
        own -= own.min()
        if own.any():
            numbers = np.unique(numbers * (own.max() + 1) + own, return_inverse=True)[1]
    return numbers


def comparable(
    costs: Mapping[int, TraceCosts], lost: Mapping[int, int]
) -> tuple[list[int], Numbers]:
    """Choose the design points to compare, and their common traces."""
    if len(costs) == 1:
        ((point, own),) = costs.items()
        return [point], own.traces
    most = max(len(own.traces) for own in costs.values())
    best: tuple[list[int], Numbers] | None = None
    kept: list[int] = []
    common = np.zeros(0, dtype=np.int64)
    # From the fewest failures to the most; points with equally many stay or go together.
    for bound in sorted(set(lost.values())):
        for point in (point for point in costs if lost[point] == bound):
            own = costs[point]
            common = np.intersect1d(common, own.traces, assume_unique=True) if kept else own.traces
            kept.append(point)
        if len(kept) > 1 and (best is None or len(common) >= _LEAST_SHARE * most):
            best = sorted(kept), common
    assert best is not None  # of several points all make the last
    return best
