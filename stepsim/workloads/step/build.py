"""The program of a layer of a step, of the head, or of both.

The stages are those of a decoder layer, with blocks of new tokens in place of requests: a region of
QKV generation multiplies all rows of its blocks by every tile of a matrix. A barrier ends
attention, as there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stepsim.graph import (
    Program,
    Routing,
    Stream,
    fn,
    linear_load,
    map as map_stream,
    nn,
    spec,
)
from stepsim.workloads.attention.build import coarse_lanes, round_robin
from stepsim.workloads.checks import window_notes
from stepsim.workloads.decoder.attend import barrier
from stepsim.workloads.decoder.feed_forward import FeedForward, in_order
from stepsim.workloads.decoder.output import Projection
from stepsim.workloads.decoder.parts import Parts
from stepsim.workloads.decoder.qkv import Generation
from stepsim.workloads.decoder.weights import Weights
from stepsim.workloads.models import ATTENTION, EXPERTS, ROWS
from stepsim.workloads.moe.build import padding_flops, store_rows
from stepsim.workloads.parameters import Built, Data
from stepsim.workloads.step.attend import StepAttention
from stepsim.workloads.step.blocks import Numbers, StepBlocks
from stepsim.workloads.step.head import Head

if TYPE_CHECKING:
    from stepsim.workloads.step.parameters import Step


class BuiltStep(Built):
    """A built layer of a step.

    Attributes
    ----------
    routing : the routing of new tokens to experts, still to be bound; None without experts.
    sizes : values of the symbolic sizes of attention.
    """

    def __init__(
        self,
        program: Program,
        table: Routing | None,
        workload: Step,
        data: Data,
        sizes: Mapping[Any, Any],
    ) -> None:
        super().__init__(program, notes=_notes(workload))
        self.routing = table
        self.workload = workload
        self.sizes = sizes
        self.blocks = blocks_of(workload, data) if workload.has_layer else None

    def bindings(self, data: Data) -> Mapping[Any, Any]:
        if self.routing is None or data.routing is None:
            return {}
        return {self.routing: data.routing}

    def integers(self, data: Data) -> dict[str, Numbers]:
        """What the program of data with the same new tokens sends in place of some of its integers,
        by label of ``st.metadata``: all that depends on cached tokens, but for the size of caches.
        """
        heads = self.workload.layer_model.attention.kv_heads
        return blocks_of(self.workload, data).integers(heads) if self.workload.has_layer else {}

    def symbols(self, data: Data) -> Mapping[Any, Any]:
        return {**self.bindings(data), **self.sizes}

    def tokens(self, data: Data) -> int:
        return data.tokens

    def padded_flops(self, data: Data) -> int:
        if self.blocks is None:
            return 0
        heads = self.workload.model.attention
        # A score, its exponential (4), the weighted value and the sum of weights.
        per_pair = 2 * heads.head_dim + 4 + 2 * heads.value_width + 1
        total = heads.heads * per_pair * (self.blocks.computed_pairs - self.blocks.pairs)
        table = self.routing
        loads = [data.tokens] if table is None else table.counts_of(data.routing)
        shape = self.workload.layer_model.feed_forward
        return total + padding_flops(shape, self.workload.tile, loads)


def blocks_of(workload: Step, data: Data) -> StepBlocks:
    """The blocks of new tokens of a batch."""
    return StepBlocks(
        data.new, data.lengths, workload.query_tile, workload.kv_tile, workload.window,
        workload.attention_regions,
    )  # fmt: skip


def build_step(workload: Step, data: Data) -> BuiltStep:
    """The program for the new and cached tokens of each request; its routing is bound later."""
    title = f"step_{workload.model.name}_{workload.part.replace('+', '_')}_b{data.rows}"
    with Program(title, compute_bw=workload.network_bw, fifo_depth=workload.fifo_depth) as program:
        table, sizes = _StepGraph(workload, data, program).build()
    return BuiltStep(program, table, workload, data, sizes)


def _notes(workload: Step) -> list[str]:
    """What a run says of the program: windows, and what is not modeled."""
    model, notes = workload.model, []
    if workload.has_layer:
        notes += window_notes(model, workload.attention_layer)
        notes += model.notes(ATTENTION, ROWS)
        notes += workload.layer_model.notes(EXPERTS) if workload.layer_model.experts else []
    return notes


class _StepGraph:
    """A step under construction."""

    def __init__(self, workload: Step, data: Data, program: Program) -> None:
        self.workload, self.program, self.data = workload, program, data
        self.types = workload.types
        self.weights = Weights(workload.weight_loads, self.types)
        self.regions = workload.attention_regions

    def build(self) -> tuple[Routing | None, dict[Any, Any]]:
        """The routing to be bound, and values of the symbolic sizes."""
        counts = [len(share) for share in round_robin(self.data.rows, self.regions)]
        head = Head(self.workload.model, self.weights, self.types, self.workload.qkv_bw)
        if not self.workload.has_layer:
            head.store(head.loaded(counts))
            return None, {}
        rows, table, sizes = self._layer()
        if self.workload.has_head:
            ends = np.cumsum(self.data.new) - 1
            head.store(head.taken(rows, ends, counts))
        store_rows(rows)
        return table, sizes

    def _layer(self) -> tuple[Stream, Routing | None, dict[Any, Any]]:
        """The rows of all new tokens behind the layer, in the order of the batch."""
        workload, model = self.workload, self.workload.layer_model
        shape, parts = model.attention, Parts.whole(model)
        blocks = blocks_of(workload, self.data)
        rows = [int(blocks.rows[share].sum()) for share in blocks.shares]
        hidden = self._hidden(rows)
        factors = self.weights.vector("attention_norm", model.model_dim)
        normed = [
            nn.rms_norm(x, factors, label=f"attention_norm.{r}") for r, x in enumerate(hidden)
        ]
        generation = Generation(
            shape, workload.latent, self.weights, self.types, workload.qkv_bw, rotary=True
        )
        generated = generation.blocks(normed, rows)
        attention = StepAttention(self.program, shape, blocks, self.types, workload.attention_bw)
        outputs, sizes = self._attended(attention, generated)
        projection = Projection(shape, workload.latent, self.weights, self.types, workload.qkv_bw)
        tiles = projection.rows(projection.collected(outputs, rows), barrier(outputs))
        sums = [
            map_stream(fn.add, before, x, label=f"attention_residual.{r}")
            for r, (before, x) in enumerate(zip(hidden, tiles, strict=True))
        ]
        network = FeedForward(
            model.feed_forward, model.experts is None, parts, self.weights, self.types,
            workload.tile, workload.tile_inter, workload.expert_regions, workload.network_bw,
            workload.qkv_bw,
        )  # fmt: skip
        result, table = self._fed_forward(network, sums, blocks)
        return result, table, sizes

    def _fed_forward(
        self, network: FeedForward, tiles: Sequence[Stream], blocks: StepBlocks
    ) -> tuple[Stream, Routing | None]:
        """The results of the network, with norm and router of all rows of a region at once."""
        factors = self.weights.vector("experts_norm", network.shape.model_dim)
        normed = [nn.rms_norm(x, factors, label=f"experts_norm.{r}") for r, x in enumerate(tiles)]
        regions, scores = blocks.region_of_rows, None
        if not network.dense:
            matrix = network.router_matrix()
            products = [
                network.products(x, matrix, f"matmul_router.{r}") for r, x in enumerate(normed)
            ]
            scores = in_order(products, regions, "scores")
        return network.results(
            in_order(tiles, regions, "result"), in_order(normed, regions, "normed"), scores
        )

    def _hidden(self, rows: Sequence[int]) -> list[Stream]:
        """The hidden rows of every region as one tile ``[1]``."""
        found = []
        for r, count in enumerate(rows):
            size = (count, self.workload.model.model_dim)
            tensor = spec(*size, dtype=self.types.activations, name=f"hidden.{r}")
            found.append(linear_load(tensor, size, shape=(1,), stride=(1,), label=f"hidden.{r}"))
        return found

    def _attended(
        self, attention: StepAttention, generated: Sequence[Any]
    ) -> tuple[list[Stream], dict[Any, Any]]:
        """Outputs of the tasks of each region of QKV generation, and values of the sizes."""
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
        return found, sizes
