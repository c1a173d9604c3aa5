"""Weights off chip: every matrix is read once, by several loads that take its tiles in turn.

The MoE layers of the STeP paper read their weights by three loads for each expert, 24 in Mixtral
and 384 in Qwen. A load issues one request of 64 B per cycle, so from 16 loads on the memory, with
its 1024 B per cycle, is the limit and not the loads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepsim.graph import Stream, linear_load, reassemble, selector
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.tensors import weights_of

TILE_SIDE = 32
"""Columns of a tile that has all rows of a matrix at most, and rows of one that has all columns."""


@dataclass(frozen=True)
class Weights:
    """The loads of matrices.

    Attributes
    ----------
    loads : loads of each matrix at most; there is never more than one for each tile.
    types : matrices have the type of weights, scale factors that of activations.
    """

    loads: int
    types: ElementTypes

    def tiles(
        self,
        label: str,
        count: int,
        tile: tuple[int, int],
        *,
        stacked: bool = False,
        after: Stream | None = None,
    ) -> Stream:
        """The tiles of a matrix in their order, ``[count]``.

        Load ``k`` of ``n`` reads tiles ``k``, ``k + n``, ... from the tensor ``<label>.<k>``, where
        they lie side by side, or if ``stacked`` one below the other. With ``after``, a stream of
        one element, they are read when it arrives.
        """
        loads = min(self.loads, count)
        read = []
        for k in range(loads):
            own = len(range(k, count, loads))
            size = (own * tile[0], tile[1]) if stacked else (tile[0], own * tile[1])
            tensor = weights_of(*size, dtype=self.types.weights, name=f"{label}.{k}")
            x = linear_load(
                tensor, tile, shape=(own,), stride=(1,), ref=after, label=f"load_{label}.{k}"
            )
            read.append(x if after is None else x.flatten(0, 1, label=f"{label}.{k}"))
        if loads == 1:
            return read[0]
        turns = selector(np.eye(loads, dtype=int)[np.arange(count) % loads], label=f"turns_{label}")
        joined = reassemble(read, turns, rank=0, label=f"join_{label}")
        return joined.flatten(0, 1, label=label)

    def vector(self, label: str, columns: int) -> Stream:
        """A row of scale factors, ``[1]``."""
        tensor = weights_of(1, columns, dtype=self.types.activations, name=label)
        return linear_load(tensor, (1, columns), shape=(1,), stride=(1,), label=label)
