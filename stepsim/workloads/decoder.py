"""A decoder layer: QKV generation, decode attention and mixture of experts (STeP paper, figure 17).

The graph of the figure is not published. This one has what is known of it: the batch split four
ways for QKV generation and attention, expert parallelism, and the compute of every stage. It keeps
QKV generation and attention apart from the experts by a barrier: activations are loaded for the
experts when the last region has computed its last output. Norms, rotary embedding, the output
projection and residual sums are left out, as in the figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepsim.errors import ArgError
from stepsim.graph import (
    Program,
    Routing,
    Stream,
    fn,
    linear_load,
    metadata,
    partition,
    reassemble,
    routing,
    selector,
    spec,
)
from stepsim.graph import map as map_stream
from stepsim.graph.metrics import BoundMetrics
from stepsim.workloads.attention import check_arguments, checked_lengths, reserved_tokens
from stepsim.workloads.attention_graph import AttentionGraph, Lengths, RegionResult, Work
from stepsim.workloads.models import AttentionShape, MoEShape, attention_shape, moe_shape
from stepsim.workloads.moe import DYNAMIC, Table, check_layer, combine, dispatch, routed_experts
from stepsim.workloads.time_multiplexing import check_regions, shared_experts

__all__ = [
    "DEFAULTS",
    "VARIANTS",
    "DecoderWorkload",
    "check_decoder",
    "decoder_arguments",
    "decoder_layer",
    "published_decoder_config",
]

DEFAULTS: Mapping[str, int | None] = {
    "tile_inter": 64,
    "expert_regions": None,
    "attention_regions": 4,
    "kv_tile": 32,
    "max_length": None,
    "moe_bw": 1024,
    "attention_bw": 2048,
    "qkv_bw": 20480,
    "fifo_depth": 2,
}
"""Arguments of :func:`decoder_layer` that may be left out."""

VARIANTS = ("memory-matched", "performance-matched", "dynamic")

_PUBLISHED_TILES: dict[str, dict[str, int | str]] = {
    "mixtral-8x7b": dict(zip(VARIANTS, (16, 32, DYNAMIC), strict=True)),
    "qwen3-30b-a3b": dict(zip(VARIANTS, (8, 64, DYNAMIC), strict=True)),
}


@dataclass(frozen=True)
class DecoderWorkload:
    """A built layer.

    Attributes
    ----------
    expert_regions : regions that the experts share, None when each has its own.
    attention_regions : regions of QKV generation and attention.
    final_sum : the published total of allocated compute includes the sum over experts.
    symbols : values of the sizes that attention leaves open.
    """

    program: Program
    routing: Routing
    moe: MoEShape
    attention: AttentionShape
    kv_lengths: Lengths
    tile: int | str
    expert_regions: int | None
    attention_regions: int
    strategy: str
    moe_bw: int
    final_sum: bool
    symbols: Mapping[Any, Any]

    @property
    def batch(self) -> int:
        return len(self.kv_lengths)

    def metrics(self, indices: Table, *, memory: str = "published") -> BoundMetrics:
        """Bytes and FLOPs for a routing; idle experts are counted, as in the figure."""
        metrics = self.program.metrics(memory=memory)
        return metrics.bind({self.routing: np.asarray(indices), **self.symbols})

    @property
    def allocated_compute(self) -> int:
        """FLOPs per cycle of the three stages, in the figure's convention."""
        return self.published_compute(int(self.program.metrics().allocated_compute))

    def published_compute(self, total: int) -> int:
        """The figure's count of a total over all operators."""
        return total if self.final_sum else total - self.moe_bw


def published_decoder_config(model: str, variant: str) -> dict[str, Any]:
    """Arguments of :func:`decoder_layer`, but for the lengths, as far as figure 17 tells them.

    ``memory-matched`` and ``performance-matched`` use static tiles and interleaved attention,
    ``dynamic`` uses dynamic tiles, dynamic attention and, for Qwen, 32 shared expert regions.
    """
    if model not in _PUBLISHED_TILES or variant not in VARIANTS:
        raise ArgError(
            f"published_decoder_config: no point for model {model!r}, variant {variant!r}; models: "
            f"{', '.join(_PUBLISHED_TILES)}; variants: {', '.join(VARIANTS)}"
        )
    qwen, dynamic = model == "qwen3-30b-a3b", variant == "dynamic"
    return {
        "moe": model,
        "attention": "qwen3-30b-a3b-step" if qwen else model,
        "tile": _PUBLISHED_TILES[model][variant],
        "tile_inter": 48 if qwen else 64,
        "strategy": "dynamic" if dynamic else "interleaved",
        "expert_regions": 32 if qwen and dynamic else None,
    }


