"""The stages of a decoder layer, or of some of its parts, on one chip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stepsim.graph import (
    Program,
    Routing,
    Stream,
    fn,
    linear_load,
    linear_store,
    map as map_stream,
    nn,
)
from stepsim.workloads.attention.build import reserved, round_robin
from stepsim.workloads.attention.graph import AttentionGraph
from stepsim.workloads.decoder.attend import Regions, barrier
from stepsim.workloads.decoder.feed_forward import FeedForward, in_order
from stepsim.workloads.decoder.output import Projection
from stepsim.workloads.decoder.parts import (
    ATTENTION,
    EXPERTS,
    NORMS,
    OUTPUT,
    QKV,
    RESIDUALS,
    ROTARY,
    ROUTER,
)
from stepsim.workloads.decoder.qkv import Generation, Rows
from stepsim.workloads.decoder.weights import Weights
from stepsim.workloads.inputs import Data
from stepsim.workloads.models import AttentionShape
from stepsim.workloads.moe.build import activations
from stepsim.workloads.parallel.layers import in_regions
from stepsim.workloads.tensors import own_name, tensor_of

if TYPE_CHECKING:
    from stepsim.workloads.decoder.parameters import Decoder


class DecoderLayer:
    """A decoder layer under construction."""

    def __init__(self, workload: Decoder, data: Data, program: Program) -> None:
        self.workload, self.program = workload, program
        self.parts, self.types = workload.built_parts, workload.types
        self.lengths = workload.attended(data)
        self.shares = round_robin(data.rows, workload.attention_regions)
        self.requests = [len(share) for share in self.shares]
        self.weights = Weights(workload.weight_loads, self.types)
        self.sizes: dict[Any, Any] = {}
        self.after: Stream | None = None

    @property
    def shape(self) -> AttentionShape:
        return self.workload.heads.attention

    def build(self) -> Routing | None:
        """The routing to be bound."""
        hidden = self.hidden()
        tiles = self.sums(hidden, self.attended(hidden))
        if EXPERTS not in self.parts:
            self.store(tiles)
            return None
        return self.network.store(self.rows(tiles))

    def attended(self, hidden: Sequence[Stream]) -> list[Stream]:
        """Rows of every region behind the output projection, a tile ``[1]`` each, if there is
        one."""
        parts = self.parts
        rows = self._generated(hidden) if QKV in parts else []
        outputs: list[Stream] = []
        ends = [x for region in rows for x in region]
        if ATTENTION in parts:
            ends = outputs = self._outputs(rows)
        elif rows:
            _store_generated(rows)
        later = OUTPUT in parts or EXPERTS in parts
        self.after = barrier(ends) if ends and later else None
        return self._projected(outputs) if OUTPUT in parts else []

    def sums(self, hidden: Sequence[Stream], tiles: Sequence[Stream]) -> list[Stream]:
        """The rows of every region behind attention, with those before it added."""
        if RESIDUALS not in self.parts or not tiles:
            return list(tiles)
        return [
            map_stream(fn.add, before, x, label=f"attention_residual.{r}")
            for r, (before, x) in enumerate(zip(hidden, tiles, strict=True))
        ]

    def store(self, tiles: Sequence[Stream]) -> None:
        """Write the rows of a layer that ends with the output projection off chip."""
        for r, x in enumerate(tiles):
            linear_store(x, own_name(f"layer_rows.{r}"), label=f"store_rows.{r}")

    def _outputs(self, rows: Sequence[Rows]) -> list[Stream]:
        """Outputs of attention."""
        workload, shape = self.workload, self.shape
        assert workload.strategy is not None
        graph = AttentionGraph(
            self.program, shape, np.tile(self.lengths, shape.kv_heads), workload.kv_tile,
            reserved(workload.max_length, self.lengths, workload.kv_tile), self.types,
            workload.attention_bw, stored=OUTPUT not in self.parts,
        )  # fmt: skip
        regions = Regions(graph, self.shares, workload.attention_regions)
        rows = rows or regions.stored_rows()
        first = len(self.program.operators)
        outputs, found = regions.outputs(rows, workload.strategy, by_request=OUTPUT in self.parts)
        self.sizes |= found
        self._set_depths(first)
        return outputs

    def _set_depths(self, first: int) -> None:
        """Set the depth of all FIFOs of attention, which begins with operator ``first``."""
        for op in self.program.operators[first:]:
            for x in op.outputs:
                if x.depth is None:
                    x.with_depth(self.workload.attention_fifo_depth)

    def hidden(self) -> list[Stream]:
        """The hidden rows of every region as one tile ``[1]``, which lie one below the other; none
        where neither QKV generation nor a residual sum reads them."""
        found: list[Stream] = []
        if QKV not in self.parts and not (RESIDUALS in self.parts and OUTPUT in self.parts):
            return found
        for r, count in enumerate(self.requests):
            size = (count, self.workload.model.model_dim)
            tensor = tensor_of(*size, dtype=self.types.activations, name=f"hidden.{r}")
            found.append(linear_load(tensor, size, shape=(1,), stride=(1,), label=f"hidden.{r}"))
        return found

    def regions_of(self, rows: Stream) -> list[Stream]:
        """The same from all rows, in their order."""
        return in_regions(rows, self._regions, self.requests)

    @property
    def _regions(self) -> Any:
        """The region of each request."""
        return np.arange(sum(self.requests)) % len(self.requests)

    def inputs(
        self, tiles: Sequence[Stream], experts: int | None = None
    ) -> tuple[Stream, Stream, Stream | None]:
        """All rows, the same behind the norm, and their products with a router of all experts,
        where the layer has one."""
        network = self.network
        rows, normed = network.inputs(self.rows(tiles))
        routed = ROUTER in self.parts and not network.dense
        return rows, normed, network.scores(normed, experts) if routed else None

    def _generated(self, hidden: Sequence[Stream]) -> list[Rows]:
        if NORMS in self.parts:
            factors = self.weights.vector("attention_norm", self.workload.model.model_dim)
            hidden = [
                nn.rms_norm(x, factors, label=f"attention_norm.{r}") for r, x in enumerate(hidden)
            ]
        generation = Generation(
            self.shape, self.workload.latent, self.weights, self.types, self.workload.qkv_bw,
            ROTARY in self.parts,
        )  # fmt: skip
        return generation.rows(hidden, self.requests)

    def _projected(self, outputs: Sequence[Stream]) -> list[Stream]:
        """Rows of every region behind the output projection, a tile ``[1]`` each."""
        projection = Projection(
            self.shape, self.workload.latent, self.weights, self.types, self.workload.qkv_bw
        )
        attended = (
            projection.gathered(outputs, self.requests)
            if outputs
            else projection.stored(self.requests)
        )
        return projection.rows(attended, self.after)

    def rows(self, tiles: Sequence[Stream]) -> Stream:
        """All rows in the order of requests: those of regions, or left off chip."""
        count = sum(self.requests)
        if tiles:
            return in_order(tiles, self._regions)
        shape = self.workload.model.feed_forward
        return activations("activations", count, shape, self.types, self.after)

    @property
    def network(self) -> FeedForward:
        """The experts or the dense network."""
        workload = self.workload
        assert workload.tile is not None
        return FeedForward(
            workload.model.feed_forward, workload.model.experts is None, self.parts, self.weights,
            self.types, workload.tile, workload.tile_inter, workload.expert_regions,
            workload.moe_bw, workload.qkv_bw,
        )  # fmt: skip


def _store_generated(rows: Sequence[Rows]) -> None:
    """Write queries, keys and values off chip."""
    for r, own in enumerate(rows):
        for what, x in zip(("query", "key", "value"), own, strict=True):
            linear_store(x, own_name(f"{what}.{r}"), label=f"store_{what}.{r}")
