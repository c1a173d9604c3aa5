"""How unevenly a routing table loads the experts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepsim.errors import ArgError
from stepsim.trace_io.table import RoutingTable

__all__ = ["RoutingStatistics", "routing_statistics"]


@dataclass(frozen=True, eq=False)
class RoutingStatistics:
    """Load of the experts by one routing table. A load is a number of tokens.

    Attributes:
        tokens: tokens in the table.
        k: experts per token; the loads add up to tokens * k.
        experts: experts of the model, idle ones included.
        idle: experts that no token chose.
        max: highest load.
        mean: mean load over all experts, tokens * k / experts.
        std: population standard deviation of the load over all experts.
        std_sample: sample standard deviation (divisor experts - 1); nan for a single expert.
        imbalance: max / mean; 1 is balanced, experts / k the most a table can reach.
        cv: coefficient of variation, std / mean.
        counts: the load of each expert, int64 [experts], read-only.
    """

    tokens: int
    k: int
    experts: int
    idle: int
    max: int
    mean: float
    std: float
    std_sample: float
    imbalance: float
    cv: float
    counts: npt.NDArray[np.int64]

    @property
    def active(self) -> int:
        """Experts that at least one token chose."""
        return self.experts - self.idle

    def tiles(self, tile: int) -> int:
        """Tiles of ``tile`` token rows that all experts need: sum of ceil(load / tile).

        Raises:
            ArgError: ``tile`` is not positive.
        """
        if tile < 1:
            raise ArgError(f"tiles: tile is {tile} rows, expected at least 1")
        return int((-(-self.counts // tile)).sum())


def routing_statistics(table: RoutingTable, experts: int) -> RoutingStatistics:
    """Statistics of the load that ``table`` puts on a model with ``experts`` experts.

    Raises:
        TraceError: the table holds an id that is not below ``experts``.
    """
    counts = table.counts(experts)
    counts.flags.writeable = False
    mean = float(counts.mean())
    std = float(counts.std())
    highest = int(counts.max())
    return RoutingStatistics(
        tokens=table.tokens,
        k=table.k,
        experts=experts,
        idle=int((counts == 0).sum()),
        max=highest,
        mean=mean,
        std=std,
        std_sample=std * math.sqrt(experts / (experts - 1)) if experts > 1 else math.nan,
        imbalance=highest / mean,
        cv=std / mean,
        counts=counts,
    )
