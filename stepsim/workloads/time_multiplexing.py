"""Mixture-of-experts layer whose experts share hardware regions (STeP paper, section 5.4).

Each region runs a group of consecutive experts: their packed tiles are merged as they arrive, the
weights are fetched by expert address, and the results are partitioned back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from stepsim.errors import ArgError
from stepsim.graph import (
    Program,
    Stream,
    eager_merge,
    fn,
    map_accum,
    partition,
    random_load,
    routing,
    spec,
)
from stepsim.graph import map as map_stream
from stepsim.graph.metrics import BoundMetrics
from stepsim.workloads.models import MoEShape, moe_shape
from stepsim.workloads.moe import (
    DYNAMIC,
    MoEWorkload,
    Table,
    check_layer,
    combine,
    dispatch,
    moe_layer,
)

__all__ = ["TimeMultiplexedMoE", "published_time_multiplexing_config", "time_multiplexed_moe"]


@dataclass(frozen=True)
class TimeMultiplexedMoE(MoEWorkload):
    """A built layer with shared regions.

    Attributes
    ----------
    regions : parallel regions; one for each expert is the layer without sharing.
    """

    regions: int

    @property
    def experts_per_region(self) -> int:
        return self.shape.experts // self.regions

    def published_metrics(self, indices: Table, *, on_demand: bool | None = None) -> BoundMetrics:
        """Bytes as plotted: every point of these figures counts what the trace uses only."""
        demand = True if on_demand is None else on_demand
        return super().published_metrics(indices, on_demand=demand)


def published_time_multiplexing_config(tile: int | str, regions: int) -> dict[str, Any]:
    """Arguments of :func:`time_multiplexed_moe` for a point of the published figures."""
    return {
        "shape": "qwen3-30b-a3b",
        "batch": 64,
        "tile": tile,
        "regions": regions,
        "tile_inter": 48,
        "compute_bw": 1024,
        "fifo_depth": 2,
    }


def time_multiplexed_moe(
    shape: MoEShape | str,
    batch: int,
    tile: int | str,
    regions: int,
    tile_inter: int = 48,
    *,
    compute_bw: int = 1024,
    fifo_depth: int | None = 2,
    indices: Table | None = None,
    name: str | None = None,
) -> TimeMultiplexedMoE:
    """Build the layer with ``regions`` regions of ``E / regions`` consecutive experts each.

    With one region for each expert nothing is shared: the program is that of
    :func:`~stepsim.workloads.moe.moe_layer`. Without ``indices`` (``[batch, K]``) the routing stays
    to be bound.
    """
    model = moe_shape(shape) if isinstance(shape, str) else shape
    check_layer("time_multiplexed_moe", model, batch, tile, tile_inter)
    check_regions("time_multiplexed_moe", model, regions)
    title = name or f"moe_{model.name}_b{batch}_{tile}_r{regions}"
    if regions == model.experts:
        plain = moe_layer(
            model, batch, tile, tile_inter,
            compute_bw=compute_bw, fifo_depth=fifo_depth, indices=indices, name=title,
        )  # fmt: skip
        own = {f.name: getattr(plain, f.name) for f in fields(plain)}
        return TimeMultiplexedMoE(**own, regions=regions)
    with Program(title, compute_bw=compute_bw, fifo_depth=fifo_depth) as program:
        table = routing(spec(batch, model.active) if indices is None else indices, model.experts)
        blocks = dispatch(table, model, tile, compute_bw)
        rows = shared_experts(blocks, model, regions, tile_inter, dynamic=tile == DYNAMIC)
        combine(rows, table, model, tile, tile_inter, compute_bw)
    return TimeMultiplexedMoE(
        program, table, model, batch, tile, tile_inter, compute_bw, final_sum=True, regions=regions
    )


def check_regions(who: str, model: MoEShape, regions: int) -> None:
    """Regions share the experts evenly."""
    if (
        isinstance(regions, bool)
        or not isinstance(regions, int)
        or regions < 1
        or model.experts % regions
    ):
        choices = [r for r in range(1, model.experts + 1) if model.experts % r == 0]
        raise ArgError(
            f"{who}: regions must divide the {model.experts} experts of "
            f"{model.name}, found {regions!r}. Choose one of {', '.join(map(str, choices))}"
        )


def shared_experts(
    blocks: Sequence[Stream], model: MoEShape, regions: int, tile_inter: int, *, dynamic: bool
) -> list[Stream]:
    """Packed tiles of every expert to its result rows, through ``regions`` shared regions."""
    group = model.experts // regions
    merged = [
        eager_merge(blocks[r * group : (r + 1) * group], rank=0, label=f"region.{r}")
        for r in range(regions)
    ]
    tiles = _regions(merged, model, tile_inter, group, dynamic=dynamic)
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
            random_load(a, spec(*shape, name=f"{what}.{r}"), tile, label=f"load_{what}.{r}")
            for r, a in enumerate(addresses)
        ]
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
