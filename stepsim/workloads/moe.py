"""Mixture-of-experts layer with static or dynamic row tiles (STeP paper, sections 5.2 and 5.3).

Every step is built for all experts before the next one starts: this order numbers the memory ports.
A model's shared expert comes last; it reads the activations again, so that it cannot hold up the
routed ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stepsim.errors import ArgError
from stepsim.graph import (
    Program,
    Routing,
    Stream,
    fn,
    linear_load,
    linear_store,
    map_accum,
    partition,
    reassemble,
    routing,
    spec,
)
from stepsim.graph import map as map_stream
from stepsim.graph.metrics import BoundMetrics
from stepsim.workloads.models import MoEShape, moe_shape

__all__ = ["DYNAMIC", "MoEWorkload", "moe_layer", "published_config"]

DYNAMIC = "dynamic"
Table = np.ndarray[Any, Any]


@dataclass(frozen=True)
class MoEWorkload:
    """A built layer and the conventions of the published figures.

    Attributes
    ----------
    tile : rows per tile, or ``"dynamic"`` (one tile per active expert).
    final_sum : the published total of allocated compute includes the final accumulation; the driver
        of the dynamic layer without sharing forgets it.
    """

    program: Program
    routing: Routing
    shape: MoEShape
    batch: int
    tile: int | str
    tile_inter: int
    compute_bw: int
    final_sum: bool

    @property
    def is_dynamic(self) -> bool:
        return self.tile == DYNAMIC

    def padded_rows(self, indices: Table) -> int:
        """Rows computed over all routed experts, padding included."""
        return sum(self._padded(c) for c in self.routing.counts_of(indices))

    def _padded(self, rows: int) -> int:
        return rows if isinstance(self.tile, str) else -(-rows // self.tile) * self.tile

    def published_flops(self, indices: Table) -> int:
        """FLOPs as published: ``rows * (14 D F + F)``, the activation charged on D*F scalars."""
        shared = self._padded(self.batch) * self._flops_per_row(self.shape.shared_inner)
        return self.padded_rows(indices) * self._flops_per_row(self.shape.inner_dim) + shared

    def published_padded_flops(self, indices: Table) -> int:
        """The part of :meth:`published_flops` that is padding."""
        routed = self.padded_rows(indices) - self.batch * self.shape.active
        shared = self._padded(self.batch) - self.batch
        return routed * self._flops_per_row(self.shape.inner_dim) + shared * self._flops_per_row(
            self.shape.shared_inner
        )

    def _flops_per_row(self, inner: int) -> int:
        return 14 * self.shape.model_dim * inner + inner

    @property
    def allocated_compute(self) -> int:
        total = int(self.program.metrics().allocated_compute)
        return total if self.final_sum else total - self.compute_bw

    def published_metrics(self, indices: Table, *, on_demand: bool | None = None) -> BoundMetrics:
        """Bytes as plotted: static tiling counts all experts, dynamic the used ones."""
        demand = self.is_dynamic if on_demand is None else on_demand
        metrics = self.program.metrics(memory="published", on_demand=demand)
        return metrics.bind({self.routing: np.asarray(indices)})


def published_config(model: str, batch: int, tile: int | str) -> dict[str, Any]:
    """Arguments of :func:`moe_layer` for a point of the published tiling figures.

    Static points use 4096 FLOPs/cycle everywhere; dynamic ones 6400, and 1024 for packing rows.
    The large-batch Qwen points were run with unbounded-like channels of 1024 elements.
    """
    shape = moe_shape(model)
    deep = shape.name == "qwen3-30b-a3b" and batch == 1024
    dynamic = tile == DYNAMIC
    return {
        "shape": shape,
        "batch": batch,
        "tile": tile,
        "tile_inter": 64,
        "compute_bw": 6400 if dynamic else 4096,
        "pack_bw": 1024 if dynamic else 4096,
        "fifo_depth": 1024 if deep else 2,
    }


def moe_layer(
    shape: MoEShape | str,
    batch: int,
    tile: int | str,
    tile_inter: int = 64,
    *,
    compute_bw: int = 4096,
    pack_bw: int | None = None,
    fifo_depth: int | None = 2,
    indices: Table | None = None,
    name: str | None = None,
) -> MoEWorkload:
    """Build the layer. Without ``indices`` (``[batch, K]``) the routing stays to be bound."""
    model = moe_shape(shape) if isinstance(shape, str) else shape
    check_layer("moe_layer", model, batch, tile, tile_inter)
    title = name or f"moe_{model.name}_b{batch}_{tile}"
    pack = compute_bw if pack_bw is None else pack_bw
    with Program(title, compute_bw=compute_bw, fifo_depth=fifo_depth) as program:
        table = routing(spec(batch, model.active) if indices is None else indices, model.experts)
        blocks = dispatch(table, model, tile, pack)
        results = routed_experts(blocks, model, tile_inter, dynamic=tile == DYNAMIC)
        combine(results, table, model, tile, tile_inter, pack)
    counted = tile != DYNAMIC
    return MoEWorkload(
        program, table, model, batch, tile, tile_inter, compute_bw, final_sum=counted
    )


def check_layer(who: str, model: MoEShape, batch: int, tile: int | str, tile_inter: int) -> None:
    """Argument checks common to the layer's variants."""
    if isinstance(tile, bool) or not (tile == DYNAMIC or (isinstance(tile, int) and tile >= 1)):
        raise ArgError(f"{who}: tile is an int >= 1 or '{DYNAMIC}', found {tile!r}")
    inner = [model.inner_dim] + [model.shared_inner] * (model.shared_inner > 0)
    if batch < 1 or tile_inter < 1 or any(f % tile_inter for f in inner):
        raise ArgError(
            f"{who}: batch >= 1 and tile_inter a divisor of {' and '.join(map(str, inner))}, found "
            f"{batch}, {tile_inter}"
        )


