"""Statistics of a metric over several runs: mean and percentiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from stepsim.deferred import deferred
from stepsim.errors import ArgError
from stepsim.shown import shown
from stepsim.typed import typed

special: Any = deferred("scipy.special")

_SHARE: Final = 0.95

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


Ends: TypeAlias = tuple[float, float] | tuple[None, None]
"""Ends of an interval, if there is one."""


def interval(values: Sequence[float], replicates: Sequence[object]) -> Ends:
    """Ends of the 95 % confidence interval of a mean over replicates; None with fewer than two.

    Replicates are independent of each other, and their means are taken as normally distributed: the
    interval is that of Student's t distribution.

    Parameters
    ----------
    values : of runs.
    replicates : the replicate of each run.
    """
    groups: dict[object, list[float]] = {}
    for value, replicate in zip(values, replicates, strict=True):
        groups.setdefault(replicate, []).append(value)
    count = len(groups)
    if count < 2:
        return None, None
    means = np.array([math.fsum(own) / len(own) for own in groups.values()])
    quantile = float(special.stdtrit(count - 1, (1 + _SHARE) / 2))
    half = quantile * float(means.std(ddof=1)) / math.sqrt(count)
    return float(means.mean()) - half, float(means.mean()) + half


def statistics(values: Iterable[float] | npt.NDArray[np.generic]) -> Statistics:
    """The statistics of one or more values."""
    every = np.asarray(values if isinstance(values, np.ndarray) else list(values), dtype=np.float64)
    p50, p95, p99 = np.percentile(every, [50, 95, 99]).tolist()
    # Exactly rounded, so that the order of the runs does not matter.
    return Statistics(math.fsum(every.tolist()) / len(every), p50, p95, p99)
