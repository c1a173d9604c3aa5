"""The program of a decoder layer: QKV generation, decode attention and mixture of experts.

The graph of figure 17 of the STeP paper is not published. This one has the known parts: the
batch split four ways for QKV generation and attention, expert parallelism, and the compute of every
stage. It keeps QKV generation and attention apart from the experts by a barrier: activations are
loaded for the experts when the last region has computed its last output. Norms, rotary embedding,
the output projection and residual sums are left out, as in the figure; of latent attention also the
up-projection of the values, which decoding absorbs into the output projection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepsim.graph import (
    Program,
    Routing,
    Stream,
    fn,
    metadata,
    reassemble,
    routing,
    selector,
    spec,
)
from stepsim.workloads.attention.build import (
    cache_padding_flops,
    counted,
    fewer_regions,
    reserved,
    round_robin,
)
from stepsim.workloads.attention.graph import AttentionGraph, RegionResult, Work
from stepsim.workloads.decoder.qkv import Generation, Rows
from stepsim.workloads.models import LatentHeads
from stepsim.workloads.moe.build import combine, dispatch, padding_flops, routed_experts
from stepsim.workloads.moe.regions import shared_experts
from stepsim.workloads.parameters import DYNAMIC, Built, Counted, Data

if TYPE_CHECKING:
    from stepsim.workloads.decoder.parameters import Decoder


class BuiltDecoder(Built):
    """A built layer.

    Attributes
    ----------
    routing : the routing of requests to experts, still to be bound.
    sizes : values of the symbolic sizes of attention.
    final_sum : the published total of allocated compute includes the sum over experts.
    """

    def __init__(
        self,
        program: Program,
        table: Routing,
        workload: Decoder,
        data: Data,
        sizes: Mapping[Any, Any],
        *,
        final_sum: bool,
    ) -> None:
        heads = workload.heads.attention
        notes = []
        if workload.heads.name != workload.model.name:
            notes.append(
                f"heads of {heads.head_dim} as in the published experiment, which is shape "
                f"{heads.name}"
            )
        if workload.latent is not None:
            notes.append(
                "latent attention: the up-projection of the values is left out, with the output "
                "projection that it is part of"
            )
        built = min(workload.attention_regions, data.rows)
        if built < workload.attention_regions:
            notes.append(
                fewer_regions(
                    built,
                    workload.attention_regions,
                    counted(data.rows, "request"),
                    "regions of QKV generation",
                )
            )
        fits = reserved(workload.max_length, data.lengths, workload.kv_tile)
        super().__init__(program, parameters={"max_length": fits}, notes=notes)
        self.routing = table
        self.workload = workload
        self.lengths = data.lengths
        self.sizes = sizes
        self.final_sum = final_sum

    def bindings(self, data: Data) -> Mapping[Any, Any]:
        ids = self._ids(data)
        return {} if ids is None else {self.routing: ids}

    def symbols(self, data: Data) -> Mapping[Any, Any]:
        return {**self.bindings(data), **self.sizes}

    def padded_flops(self, data: Data) -> int:
        workload, counts = self.workload, self.routing.counts_of(self._ids(data))
        heads = workload.heads.attention
        each = cache_padding_flops(heads, self.lengths, workload.kv_tile)
        experts = padding_flops(workload.model.feed_forward, workload.tile, counts)
        total: int = experts + heads.kv_heads * each
        return total

    def _ids(self, data: Data) -> Any:
        """The routing, given or implied; None where neither is."""
        return self.workload.implied(self.workload.values(), data).routing

    def published(self, data: Data) -> Counted:
        """As in the figure: idle experts are counted."""
        bound = self.program.metrics(counting="published").bind(self.symbols(data))
        total = bound.allocated_compute
        return Counted(
            offchip_bytes=bound.off_chip_traffic,
            onchip_bytes=bound.on_chip_memory,
            flops=bound.flops,
            padded_flops=self.padded_flops(data),
            allocated_flops_per_cycle=total if self.final_sum else total - self.workload.moe_bw,
        )


def build_decoder(workload: Decoder, data: Data) -> BuiltDecoder:
    """The layer for the cached tokens of each request, in order; its routing is bound later."""
    experts, heads = workload.model.feed_forward, workload.heads.attention
    lengths, batch, tile = data.lengths, data.rows, workload.tile
    inner, regions, bandwidth = workload.tile_inter, workload.expert_regions, workload.moe_bw
    rows = reserved(workload.max_length, lengths, workload.kv_tile)
    title = f"decoder_{experts.name}_b{batch}_{tile}_{workload.strategy}"
    plain, dynamic = regions is None or regions == experts.experts, tile == DYNAMIC
    types, latent = workload.types, workload.latent
    with Program(title, compute_bw=bandwidth, fifo_depth=workload.fifo_depth) as program:
        tasks = np.tile(lengths, heads.kv_heads)
        graph = AttentionGraph(
            program, heads, tasks, workload.kv_tile, rows, types, workload.attention_bw
        )
        front = _Front(graph, latent, workload.attention_regions, batch, workload.qkv_bw)
        results, sizes = front.build(workload.strategy)
        table = routing(spec(batch, experts.active), experts.experts)
        after = barrier([r.output for r in results])
        blocks = dispatch(table, experts, types, tile, bandwidth, after=after)
        if regions is None or plain:
            done = routed_experts(blocks, experts, types, inner, dynamic=dynamic)
        else:
            done = shared_experts(blocks, experts, types, regions, inner, dynamic=dynamic)
        combine(done, table, experts, types, tile, inner, bandwidth, after=after)
    final_sum = not (plain and dynamic)
    return BuiltDecoder(program, table, workload, data, sizes, final_sum=final_sum)


def barrier(outputs: Sequence[Stream]) -> Stream:
    """``[1]``: one element when the last elements of all streams have arrived."""
    signals = []
    for r, x in enumerate(outputs):
        end = x.promote(label=f"all.{r}").accum(fn.signal, 1, label=f"end.{r}")
        signals.append(end.assume_shape(1))
    every = selector(np.ones((1, len(signals)), dtype=int), label="every_region")
    joined = reassemble(signals, every, rank=0, label="join_ends")
    return joined.accum(fn.signal, 1, label="barrier")


@dataclass(frozen=True)
class _Front:
    """QKV generation and attention. Request i is generated in region ``i mod R``.

    Tasks are ordered by head, and by request within a head. A region of QKV generation without a
    request is not built; in dynamic attention, all regions that get a task are built.

    Attributes
    ----------
    latent : dimensions of latent attention; None for grouped heads.
    """

    graph: AttentionGraph
    latent: LatentHeads | None
    regions: int
    batch: int
    qkv_bw: int

    def build(self, strategy: str) -> tuple[list[RegionResult], dict[Any, Any]]:
        shares = round_robin(self.batch, self.regions)
        rows = [self.generate(r, len(share)) for r, share in enumerate(shares)]
        if strategy == "dynamic":
            return self.dynamic(rows)
        heads = self.graph.shape.kv_heads
        lanes = [[h * self.batch + i for h in range(heads) for i in share] for share in shares]
        works = []
        for r, (own, lane) in enumerate(zip(rows, lanes, strict=True)):
            named = zip(("index", "tiles", "offset"), self.graph.numbers(lane), strict=True)
            numbers = [metadata(values, label=f"{what}.{r}") for what, values in named]
            unit = [x.unsqueeze(0, label=f"task.{r}") for x in own]
            works.append(Work(*unit, *numbers))
        results = [self.graph.region(work, r) for r, work in enumerate(works)]
        return results, self.graph.symbols(works, lanes)

    def dynamic(
        self, rows: Sequence[Sequence[Stream]]
    ) -> tuple[list[RegionResult], dict[Any, Any]]:
        """Tasks in order of heads and requests, distributed to the regions as they become free."""
        tasks, shares = self.graph.tasks, len(rows)
        turns = np.eye(shares, dtype=int)[np.arange(tasks) % self.batch % shares][np.newaxis]
        streams: dict[str, Stream] = {}
        for what, parts in zip(("query", "key", "value"), zip(*rows, strict=True), strict=True):
            order = selector(turns, label=f"turns_{what}")
            streams[what] = reassemble(parts, order, rank=0, label=f"join_{what}")
        named = zip(("index", "tiles", "offset"), self.graph.numbers(range(tasks)), strict=True)
        for what, values in named:
            streams[what] = metadata(values[np.newaxis], label=what)
        return self.graph.dynamic(streams, round_robin(tasks, self.regions))

    def generate(self, r: int, requests: int) -> Rows:
        """Queries, keys and values ``[tasks of the region]`` of one region."""
        shape, step = self.graph.shape, Generation(r, requests, self.graph.types, self.qkv_bw)
        if self.latent is None:
            return step.grouped(shape)
        return step.latent(shape, self.latent)