def dispatch(
    table: Routing, model: MoEShape, tile: int | str, pack_bw: int, *, after: Stream | None = None
) -> list[Stream]:
    """Load the activations, route their rows to the experts and pack them into tiles.

    With ``after``, a stream of one element, the activations are loaded when it arrives.
    """
    tokens = _activations("activations", table.rows, model, after)
    rows = partition(tokens, table.multihot(label="route"), rank=0, label="dispatch")
    return _pack(rows, [str(e) for e in range(len(rows))], tile, pack_bw)


def _activations(label: str, rows: int, model: MoEShape, after: Stream | None) -> Stream:
    """``[rows]`` of one row each."""
    d = model.model_dim
    loaded = linear_load(
        spec(rows, d, name="activations"), (1, d), shape=(rows, 1), stride=(1, 1), ref=after,
        label=label,
    )  # fmt: skip
    return loaded.flatten(0, loaded.rank)


def _pack(
    rows: Sequence[Stream], names: Sequence[str], tile: int | str, pack_bw: int
) -> list[Stream]:
    """Rows of every expert to tiles: chunks of ``tile`` rows, or all rows in one tile."""
    named = list(zip(names, rows, strict=True))
    if isinstance(tile, str):
        chunks = [x.reshape(1, add_outer=True, label=f"chunk.{e}") for e, x in named]
        chunks = [
            x.flatten(0, 1, label=f"one_chunk.{e}") for e, x in zip(names, chunks, strict=True)
        ]
    else:
        chunks = [x.reshape(tile, pad=0, add_outer=True, label=f"chunk.{e}") for e, x in named]
        chunks = [x.flatten(1, 2, label=f"chunks.{e}") for e, x in zip(names, chunks, strict=True)]
    return [
        x.accum(fn.pack_rows, 1, compute_bw=pack_bw, label=f"pack.{e}")
        for e, x in zip(names, chunks, strict=True)
    ]


