"""Statistics of a metric over several runs: mean and percentiles."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from stepsim.errors import ArgError
from stepsim.shown import shown
from stepsim.typed import typed

Statistic = Literal["mean", "p50", "p95", "p99"]

STATISTICS: Final[tuple[Statistic, ...]] = get_args(Statistic)
"""Names of the statistics."""


class Statistics(NamedTuple):
    """Mean and percentiles, in the unit of the metric.

    A percentile between two runs is interpolated between them, as NumPy and DuckDB's
    ``quantile_cont`` do.
    """

    mean: float
    p50: float
    p95: float
    p99: float

    @typed
    def of(self, statistic: Statistic) -> float:
        """A statistic by name; ArgError when there is none."""
        if statistic not in self._fields:
            raise ArgError(
                f"Statistics.of: statistic must be one of {', '.join(self._fields)}, found "
                f"{shown(statistic)}"
            )
        found: float = getattr(self, statistic)
        return found


def statistics(values: Iterable[float] | npt.NDArray[np.generic]) -> Statistics:
    """The statistics of one or more values."""
    every = np.asarray(values if isinstance(values, np.ndarray) else list(values), dtype=np.float64)
    p50, p95, p99 = np.percentile(every, [50, 95, 99]).tolist()
    # Exactly rounded, so that the order of the runs does not matter.
    return Statistics(math.fsum(every.tolist()) / len(every), p50, p95, p99)
