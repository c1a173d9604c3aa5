"""The output projection of a decoder layer: outputs of all heads times one matrix, in all regions.

A tile has some rows of the matrix, those of a part of a head, and all columns, as the tiles of
``down`` of an expert; their products with the columns of the outputs are added up. Of latent
attention, the outputs of a head are first multiplied by its up-projection of the values,
``value_up`` [kv_lora_rank x v_head_dim]. The weights are read once, and every region multiplies the
outputs of its own requests by them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stepsim.graph import Stream, fn, linear_load, map as map_stream, map_accum
from stepsim.workloads.decoder.weights import TILE_SIDE, Weights
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.models import AttentionShape, LatentHeads
from stepsim.workloads.tensors import tensor_of


@dataclass(frozen=True)
class Projection:
    """The output projection.

    Attributes
    ----------
    heads : dimensions of latent attention; None for grouped heads.
    weights : the loads of its matrices.
    compute_bw : FLOPs per cycle of each matrix product.
    """

    shape: AttentionShape
    heads: LatentHeads | None
    weights: Weights
    types: ElementTypes
    compute_bw: int

    def gathered(self, outputs: Sequence[Stream], requests: Sequence[int]) -> list[Stream]:
        """Outputs of all requests of a region, a tile for each KV head, from those of tasks.

        The tiles wait in a FIFO for those of the slowest region.
        """
        group, found = self.shape.queries_per_kv_head, []
        for r, (x, count) in enumerate(zip(outputs, requests, strict=True)):
            heads = x.flat_map(fn.unpack_rows(), label=f"output_heads.{r}")
            each = heads.reshape(group, label=f"output_groups.{r}")
            row = each.accum(fn.pack_cols, 1, label=f"output_row.{r}")
            rows = row.reshape(count, label=f"output_requests.{r}")
            block = rows.accum(fn.pack_rows, 1, label=f"output_rows.{r}")
            found.append(block.with_depth(max(self.shape.kv_heads, 2)))
        return found

    def collected(self, outputs: Sequence[Stream], rows: Sequence[int]) -> list[Stream]:
        """The same from tiles of some rows of one KV head each, in the order of the rows."""
        found = []
        for r, (x, count) in enumerate(zip(outputs, rows, strict=True)):
            single = x.flat_map(fn.unpack_rows(), label=f"output_rows.{r}")
            each = single.assume_shape(self.shape.kv_heads * count)
            heads = each.reshape(count, label=f"output_heads.{r}")
            block = heads.accum(fn.pack_rows, 1, label=f"pack_output.{r}")
            found.append(block.with_depth(max(self.shape.kv_heads, 2)))
        return found

    def stored(self, requests: Sequence[int]) -> list[Stream]:
        """The same, left off chip by a program before this one."""
        shape = self.shape
        width = shape.queries_per_kv_head * shape.value_width
        return [
            linear_load(
                tensor_of(count, shape.kv_heads * width, dtype=self.types.activations,
                     name=f"attended.{r}"),
                (count, width), shape=(shape.kv_heads,), stride=(1,), label=f"attended.{r}",
            )
            for r, count in enumerate(requests)
        ]  # fmt: skip

    def rows(self, attended: Sequence[Stream], after: Stream | None) -> list[Stream]:
        """Rows of every region, a tile ``[1]`` each; with ``after`` the weights wait for it."""
        d, heads, width = self.shape.model_dim, self.shape.heads, self.shape.value_width
        blocks = list(attended)
        if self.heads is not None:
            rank, width = width, self.heads.v_head_dim
            up = self.weights.tiles("value_up_weights", heads, (rank, width), after=after)
            blocks = [self._values(x, up, rank, r) for r, x in enumerate(blocks)]
        side = math.gcd(width, TILE_SIDE)
        matrix = self.weights.tiles(
            "output_weights", heads * width // side, (side, d), stacked=True, after=after
        ).promote(label="output_matrix")
        found = []
        for r, x in enumerate(blocks):
            cut = x.flat_map(fn.unpack_cols(chunk=side), label=f"output_parts.{r}")
            found.append(
                map_accum(
                    fn.matmul, cut.promote(label=f"all_output_parts.{r}"), matrix, 1,
                    compute_bw=self.compute_bw, label=f"matmul_output.{r}",
                )
            )  # fmt: skip
        return found

    def _values(self, x: Stream, up: Stream, rank: int, r: int) -> Stream:
        """Outputs of each head from those in the latent space."""
        latent = x.flat_map(fn.unpack_cols(chunk=rank), label=f"latent_outputs.{r}")
        return map_stream(
            fn.matmul, latent, up, compute_bw=self.compute_bw, label=f"matmul_value_up.{r}"
        )
