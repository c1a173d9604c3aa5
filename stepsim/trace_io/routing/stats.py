"""How unevenly routing loads the experts of a layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepsim.errors import ArgError
from stepsim.trace_io.routing.table import RoutingTable
from stepsim.typed import typed


@dataclass(frozen=True, eq=False)
class LayerLoad:
    """Load of the experts of one layer. A load is a number of tokens.

    Attributes:
        layer: index of the layer.
        tokens: tokens of all steps.
        counts: the load of each expert, int64 [experts], read-only.
    """

    layer: int
    tokens: int
    counts: npt.NDArray[np.int64]

    @property
    def experts(self) -> int:
        """Experts of the model, idle ones included."""
        return len(self.counts)

    @property
    def k(self) -> int:
        """Experts per token; the loads add up to tokens * k."""
        return int(self.counts.sum()) // self.tokens

    @property
    def idle(self) -> int:
        """Experts that no token chose."""
        return int((self.counts == 0).sum())

    @property
    def active(self) -> int:
        """Experts that at least one token chose."""
        return self.experts - self.idle

    @property
    def max(self) -> int:
        """Highest load."""
        return int(self.counts.max())

    @property
    def mean(self) -> float:
        """Mean load over all experts, tokens * k / experts."""
        return float(self.counts.mean())

    @property
    def std(self) -> float:
        """Population standard deviation of the load over all experts."""
        return float(self.counts.std())

    @property
    def imbalance(self) -> float:
        """max / mean; 1 is balanced, experts / k the most that routing can reach."""
        return self.max / self.mean

    @property
    def cv(self) -> float:
        """Coefficient of variation, std / mean."""
        return self.std / self.mean

    @typed
    def tiles(self, tile: int) -> int:
        """Tiles of ``tile`` token rows that all experts need: sum of ceil(load / tile).

        Raises:
            ArgError: ``tile`` is not positive.
        """
        if tile < 1:
            raise ArgError(f"tiles: tile is {tile} rows, expected at least 1")
        return int((-(-self.counts // tile)).sum())


@typed
def routing_statistics(table: RoutingTable, experts: int) -> LayerLoad:
    """The load that ``table`` puts on a model with ``experts`` experts.

    Raises:
        TraceError: the table holds an id that is not below ``experts``.
    """
    counts = table.counts(experts)
    counts.flags.writeable = False
    return LayerLoad(table.layer, table.tokens, counts)