def decoder_arguments(
    model: str, given: Mapping[str, Any], variant: str | None = None
) -> dict[str, Any]:
    """Arguments of :func:`decoder_layer`, but for the lengths.

    They are the given ones that are not None, else those of the published ``variant``, else
    defaults; there are none for ``tile`` and ``strategy``.

    Raises
    ------
    ArgError
        There is no such variant of the model.
    """
    known = {} if variant is None else published_decoder_config(model, variant)
    own = {name: value for name, value in given.items() if value is not None}
    return {"moe": model, "attention": model, **DEFAULTS, **known, **own}


def decoder_layer(
    moe: MoEShape | str,
    attention: AttentionShape | str,
    kv_lengths: Sequence[int] | Lengths,
    tile: int | str,
    tile_inter: int = 64,
    strategy: str = "interleaved",
    *,
    expert_regions: int | None = None,
    attention_regions: int = 4,
    kv_tile: int = 32,
    max_length: int | None = None,
    moe_bw: int = 1024,
    attention_bw: int = 2048,
    qkv_bw: int = 20480,
    fifo_depth: int | None = 2,
    indices: Table | None = None,
    name: str | None = None,
) -> DecoderWorkload:
    """Build the layer for ``kv_lengths`` (cached tokens of each request, in order).

    Parameters
    ----------
    tile, tile_inter, expert_regions : of the experts, see ``moe_layer`` and
        ``time_multiplexed_moe``.
    strategy : ``interleaved`` or ``dynamic`` attention.
    attention_regions : regions of QKV generation and attention; must divide the batch.
    moe_bw, attention_bw, qkv_bw : FLOPs per cycle of each operator of a stage.
    indices : routing ``[batch, K]``; stays to be bound when not given.
    """
    experts = moe_shape(moe) if isinstance(moe, str) else moe
    heads = attention_shape(attention) if isinstance(attention, str) else attention
    lengths = checked_lengths("decoder_layer", kv_lengths)
    batch = len(lengths)
    reserved = check_decoder(
        experts, heads, lengths, tile=tile, tile_inter=tile_inter, strategy=strategy,
        expert_regions=expert_regions, attention_regions=attention_regions, kv_tile=kv_tile,
        max_length=max_length,
    )  # fmt: skip
    title = name or f"decoder_{experts.name}_b{batch}_{tile}_{strategy}"
    with Program(title, compute_bw=moe_bw, fifo_depth=fifo_depth) as program:
        graph = AttentionGraph(
            program, heads, np.tile(lengths, heads.kv_heads), kv_tile, reserved, attention_bw
        )
        front = _Front(graph, attention_regions, batch, qkv_bw)
        results, symbols = front.build(strategy)
        table = routing(
            spec(batch, experts.active) if indices is None else indices, experts.experts
        )
        after = barrier([r.output for r in results])
        blocks = dispatch(table, experts, tile, moe_bw, after=after)
        if expert_regions is None or expert_regions == experts.experts:
            rows = routed_experts(blocks, experts, tile_inter, dynamic=tile == DYNAMIC)
        else:
            rows = shared_experts(
                blocks, experts, expert_regions, tile_inter, dynamic=tile == DYNAMIC
            )
        combine(rows, table, experts, tile, tile_inter, moe_bw, after=after)
    plain = expert_regions is None or expert_regions == experts.experts
    return DecoderWorkload(
        program, table, experts, heads, lengths, tile, expert_regions, attention_regions, strategy,
        moe_bw, final_sum=not (plain and tile == DYNAMIC), symbols=symbols,
    )  # fmt: skip


