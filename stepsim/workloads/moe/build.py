"""The program of a mixture-of-experts layer (STeP paper, sections 5.2 to 5.4).

Every step is built for all experts before the next one starts; this order determines the numbers of
the memory ports. A model's shared expert comes last; it reads the activations again, so it cannot
stall the routed ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stepsim.deferred import deferred
from stepsim.graph import (
    Program,
    Routing,
    Stream,
    allocated_compute,
    fn,
    linear_load,
    linear_store,
    map as map_stream,
    map_accum,
    measured_bytes,
    partition,
    reassemble,
    routing,
    spec,
)
from stepsim.workloads.built import Built, Counted
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.inputs import Data
from stepsim.workloads.models import EXPERTS, MoEShape
from stepsim.workloads.parameters import DYNAMIC
from stepsim.workloads.tensors import own_name, tensor_of, weights_of

if TYPE_CHECKING:
    from stepsim.workloads.moe import regions as sharing
    from stepsim.workloads.moe.parameters import Moe
else:
    sharing = deferred("stepsim.workloads.moe.regions")

Table = np.ndarray[Any, Any]


class BuiltMoe(Built):
    """A built layer, with the conventions of the published figures.

    Attributes
    ----------
    routing : the routing of tokens to experts, still to be bound.
    final_sum : the published total of allocated compute includes the final accumulation; the script
        of the dynamic layer without sharing omits it.
    on_demand : the published on-chip memory is that of experts in use; for static tiles without
        sharing, it is that of all experts.
    """

    def __init__(
        self, program: Program, routing: Routing, workload: Moe, batch: int, *, plain: bool
    ) -> None:
        super().__init__(program, notes=workload.model.notes(EXPERTS))
        self.routing = routing
        self.workload = workload
        self.batch = batch
        self.is_dynamic = workload.tile == DYNAMIC
        self.final_sum = not (plain and self.is_dynamic)
        self.on_demand = workload.regions is not None or self.is_dynamic

    def bindings(self, data: Data) -> Mapping[Any, Any]:
        return {} if data.routing is None else {self.routing: data.routing}

    def padded_flops(self, data: Data) -> int:
        counts = self.routing.counts_of(data.routing)
        return padding_flops(self.workload.model.moe, self.workload.tile, counts)

    def published(self, data: Data) -> Counted:
        """As plotted: a row costs ``14 D F + F`` FLOPs, with the activation counted on D*F
        scalars."""
        traffic, memory = measured_bytes(
            self.program, self.bindings(data), counting="published", on_demand=self.on_demand
        )
        shape, routed = self.workload.model.moe, self.batch * self.workload.model.moe.active
        rows = sum(self._padded(count) for count in self.routing.counts_of(data.routing))
        each, shared = self._flops_per_row(shape.inner_dim), self._flops_per_row(shape.shared_inner)
        shared_rows = self._padded(self.batch)
        return Counted(
            offchip_bytes=traffic,
            onchip_bytes=memory,
            flops=rows * each + shared_rows * shared,
            padded_flops=(rows - routed) * each + (shared_rows - self.batch) * shared,
            allocated_flops_per_cycle=self.published_compute(allocated_compute(self.program)),
        )

    def published_compute(self, total: int) -> int:
        """A total over all operators as counted in the figures."""
        return total if self.final_sum else total - self.workload.compute_bw

    def _padded(self, rows: int) -> int:
        tile = self.workload.tile
        return rows if isinstance(tile, str) else -(-rows // tile) * tile

    def _flops_per_row(self, inner: int) -> int:
        return 14 * self.workload.model.moe.model_dim * inner + inner


def build_moe(workload: Moe, batch: int) -> BuiltMoe:
    """The layer for ``batch`` tokens, whose routing stays to be bound."""
    model, tile, regions = workload.model.moe, workload.tile, workload.regions
    plain, types = regions is None or regions == model.experts, workload.types
    title = f"moe_{model.name}_b{batch}_{tile}" + ("" if regions is None else f"_r{regions}")
    pack, dynamic = workload.pack_bw or workload.compute_bw, tile == DYNAMIC
    with Program(title, compute_bw=workload.compute_bw, fifo_depth=workload.fifo_depth) as program:
        table = routing(spec(batch, model.active), model.experts)
        rows = activations("activations", batch, model, types)
        blocks = dispatch(rows, table, tile, pack)
        if regions is None or plain:
            done = routed_experts(blocks, model, types, workload.tile_inter, dynamic=dynamic)
        else:
            done = sharing.shared_experts(
                blocks, model, types, regions, workload.tile_inter, dynamic=dynamic
            )
        summed = combine(done, stored_scales(table, types), table)
        if model.shared_inner:
            again = activations("shared_activations", batch, model, types)
            summed = with_shared(summed, again, model, types, tile, workload.tile_inter, pack)
        store_rows(summed)
    return BuiltMoe(program, table, workload, batch, plain=plain)


def padding_flops(shape: MoEShape, tile: int | str, loads: Sequence[int]) -> int:
    """FLOPs that the operators spend on padding rows.

    ``loads`` are the rows of each routed expert.
    """
    if isinstance(tile, str):
        return 0
    routed = sum(-rows % tile for rows in loads)
    shared = -(sum(loads) // shape.active) % tile
    # Three products of a row with D x F weights; SiLU (8) and a product (1) per inner element.
    per_inner = 6 * shape.model_dim + 9
    return per_inner * (routed * shape.inner_dim + shared * shape.shared_inner)


def activations(
    label: str, rows: int, model: MoEShape, types: ElementTypes, after: Stream | None = None
) -> Stream:
    """Load ``[rows]`` activations, one row each.

    With ``after``, a stream of one element, they are loaded when it arrives.
    """
    d = model.model_dim
    loaded = linear_load(
        tensor_of(rows, d, dtype=types.activations, name="activations"), (1, d),
        shape=(rows, 1), stride=(1, 1), ref=after, label=label,
    )  # fmt: skip
    return loaded.flatten(0, loaded.rank)


def dispatch(rows: Stream, table: Routing, tile: int | str, pack_bw: int) -> list[Stream]:
    """Route ``[tokens]`` of one row each to the experts and pack them into tiles."""
    sent = partition(rows, table.multihot(label="route"), rank=0, label="dispatch")
    return pack(sent, [str(e) for e in range(len(sent))], tile, pack_bw)


def pack(
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
    blocks: Sequence[Stream],
    model: MoEShape,
    types: ElementTypes,
    tile_inter: int,
    *,
    dynamic: bool,
    names: Sequence[str] | None = None,
) -> list[Stream]:
    """Packed tiles of every expert to its result rows, each expert in a separate region."""
    given = [str(e) for e in range(len(blocks))] if names is None else names
    return _experts(blocks, given, model, types, tile_inter, dynamic=dynamic)


def _experts(
    blocks: Sequence[Stream],
    names: Sequence[str],
    model: MoEShape,
    types: ElementTypes,
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
                weights_of(*shape, dtype=types.weights, name=f"{what}.{e}"), tile,
                shape=(steps, 1), stride=(1, 1), ref=x, label=f"load_{what}.{e}",
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


def stored_scales(table: Routing, types: ElementTypes) -> list[Stream]:
    """The weights of the rows of each expert, which a router left off chip."""
    scales = linear_load(
        tensor_of(table.rows, table.k, dtype=types.activations, name="router_scales"), (1, 1),
        shape=(table.rows, table.k), stride=(table.k, 1), label="router_scales",
    )  # fmt: skip
    return partition(scales, table.onehot(label="scale_route"), rank=0, label="scales")


def combine(results: Sequence[Stream], scales: Sequence[Stream], table: Routing) -> Stream:
    """Scale every row by its router weight and add the K rows of each token: ``[tokens]``."""
    scaled = [
        map_stream(fn.mul, s, x, label=f"scale.{e}")
        for e, (s, x) in enumerate(zip(scales, results, strict=True))
    ]
    joined = reassemble(scaled, table.multihot(label="collect"), rank=0, label="combine")
    return joined.accum(fn.add, 1, label="sum_experts")


def with_shared(
    summed: Stream,
    rows: Stream,
    model: MoEShape,
    types: ElementTypes,
    tile: int | str,
    tile_inter: int,
    pack_bw: int,
) -> Stream:
    """The sum over experts and the shared expert, which all ``rows`` visit.

    The ``rows`` are read again, or wait in deep FIFOs: the results of the shared expert wait for
    those of the routed ones, which may need the last row, so neither may hold up the rows of the
    other.
    """
    inner = replace(model, inner_dim=model.shared_inner, shared_inner=0)
    block = pack([rows], ["shared"], tile, pack_bw)
    (shared,) = _experts(block, ["shared"], inner, types, tile_inter, dynamic=tile == DYNAMIC)
    return map_stream(fn.add, summed, shared, label="add_shared")


def store_rows(x: Stream) -> None:
    """Write ``[tokens]`` rows off chip, as ``output``."""
    linear_store(x.reshape(1, write_back=True, label="rows"), own_name("output"), label="store")
