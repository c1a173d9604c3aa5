"""Experts that share hardware regions in time (STeP paper, section 5.4).

Each region runs a group of consecutive experts: their packed tiles are merged as they arrive, the
weights are fetched by expert address, and the results are partitioned by expert again.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepsim.graph import (
    Stream,
    eager_merge,
    fn,
    map as map_stream,
    map_accum,
    partition,
    random_load,
)
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.models import MoEShape
from stepsim.workloads.tensors import weights_of


def shared_experts(
    blocks: Sequence[Stream],
    model: MoEShape,
    types: ElementTypes,
    regions: int,
    tile_inter: int,
    *,
    dynamic: bool,
) -> list[Stream]:
    """Packed tiles of every expert to its result rows, through ``regions`` shared regions."""
    group = model.experts // regions
    merged = [
        eager_merge(blocks[r * group : (r + 1) * group], rank=0, label=f"region.{r}")
        for r in range(regions)
    ]
    tiles = _regions(merged, model, types, tile_inter, group, dynamic=dynamic)
    split = [
        partition(x, which, rank=0, label=f"split.{r}")
        for r, (x, (_, which)) in enumerate(zip(tiles, merged, strict=True))
    ]
    unpack = fn.unpack_rows(drop_padding=True)
    return [
        x.flat_map(unpack, label=f"unpack.{e}")
        for e, x in enumerate(x for region in split for x in region)
    ]


def _regions(
    merged: Sequence[tuple[Stream, Stream]],
    model: MoEShape,
    types: ElementTypes,
    tile_inter: int,
    group: int,
    *,
    dynamic: bool,
) -> list[Stream]:
    """The gated feed-forward network of every region, weights fetched by expert address."""
    d, f = model.model_dim, model.inner_dim
    steps = f // tile_inter
    acts = [data.repeat(steps, label=f"repeat.{r}") for r, (data, _) in enumerate(merged)]
    address = fn.expert_addresses(steps)
    addresses = [
        which.flat_map(address, label=f"addresses.{r}") for r, (_, which) in enumerate(merged)
    ]

    def weights(what: str, shape: tuple[int, int], tile: tuple[int, int]) -> list[Stream]:
        loads = [
            random_load(
                a, weights_of(*shape, dtype=types.weights, name=f"{what}.{r}"), tile,
                label=f"load_{what}.{r}",
            )
            for r, a in enumerate(addresses)
        ]  # fmt: skip
        return [w.flatten(0, 1, label=f"{what}.{r}") for r, w in enumerate(loads)]

    def matmuls(what: str, right: Sequence[Stream]) -> list[Stream]:
        pairs = enumerate(zip(acts, right, strict=True))
        return [map_stream(fn.matmul, a, w, label=f"matmul_{what}.{r}") for r, (a, w) in pairs]

    up = matmuls("up", weights("up", (group * d, f), (d, tile_inter)))
    gate = matmuls("gate", weights("gate", (group * d, f), (d, tile_inter)))
    gated = [map_stream(fn.silu, x, label=f"silu.{r}") for r, x in enumerate(gate)]
    hidden = [
        map_stream(fn.mul, u, g, label=f"gate.{r}")
        for r, (u, g) in enumerate(zip(up, gated, strict=True))
    ]
    down = weights("down", (group * f, d), (tile_inter, d))
    init = fn.empty((0, d)) if dynamic else None
    return [
        map_accum(fn.matmul, h, w, 1, init, label=f"matmul_down.{r}")
        for r, (h, w) in enumerate(zip(hidden, down, strict=True))
    ]
