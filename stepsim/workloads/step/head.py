"""The head of a model: the last norm, and logits of the rows whose next token is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepsim.graph import (
    Stream,
    fn,
    linear_load,
    linear_store,
    map as map_stream,
    nn,
    partition,
    selector,
)
from stepsim.workloads.decoder.weights import TILE_SIDE, Weights
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.models import Model
from stepsim.workloads.tensors import own_name, tensor_of


@dataclass(frozen=True)
class Head:
    """The head, over regions that have a share of the rows each.

    Attributes
    ----------
    weights : the loads of its matrix.
    compute_bw : FLOPs per cycle of each matrix product.
    """

    model: Model
    weights: Weights
    types: ElementTypes
    compute_bw: int

    def loaded(self, counts: Sequence[int]) -> list[Stream]:
        """Rows that layers left off chip, a tile ``[1]`` for each region."""
        found = []
        for r, count in enumerate(counts):
            size = (count, self.model.model_dim)
            tensor = tensor_of(*size, dtype=self.types.activations, name=f"last_rows.{r}")
            label = f"last_rows.{r}"
            found.append(linear_load(tensor, size, shape=(1,), stride=(1,), label=label))
        return found

    def taken(self, rows: Stream, ends: np.ndarray, counts: Sequence[int]) -> list[Stream]:
        """The same of ``rows`` on chip: those at places ``ends``, taken by the regions in turn."""
        regions = len(counts)
        to = np.full(int(rows.dim(0)), regions)
        to[ends] = np.arange(len(ends)) % regions
        *kept, others = partition(
            rows, selector(np.eye(regions + 1, dtype=int)[to], label="is_last_token"), rank=0,
            label="last_tokens",
        )  # fmt: skip
        others.consume(label="other_tokens")
        return [
            x.assume_shape(count)
            .reshape(count, label=f"last_row_group.{r}")
            .accum(fn.pack_rows, 1, label=f"pack_last_rows.{r}")
            for r, (x, count) in enumerate(zip(kept, counts, strict=True))
        ]

    def store(self, rows: Sequence[Stream]) -> None:
        """Write the logits of all rows off chip."""
        columns = self.model.vocabulary
        assert columns is not None
        width = next(n for n in range(min(TILE_SIDE, columns), 0, -1) if columns % n == 0)
        factors = self.weights.vector("head_norm", self.model.model_dim)
        matrix = self.weights.tiles(
            "head_weights", columns // width, (self.model.model_dim, width), after=rows[0]
        )
        for r, x in enumerate(rows):
            normed = nn.rms_norm(x, factors, label=f"head_norm.{r}")
            wide = normed.repeat(columns // width, label=f"repeat_last.{r}")
            logits = map_stream(
                fn.matmul, wide.flatten(0, 1, label=f"wide_last.{r}"), matrix,
                compute_bw=self.compute_bw, label=f"matmul_head.{r}",
            )  # fmt: skip
            grid = logits.reshape(columns // width, label=f"logit_columns.{r}")
            linear_store(grid, own_name(f"logits.{r}"), label=f"store_logits.{r}")
