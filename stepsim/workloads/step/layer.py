"""The stages of a layer of a step on one chip."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from stepsim.graph import (
    Program,
    Stream,
    fn,
    linear_load,
    map as map_stream,
    nn,
)
from stepsim.workloads.attention.build import coarse_lanes, round_robin
from stepsim.workloads.decoder.attend import barrier
from stepsim.workloads.decoder.feed_forward import FeedForward, in_order
from stepsim.workloads.decoder.output import Projection
from stepsim.workloads.decoder.parts import Parts
from stepsim.workloads.decoder.qkv import Generation
from stepsim.workloads.decoder.weights import Weights
from stepsim.workloads.inputs import Data
from stepsim.workloads.parallel.layers import in_regions
from stepsim.workloads.step.attend import StepAttention
from stepsim.workloads.step.blocks import StepBlocks
from stepsim.workloads.step.head import Head
from stepsim.workloads.tensors import tensor_of

if TYPE_CHECKING:
    from stepsim.workloads.step.parameters import Step


def blocks_of(workload: Step, data: Data) -> StepBlocks:
    """The blocks of new tokens of a batch."""
    return StepBlocks(
        data.new, data.lengths, workload.query_tile, workload.kv_tile, workload.window,
        workload.attention_regions,
    )  # fmt: skip


class StepLayer:
    """A layer of a step under construction, stage by stage; or the head.

    Attributes
    ----------
    sizes : values of the symbolic sizes of attention, when that is built.
    """

    def __init__(self, workload: Step, data: Data, program: Program) -> None:
        self.workload, self.program, self.data = workload, program, data
        self.types = workload.types
        self.weights = Weights(workload.weight_loads, self.types)
        self.sizes: dict[Any, Any] = {}

    @cached_property
    def blocks(self) -> StepBlocks:
        """The blocks of new tokens."""
        return blocks_of(self.workload, self.data)

    @cached_property
    def rows(self) -> list[int]:
        """New tokens of each region."""
        return [int(self.blocks.rows[share].sum()) for share in self.blocks.shares]

    def head(self, rows: Stream | None = None) -> None:
        """The head, of the rows of a layer or of rows that were left off chip."""
        regions = self.workload.attention_regions
        counts = [len(share) for share in round_robin(self.data.rows, regions)]
        head = Head(self.workload.model, self.weights, self.types, self.workload.qkv_bw)
        if rows is None:
            head.store(head.loaded(counts))
        else:
            head.store(head.taken(rows, np.cumsum(self.data.new) - 1, counts))

    def hidden(self) -> list[Stream]:
        """The hidden rows of every region as one tile ``[1]``, read from off chip."""
        found = []
        for r, count in enumerate(self.rows):
            size = (count, self.workload.model.model_dim)
            tensor = tensor_of(*size, dtype=self.types.activations, name=f"hidden.{r}")
            found.append(linear_load(tensor, size, shape=(1,), stride=(1,), label=f"hidden.{r}"))
        return found

    def regions_of(self, rows: Stream) -> list[Stream]:
        """The same from all rows, in the order of the batch."""
        return in_regions(rows, self.blocks.region_of_rows, self.rows)

    def attended(self, hidden: Sequence[Stream]) -> list[Stream]:
        """Rows of every region behind norm, attention and output projection, a tile ``[1]``."""
        workload, model = self.workload, self.workload.layer_model
        shape = model.attention
        factors = self.weights.vector("attention_norm", model.model_dim)
        normed = [
            nn.rms_norm(x, factors, label=f"attention_norm.{r}") for r, x in enumerate(hidden)
        ]
        generation = Generation(
            shape, workload.latent, self.weights, self.types, workload.qkv_bw, rotary=True
        )
        generated = generation.blocks(normed, self.rows)
        attention = StepAttention(
            self.program, shape, self.blocks, self.types, workload.attention_bw
        )
        outputs = self._outputs(attention, generated)
        projection = Projection(shape, workload.latent, self.weights, self.types, workload.qkv_bw)
        return projection.rows(projection.collected(outputs, self.rows), barrier(outputs))

    def sums(self, hidden: Sequence[Stream], tiles: Sequence[Stream]) -> list[Stream]:
        """The rows of every region behind attention, with those before it added."""
        return [
            map_stream(fn.add, before, x, label=f"attention_residual.{r}")
            for r, (before, x) in enumerate(zip(hidden, tiles, strict=True))
        ]

    @cached_property
    def network(self) -> FeedForward:
        """The experts or the dense network."""
        workload, model = self.workload, self.workload.layer_model
        return FeedForward(
            model.feed_forward, model.experts is None, Parts.whole(model), self.weights,
            self.types, workload.tile, workload.tile_inter, workload.expert_regions,
            workload.network_bw, workload.qkv_bw,
        )  # fmt: skip

    def inputs(
        self, tiles: Sequence[Stream], experts: int | None = None
    ) -> tuple[Stream, Stream, Stream | None]:
        """Rows in the order of the batch, the same behind the norm, and their products with the
        router, made of all rows of a region at once.

        ``experts`` are those of all chips, by default its own.
        """
        network = self.network
        factors = self.weights.vector("experts_norm", network.shape.model_dim)
        normed = [nn.rms_norm(x, factors, label=f"experts_norm.{r}") for r, x in enumerate(tiles)]
        regions, scores = self.blocks.region_of_rows, None
        if not network.dense:
            matrix = network.router_matrix(experts)
            products = [
                network.products(x, matrix, f"matmul_router.{r}") for r, x in enumerate(normed)
            ]
            scores = in_order(products, regions, "scores")
        rows = in_order(tiles, regions, "result")
        return rows, in_order(normed, regions, "normed"), scores

    def _outputs(self, attention: StepAttention, generated: Sequence[Any]) -> list[Stream]:
        """Outputs of the tasks of each region of QKV generation."""
        workload, tasks = self.workload, attention.tasks
        first = len(self.program.operators)
        streams = attention.streams(generated)
        if workload.strategy == "coarse":
            lanes = coarse_lanes((tasks,), workload.attention_regions, workload.tasks_per_block)
            outputs, sizes = attention.coarse(streams, lanes, join=True)
        else:
            dynamic = workload.strategy == "dynamic"
            distribute = attention.dynamic if dynamic else attention.interleaved
            lanes = round_robin(tasks, workload.attention_regions)
            outputs, sizes = distribute(streams, lanes, join=True)
        found = attention.returned(outputs[0], len(generated))
        for op in self.program.operators[first:]:
            for x in op.outputs:
                if x.depth is None:
                    x.with_depth(workload.attention_fifo_depth)
        self.sizes |= sizes
        return found