def routed_experts(
    blocks: Sequence[Stream], model: MoEShape, tile_inter: int, *, dynamic: bool
) -> list[Stream]:
    """Packed tiles of every expert to its result rows, each expert in a region of its own."""
    return _experts(
        blocks, [str(e) for e in range(len(blocks))], model, tile_inter, dynamic=dynamic
    )


def _experts(
    blocks: Sequence[Stream],
    names: Sequence[str],
    model: MoEShape,
    tile_inter: int,
    *,
    dynamic: bool,
) -> list[Stream]:
    """The gated feed-forward network of every expert."""
    d, f = model.model_dim, model.inner_dim
    steps = f // tile_inter

    def named(streams: Sequence[Stream]) -> Iterator[tuple[str, Stream]]:
        return zip(names, streams, strict=True)

    def weights(what: str, shape: tuple[int, int], tile: tuple[int, int]) -> list[Stream]:
        loads = [
            linear_load(
                spec(*shape, name=f"{what}.{e}"), tile, shape=(steps, 1), stride=(1, 1), ref=x,
                label=f"load_{what}.{e}",
            )
            for e, x in named(blocks)
        ]  # fmt: skip
        return [w.flatten(0, 1, label=f"{what}.{e}") for e, w in named(loads)]

    def matmuls(what: str, right: Sequence[Stream]) -> list[Stream]:
        pairs = zip(names, acts, right, strict=True)
        return [map_stream(fn.matmul, a, w, label=f"matmul_{what}.{e}") for e, a, w in pairs]

    acts = [x.repeat(steps, label=f"repeat.{e}") for e, x in named(blocks)]
    up = matmuls("up", weights("up", (d, f), (d, tile_inter)))
    gate = matmuls("gate", weights("gate", (d, f), (d, tile_inter)))
    gated = [map_stream(fn.silu, x, label=f"silu.{e}") for e, x in named(gate)]
    hidden = [
        map_stream(fn.mul, u, g, label=f"gate.{e}")
        for e, u, g in zip(names, up, gated, strict=True)
    ]
    down = weights("down", (f, d), (tile_inter, d))
    init = fn.empty((0, d)) if dynamic else None
    tiles = [
        map_accum(fn.matmul, h, w, 1, init, label=f"matmul_down.{e}")
        for e, h, w in zip(names, hidden, down, strict=True)
    ]
    unpack = fn.unpack_rows(drop_padding=True)
    return [x.flat_map(unpack, label=f"unpack.{e}") for e, x in named(tiles)]


def combine(
    results: Sequence[Stream],
    table: Routing,
    model: MoEShape,
    tile: int | str,
    tile_inter: int,
    pack_bw: int,
    *,
    after: Stream | None = None,
) -> None:
    """Scale every row by its router weight, add the K rows of each token, store.

    A shared expert adds its row to every token; it starts with ``after`` as the routed ones do.
    """
    scales = linear_load(
        spec(table.rows, model.active, name="router_scales"), (1, 1),
        shape=(table.rows, model.active), stride=(model.active, 1), label="router_scales",
    )  # fmt: skip
    per_expert = partition(scales, table.onehot(label="scale_route"), rank=0, label="scales")
    scaled = [
        map_stream(fn.mul, s, x, label=f"scale.{e}")
        for e, (s, x) in enumerate(zip(per_expert, results, strict=True))
    ]
    joined = reassemble(scaled, table.multihot(label="collect"), rank=0, label="combine")
    summed = joined.accum(fn.add, 1, label="sum_experts")
    if model.shared_inner:
        inner = replace(model, inner_dim=model.shared_inner, shared_inner=0)
        rows = _activations("shared_activations", table.rows, model, after)
        block = _pack([rows], ["shared"], tile, pack_bw)
        (shared,) = _experts(block, ["shared"], inner, tile_inter, dynamic=tile == DYNAMIC)
        summed = map_stream(fn.add, summed, shared, label="add_shared")
    linear_store(summed.reshape(1, write_back=True, label="rows"), "output", label="store")
