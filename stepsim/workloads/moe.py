"""Mixture-of-experts layer with static or dynamic row tiles (STeP paper, sections 5.2 and 5.3).

Every step is built for all experts before the next one starts: this order numbers the memory ports.
"""

from __future__ import annotations

from collections.abc import Sequence
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
        """Rows computed over all experts, padding included."""
        counts = self.routing.counts_of(indices)
        if isinstance(self.tile, str):
            return sum(counts)
        return sum(-(-c // self.tile) * self.tile for c in counts)

    def published_flops(self, indices: Table) -> int:
        """FLOPs as published: ``rows * (14 D F + F)``, the activation charged on D*F scalars."""
        return self.padded_rows(indices) * self._flops_per_row

    def published_padded_flops(self, indices: Table) -> int:
        """The part of :meth:`published_flops` that is padding."""
        real = self.batch * self.shape.active
        return (self.padded_rows(indices) - real) * self._flops_per_row

    @property
    def _flops_per_row(self) -> int:
        d, f = self.shape.model_dim, self.shape.inner_dim
        return 14 * d * f + f

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
        results = _experts(blocks, model, tile_inter, dynamic=tile == DYNAMIC)
        combine(results, table, batch, model)
    counted = tile != DYNAMIC
    return MoEWorkload(
        program, table, model, batch, tile, tile_inter, compute_bw, final_sum=counted
    )


def check_layer(who: str, model: MoEShape, batch: int, tile: int | str, tile_inter: int) -> None:
    """Argument checks common to the layer's variants."""
    if isinstance(tile, bool) or not (tile == DYNAMIC or (isinstance(tile, int) and tile >= 1)):
        raise ArgError(f"{who}: tile is an int >= 1 or '{DYNAMIC}', found {tile!r}")
    if batch < 1 or tile_inter < 1 or model.inner_dim % tile_inter:
        raise ArgError(
            f"{who}: batch >= 1 and tile_inter a divisor of {model.inner_dim}, found {batch}, "
            f"{tile_inter}"
        )


def dispatch(table: Routing, model: MoEShape, tile: int | str, pack_bw: int) -> list[Stream]:
    """Load the activations, route their rows to the experts and pack them into tiles."""
    d = model.model_dim
    tokens = linear_load(
        spec(table.rows, d, name="activations"), (1, d), shape=(table.rows, 1), stride=(1, 1),
        label="activations",
    ).flatten(0, 1)  # fmt: skip
    rows = partition(tokens, table.multihot(label="route"), rank=0, label="dispatch")
    return _pack(rows, tile, pack_bw)


def _pack(rows: Sequence[Stream], tile: int | str, pack_bw: int) -> list[Stream]:
    """Rows of every expert to tiles: chunks of ``tile`` rows, or all rows in one tile."""
    if tile == DYNAMIC:
        chunks = [x.reshape(1, add_outer=True, label=f"chunk.{e}") for e, x in enumerate(rows)]
        chunks = [x.flatten(0, 1, label=f"one_chunk.{e}") for e, x in enumerate(chunks)]
    else:
        size = int(tile)
        chunks = [
            x.reshape(size, pad=0, add_outer=True, label=f"chunk.{e}") for e, x in enumerate(rows)
        ]
        chunks = [x.flatten(1, 2, label=f"chunks.{e}") for e, x in enumerate(chunks)]
    return [
        x.accum(fn.pack_rows, 1, compute_bw=pack_bw, label=f"pack.{e}")
        for e, x in enumerate(chunks)
    ]


def _experts(
    blocks: Sequence[Stream], model: MoEShape, tile_inter: int, *, dynamic: bool
) -> list[Stream]:
    """The gated feed-forward network of every expert."""
    d, f = model.model_dim, model.inner_dim
    steps = f // tile_inter

    def weights(what: str, shape: tuple[int, int], tile: tuple[int, int]) -> list[Stream]:
        loads = [
            linear_load(
                spec(*shape, name=f"{what}.{e}"), tile, shape=(steps, 1), stride=(1, 1), ref=x,
                label=f"load_{what}.{e}",
            )
            for e, x in enumerate(blocks)
        ]  # fmt: skip
        return [w.flatten(0, 1, label=f"{what}.{e}") for e, w in enumerate(loads)]

    def matmuls(what: str, right: Sequence[Stream]) -> list[Stream]:
        pairs = enumerate(zip(acts, right, strict=True))
        return [map_stream(fn.matmul, a, w, label=f"matmul_{what}.{e}") for e, (a, w) in pairs]

    acts = [x.repeat(steps, label=f"repeat.{e}") for e, x in enumerate(blocks)]
    up = matmuls("up", weights("up", (d, f), (d, tile_inter)))
    gate = matmuls("gate", weights("gate", (d, f), (d, tile_inter)))
    gated = [map_stream(fn.silu, x, label=f"silu.{e}") for e, x in enumerate(gate)]
    hidden = [
        map_stream(fn.mul, u, g, label=f"gate.{e}")
        for e, (u, g) in enumerate(zip(up, gated, strict=True))
    ]
    down = weights("down", (f, d), (tile_inter, d))
    init = fn.empty((0, d)) if dynamic else None
    tiles = [
        map_accum(fn.matmul, h, w, 1, init, label=f"matmul_down.{e}")
        for e, (h, w) in enumerate(zip(hidden, down, strict=True))
    ]
    unpack = fn.unpack_rows(drop_padding=True)
    return [x.flat_map(unpack, label=f"unpack.{e}") for e, x in enumerate(tiles)]


def combine(results: Sequence[Stream], table: Routing, batch: int, model: MoEShape) -> None:
    """Scale every row by its router weight, add the K rows of each token, store."""
    scales = linear_load(
        spec(batch, model.active, name="router_scales"), (1, 1),
        shape=(batch, model.active), stride=(model.active, 1), label="router_scales",
    )  # fmt: skip
    per_expert = partition(scales, table.onehot(label="scale_route"), rank=0, label="scales")
    scaled = [
        map_stream(fn.mul, s, x, label=f"scale.{e}")
        for e, (s, x) in enumerate(zip(per_expert, results, strict=True))
    ]
    joined = reassemble(scaled, table.multihot(label="collect"), rank=0, label="combine")
    summed = joined.accum(fn.add, 1, label="sum_experts")
    linear_store(summed.reshape(1, write_back=True, label="rows"), "output", label="store")