def check_decoder(
    experts: MoEShape,
    heads: AttentionShape,
    lengths: Lengths,
    *,
    tile: int | str,
    tile_inter: int,
    strategy: str,
    expert_regions: int | None,
    attention_regions: int,
    kv_tile: int,
    max_length: int | None,
) -> int:
    """Check arguments of :func:`decoder_layer`; returns the tokens reserved for each request.

    Raises
    ------
    ArgError
        A value is out of range, does not divide, or the stages do not fit each other.
    """
    batch = len(lengths)
    check_layer("decoder_layer", experts, batch, tile, tile_inter)
    check_arguments("decoder_layer", batch, strategy, attention_regions, kv_tile)
    _check_stages(experts, heads, batch, strategy, attention_regions)
    if expert_regions is not None:
        check_regions("decoder_layer", experts, expert_regions)
    return reserved_tokens("decoder_layer", lengths, kv_tile, max_length)


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

    A region multiplies its rows with one column tile of a head at a time: the queries of a KV head,
    then its key and its value. Tasks come head by head, and by request within a head.
    """

    graph: AttentionGraph
    regions: int
    batch: int
    qkv_bw: int

    def build(self, strategy: str) -> tuple[list[RegionResult], dict[Any, Any]]:
        rows = [self.generate(r) for r in range(self.regions)]
        heads = self.graph.shape.kv_heads
        lanes = [
            [h * self.batch + i for h in range(heads) for i in range(r, self.batch, self.regions)]
            for r in range(self.regions)
        ]
        if strategy == "dynamic":
            return self.dynamic(rows, lanes)
        works = []
        for r, (own, lane) in enumerate(zip(rows, lanes, strict=True)):
            named = zip(("index", "tiles", "offset"), self.graph.numbers(lane), strict=True)
            numbers = [metadata(values, label=f"{what}.{r}") for what, values in named]
            unit = [x.unsqueeze(0, label=f"task.{r}") for x in own]
            works.append(Work(*unit, *numbers))
        results = [self.graph.region(work, r) for r, work in enumerate(works)]
        return results, self.graph.symbols(works, lanes)

    def dynamic(
        self, rows: Sequence[Sequence[Stream]], lanes: Sequence[Sequence[int]]
    ) -> tuple[list[RegionResult], dict[Any, Any]]:
        """Tasks in order of heads and requests, dealt to the regions as these become free."""
        tasks = self.graph.tasks
        turns = np.eye(self.regions, dtype=int)[np.arange(tasks) % self.regions][np.newaxis]
        streams: dict[str, Stream] = {}
        for what, parts in zip(("query", "key", "value"), zip(*rows, strict=True), strict=True):
            order = selector(turns, label=f"turns_{what}")
            streams[what] = reassemble(parts, order, rank=0, label=f"join_{what}")
        named = zip(("index", "tiles", "offset"), self.graph.numbers(range(tasks)), strict=True)
        for what, values in named:
            streams[what] = metadata(values[np.newaxis], label=what)
        return self.graph.dynamic(streams, lanes)

    def generate(self, r: int) -> tuple[Stream, Stream, Stream]:
        """Queries, keys and values ``[tasks of the region]`` of one region."""
        shape = self.graph.shape
        group, d, width = shape.queries_per_kv_head, shape.model_dim, shape.head_dim
        rows, tiles = self.batch // self.regions, shape.kv_heads * (group + 2)
        # the requests of a region lie together in the tensor of the layer's inputs
        hidden = linear_load(spec(rows, d, name=f"hidden.{r}"), (rows, d), label=f"hidden.{r}")
        block = hidden.flatten(0, 1, label=f"hidden_block.{r}")
        weights = linear_load(
            spec(d, tiles * width, name=f"qkv_weights.{r}"), (d, width), label=f"qkv_weights.{r}"
        )
        product = map_stream(
            fn.matmul, block.repeat(tiles, label=f"repeat_hidden.{r}"), weights,
            compute_bw=self.qkv_bw, label=f"matmul_qkv.{r}",
        )  # fmt: skip
        kinds = np.eye(3, dtype=int)[[0] * group + [1, 2]]
        which = selector(np.tile(kinds, (shape.kv_heads, 1)), label=f"is_qkv.{r}")
        columns = product.flatten(0, 1, label=f"qkv_columns.{r}")
        query, key, value = partition(columns, which, rank=0, label=f"split_qkv.{r}")
        heads = query.reshape(group, label=f"query_heads.{r}").accum(
            fn.pack_cols, 1, label=f"pack_query.{r}"
        )
        each = fn.emit(("rows",), (group, width))
        unpack = fn.unpack_rows()
        return (
            heads.flat_map(each, label=f"queries.{r}"),
            key.flat_map(unpack, label=f"keys.{r}"),
            value.flat_map(unpack, label=f"values.{r}"),
        )


def _check_stages(
    experts: MoEShape, heads: AttentionShape, batch: int, strategy: str, regions: int
) -> None:
    if experts.model_dim != heads.model_dim:
        raise ArgError(
            f"decoder_layer: the experts of {experts.name} and the attention of {heads.name} must "
            f"share a model dim, found {experts.model_dim} and {heads.model_dim}. Choose shapes of "
            "one model"
        )
    if heads.value_width != heads.head_dim:
        raise ArgError(
            f"decoder_layer: keys and values must be equally wide, found {heads.head_dim} and "
            f"{heads.value_width} for {heads.name}; QKV generation of latent attention is not "
            "known. Use attention() and moe_layer() for it"
        )
    if strategy == "coarse" or batch % regions:
        raise ArgError(
            f"decoder_layer: {strategy} attention over {regions} regions for {batch} requests; "
            "expected strategy 'interleaved' or 'dynamic' and attention_regions that divide the "
            "requests. Change one of them"
        )
