"""The program of a decoder layer, or of some of its parts.

The graph of figure 17 of the STeP paper is not published. This one has the known parts: the
batch split four ways for QKV generation and attention, expert parallelism, and the compute of every
stage. A barrier ends attention: what follows is loaded when the last region has computed its last
output.

A stage whose predecessor is not built reads that one's results from off chip, and one whose
successor is not built writes its own there.
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
    linear_store,
    map as map_stream,
    nn,
)
from stepsim.workloads.attention.build import (
    cache_padding_flops,
    counted,
    fewer_regions,
    reserved,
    round_robin,
)
from stepsim.workloads.attention.graph import AttentionGraph
from stepsim.workloads.checks import window_notes
from stepsim.workloads.decoder.attend import Regions, barrier
from stepsim.workloads.decoder.feed_forward import FeedForward, in_order
from stepsim.workloads.decoder.output import Projection
from stepsim.workloads.decoder.parts import (
    ATTENTION,
    EXPERTS,
    NORMS,
    OF_HEADS,
    OUTPUT,
    QKV,
    RESIDUALS,
    ROTARY,
)
from stepsim.workloads.decoder.qkv import Generation, Rows
from stepsim.workloads.decoder.weights import Weights
from stepsim.workloads.models import (
    ATTENTION as OF_ATTENTION,
    EXPERTS as OF_EXPERTS,
    ROWS,
    AttentionShape,
)
from stepsim.workloads.moe.build import activations, padding_flops
from stepsim.workloads.parameters import DYNAMIC, Built, Counted, Data
from stepsim.workloads.tensors import own_name, tensor_of

if TYPE_CHECKING:
    from stepsim.workloads.decoder.parameters import Decoder


class BuiltDecoder(Built):
    """A built layer.

    Attributes
    ----------
    routing : the routing of requests to experts, still to be bound; None without experts.
    sizes : values of the symbolic sizes of attention.
    """

    def __init__(
        self,
        program: Program,
        table: Routing | None,
        workload: Decoder,
        data: Data,
        sizes: Mapping[Any, Any],
    ) -> None:
        lengths = workload.attended(data)
        parts = workload.built_parts
        parameters: dict[str, Any] = {"left_out": parts.left_out(workload.model)}
        if ATTENTION in parts:
            parameters["max_length"] = reserved(workload.max_length, lengths, workload.kv_tile)
        super().__init__(program, parameters=parameters, notes=_notes(workload, data))
        self.routing = table
        self.workload = workload
        self.lengths = lengths
        self.sizes = sizes

    def bindings(self, data: Data) -> Mapping[Any, Any]:
        if self.routing is None or data.routing is None:
            return {}
        return {self.routing: data.routing}

    def symbols(self, data: Data) -> Mapping[Any, Any]:
        return {**self.bindings(data), **self.sizes}

    def tokens(self, data: Data) -> int:
        return data.rows

    def padded_flops(self, data: Data) -> int:
        workload, total = self.workload, 0
        if ATTENTION in workload.built_parts:
            heads = workload.heads.attention
            each = cache_padding_flops(heads, self.lengths, workload.kv_tile)
            total += heads.kv_heads * each
        if EXPERTS in workload.built_parts:
            assert workload.tile is not None
            table = self.routing
            loads = [data.rows] if table is None else table.counts_of(data.routing)
            total += padding_flops(workload.model.feed_forward, workload.tile, loads)
        return total

    def published(self, data: Data) -> Counted:
        """As in the figure: idle experts are counted, and the sum over experts of dynamic tiles
        without shared regions is not."""
        bound = self.program.metrics(counting="published").bind(self.symbols(data))
        workload, total = self.workload, bound.allocated_compute
        plain = workload.expert_regions in (None, workload.model.feed_forward.experts)
        if self.routing is not None and plain and workload.tile == DYNAMIC:
            total -= workload.moe_bw
        return Counted(
            offchip_bytes=bound.off_chip_traffic,
            onchip_bytes=bound.on_chip_memory,
            flops=bound.flops,
            padded_flops=self.padded_flops(data),
            allocated_flops_per_cycle=total,
        )


def build_decoder(workload: Decoder, data: Data) -> BuiltDecoder:
    """The layer for the cached tokens of each request, in order; its routing is bound later."""
    chosen = [str(one) for one in (workload.tile, workload.strategy) if one is not None]
    title = "_".join(["decoder", workload.model.name, f"b{data.rows}", *chosen])
    with Program(title, compute_bw=workload.moe_bw, fifo_depth=workload.fifo_depth) as program:
        table, sizes = _Layer(workload, data, program).build()
    return BuiltDecoder(program, table, workload, data, sizes)


def _notes(workload: Decoder, data: Data) -> list[str]:
    """What a run says of the program: other heads, windows, fewer regions, what is not modeled."""
    parts, notes = workload.built_parts, []
    if workload.heads.name != workload.model.name:
        heads = workload.heads.attention
        notes.append(
            f"heads of {heads.head_dim} as in the published experiment, which is shape {heads.name}"
        )
    if ATTENTION in parts:
        notes += window_notes(workload.heads, workload.attention_layer)
    about = [kind for kind, part in ((OF_ATTENTION, ATTENTION), (ROWS, QKV)) if part in parts]
    notes += workload.heads.notes(*about)
    if EXPERTS in parts:
        notes += workload.model.notes(OF_EXPERTS)
    built = min(workload.attention_regions, data.rows)
    if parts.any(OF_HEADS) and built < workload.attention_regions:
        notes.append(
            fewer_regions(
                built,
                workload.attention_regions,
                counted(data.rows, "request"),
                "regions of QKV generation",
            )
        )
    return notes


class _Layer:
    """A decoder layer under construction."""

    def __init__(self, workload: Decoder, data: Data, program: Program) -> None:
        self.workload, self.program = workload, program
        self.parts, self.types = workload.built_parts, workload.types
        self.lengths = workload.attended(data)
        self.shares = round_robin(data.rows, workload.attention_regions)
        self.requests = [len(share) for share in self.shares]
        self.weights = Weights(workload.weight_loads, self.types)

    @property
    def shape(self) -> AttentionShape:
        return self.workload.heads.attention

    def build(self) -> tuple[Routing | None, dict[Any, Any]]:
        """The routing to be bound, and values of the symbolic sizes."""
        parts = self.parts
        sizes: dict[Any, Any] = {}
        residual = RESIDUALS in parts and OUTPUT in parts
        hidden = self._hidden() if QKV in parts or residual else []
        rows = self._generated(hidden) if QKV in parts else []
        outputs: list[Stream] = []
        ends = [x for region in rows for x in region]
        if ATTENTION in parts:
            ends = outputs = self._attended(rows, sizes)
        elif rows:
            _store_generated(rows)
        later = OUTPUT in parts or EXPERTS in parts
        after = barrier(ends) if ends and later else None
        tiles = self._projected(outputs, hidden, after) if OUTPUT in parts else []
        if EXPERTS not in parts:
            for r, x in enumerate(tiles):
                linear_store(x, own_name(f"layer_rows.{r}"), label=f"store_rows.{r}")
            return None, sizes
        return self._fed_forward(tiles, after), sizes

    def _attended(self, rows: Sequence[Rows], sizes: dict[Any, Any]) -> list[Stream]:
        """Outputs of attention; values of its symbolic sizes are added to ``sizes``."""
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
        sizes |= found
        self._set_depths(first)
        return outputs

    def _set_depths(self, first: int) -> None:
        """Set the depth of all FIFOs of attention, which begins with operator ``first``."""
        for op in self.program.operators[first:]:
            for x in op.outputs:
                if x.depth is None:
                    x.with_depth(self.workload.attention_fifo_depth)

    def _hidden(self) -> list[Stream]:
        """The hidden rows of every region as one tile ``[1]``, which lie one below the other."""
        found = []
        for r, count in enumerate(self.requests):
            size = (count, self.workload.model.model_dim)
            tensor = tensor_of(*size, dtype=self.types.activations, name=f"hidden.{r}")
            found.append(linear_load(tensor, size, shape=(1,), stride=(1,), label=f"hidden.{r}"))
        return found

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

    def _projected(
        self, outputs: Sequence[Stream], hidden: Sequence[Stream], after: Stream | None
    ) -> list[Stream]:
        """Rows of every region behind attention, a tile ``[1]`` each."""
        projection = Projection(
            self.shape, self.workload.latent, self.weights, self.types, self.workload.qkv_bw
        )
        attended = (
            projection.gathered(outputs, self.requests)
            if outputs
            else projection.stored(self.requests)
        )
        tiles = projection.rows(attended, after)
        if RESIDUALS not in self.parts:
            return tiles
        return [
            map_stream(fn.add, before, x, label=f"attention_residual.{r}")
            for r, (before, x) in enumerate(zip(hidden, tiles, strict=True))
        ]

    def _fed_forward(self, tiles: Sequence[Stream], after: Stream | None) -> Routing | None:
        workload, shape = self.workload, self.workload.model.feed_forward
        assert workload.tile is not None
        rows = (
            in_order(tiles, np.arange(sum(self.requests)) % len(tiles))
            if tiles
            else activations("activations", sum(self.requests), shape, self.types, after)
        )
        return FeedForward(
            shape, workload.model.experts is None, self.parts, self.weights, self.types,
            workload.tile, workload.tile_inter, workload.expert_regions, workload.moe_bw,
            workload.qkv_bw,
        ).store(rows)  # fmt: skip


def _store_generated(rows: Sequence[Rows]) -> None:
    """Write queries, keys and values off chip."""
    for r, own in enumerate(rows):
        for what, x in zip(("query", "key", "value"), own, strict=True):
            linear_store(x, own_name(f"{what}.{r}"), label=f"store_{what}.{r}")
