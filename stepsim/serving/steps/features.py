"""What the time of a layer follows from: cycles that each of its resources takes alone.

Terms are sums and maxima over blocks, regions and experts that are cheap to compute for every step
and layer. A layer is two stages, since a barrier ends attention: QKV generation with attention, and
the output projection with the feed-forward network.

On several chips, terms are those of the part that one chip has, with the experts of the busiest
one; the links are one more resource.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, log2
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepsim.serving.scheduling.interface import Batch
from stepsim.workloads import DYNAMIC, Step, StepBlocks

if TYPE_CHECKING:
    from stepsim.machine import Machine

Reals = NDArray[np.float64]

WEIGHTS, CACHE, ATTENTION, PRODUCTS, EXPERTS = (
    "weights streaming", "KV streaming", "attention compute", "matrix compute", "expert compute",
)  # fmt: skip
IMBALANCE, LINKS = "imbalance of experts", "links between chips"
"""What limits a step, by the largest of its terms."""

_LOAD_BYTES: Final = 64
"""Bytes that a load requests per cycle."""

_UNEVEN: Final = 2.0
"""The busiest expert has so many times the mean load of those in use: then it is imbalance."""


@dataclass(frozen=True, eq=False, slots=True)
class LayerTerms:
    """Terms of the layers of one kind in one step.

    Attributes
    ----------
    values : [layers, terms]
    offchip_bytes : exact. [layers]
    bound : the resource of the largest term, if that was asked for. [layers]
    """

    values: Reals
    offchip_bytes: NDArray[np.int64]
    bound: list[str]


class _Link(NamedTuple):
    """What an all-reduce takes: cycles of latency, and for each byte of its rows."""

    waits: float
    of_byte: float


def _link(members: int, collective: str, machine: Machine) -> _Link:
    """All-reduces of so many chips over the slowest of the dimensions that they are in."""
    assert machine.chips is not None
    assert machine.clock_ghz is not None
    spanned, reached = [], 1
    for dimension in machine.chips.dimensions:
        if reached < members and dimension.chips > 1:
            spanned.append(dimension)
            reached *= dimension.chips
    rounds = {"ring": members - 1, "direct": 1, "halving-doubling": ceil(log2(members))}
    turns = rounds[collective]
    waits = 2 * turns * max(one.latency_ns for one in spanned)
    of_byte = 2 * (1 - 1 / members) / min(one.bytes_per_ns for one in spanned)
    return _Link(waits * machine.clock_ghz, of_byte * machine.clock_ghz)


class LayerModel:
    """The terms of layers of one kind on a machine.

    Attributes
    ----------
    experts : whether the network has experts.
    """

    def __init__(self, workload: Step, machine: Machine) -> None:
        split = workload.split
        self._split, self._routed = split, workload.layer_model.feed_forward.experts
        collective = workload.collective
        self.workload = workload = replace(
            workload, model=split.model(workload.model), tp=1, ep=1, collective="ring"
        )
        self._link = _Link(0.0, 0.0)
        if split.chips > 1:
            self._link = _link(split.tp, collective, machine)
        model, types = workload.layer_model, workload.types
        shape, ffn = model.attention, model.feed_forward
        self.experts = model.experts is not None
        self._bytes_per_cycle = machine.peak_bandwidth
        self._width = types.weights.bits / 8
        self._cached = types.cache.bits / 8
        self._active = types.activations.bits / 8
        d = model.model_dim
        heads = workload.latent
        if heads is None:
            qkv = d * (shape.heads + 2 * shape.kv_heads) * shape.head_dim
            out = shape.heads * shape.value_width * d
        else:
            rank, nope, rope = heads.kv_lora_rank, heads.qk_nope_head_dim, heads.qk_rope_head_dim
            down = 0 if heads.q_lora_rank is None else d * heads.q_lora_rank
            qkv = d * (rank + rope) + down + nope * heads.heads * rank
            qkv += (heads.q_lora_rank or d) * heads.heads * (nope + rope)
            out = heads.heads * heads.v_head_dim * (rank + d)
        self._qkv, self._out = qkv, out
        self._router = d * self._routed if self.experts else 0
        self._expert = 3 * d * ffn.inner_dim
        self._shape, self._ffn, self._d = shape, ffn, d
        turned = shape.head_dim if heads is None else heads.qk_rope_head_dim
        # Cosines and sines of a token, its row in and out, and its keys and values.
        self._row_bytes = self._active * (turned + 2 * d)
        self._kv_row = shape.kv_heads * (shape.head_dim + shape.value_width)

    def terms(
        self, batch: Batch, counts: NDArray[np.int64] | None, *, bounds: bool = True
    ) -> LayerTerms:
        """Terms of layers whose experts have so many tokens, ``[layers, experts]``; dense: None."""
        w, shape, peak = self.workload, self._shape, self._bytes_per_cycle
        blocks = StepBlocks(
            batch.new, batch.before, w.query_tile, w.kv_tile, w.window, w.attention_regions
        )
        tokens = float(batch.new.sum())
        rows = np.array([blocks.rows[share].sum() for share in blocks.shares], dtype=float)
        tallest = float(rows.max())
        qkv_compute = 2 * tallest * self._qkv / w.qkv_bw
        out_compute = 2 * tallest * self._out / w.qkv_bw
        qkv_weights = self._qkv * self._width / peak
        out_weights = (self._out + self._router) * self._width / peak
        tile_rows = float(blocks.tiles.sum()) * w.kv_tile
        read = tile_rows * self._kv_row * self._cached
        load = w.kv_tile * shape.head_dim * self._cached / _LOAD_BYTES
        group = shape.queries_per_kv_head
        compute = 2 * group * shape.head_dim * w.kv_tile * blocks.rows / w.attention_bw
        each = blocks.tiles * np.maximum(compute, load)
        regions = min(w.attention_regions, shape.kv_heads * len(blocks.rows))
        attention = shape.kv_heads * float(each.sum()) / regions
        longest = float(each.max())
        in_turn = max(attention, longest, read / peak)
        common = [
            1.0, tokens, tallest, max(qkv_compute, qkv_weights), attention, longest, read / peak,
            in_turn, max(in_turn, qkv_compute, qkv_weights), max(out_compute, out_weights),
            float(blocks.tiles.sum()), float(len(blocks.rows)),
        ]  # fmt: skip
        # The shared expert has all tokens; it works beside the others.
        shared_tiles, shared_busy = self._of_expert(np.array([tokens]), self._ffn.shared_inner)
        shared_elements = 3 * self._d * self._ffn.shared_inner * float(shared_tiles.sum())
        shared_weights = shared_elements * self._width / peak
        if shared_elements:
            common += [float(shared_busy.sum()), max(float(shared_busy.sum()), shared_weights)]
        fixed = (self._qkv + self._out + self._router + shared_elements + 2 * self._d) * self._width
        # Factors of norms have the type of activations, which is as wide or wider.
        fixed += 2 * self._d * (self._active - self._width)
        moved = fixed + tokens * self._row_bytes + tokens * self._kv_row * self._cached + read
        loads = np.full((1, 1), tokens) if counts is None else counts.astype(float)
        parts = loads.reshape(len(loads), self._split.ep, -1)
        each_part = [self._of_experts(parts[:, part]) for part in range(parts.shape[1])]
        used, most, tiles, busy = (np.max(found, axis=0) for found in zip(*each_part, strict=True))
        every_tile = self._split.sharing * sum(found[2] for found in each_part)
        weights = tiles * self._expert * self._width / peak
        own = np.stack(
            [used, most, weights, busy, np.maximum(weights, busy), np.sqrt(weights * busy)], axis=1
        )
        values = np.concatenate([np.tile(common, (len(loads), 1)), own], axis=1)
        on_all = self._split.tp * moved + every_tile * self._expert * self._width
        bytes_moved = np.rint(on_all).astype(np.int64)
        # Two all-reduces follow each other.
        link = self._link
        links = 2 * (link.waits + link.of_byte * tokens * self._d * self._active)
        bound: list[str] = []
        if bounds:
            cycles = {
                WEIGHTS: qkv_weights + out_weights + shared_weights + weights,
                CACHE: max(read / peak, shape.kv_heads * blocks.tiles.sum() * load / regions),
                ATTENTION: shape.kv_heads * float((blocks.tiles * compute).sum()) / regions,
                PRODUCTS: qkv_compute + out_compute,
                EXPERTS: np.maximum(busy, shared_busy),
                LINKS: links,
            }
            mean = loads.sum(axis=1) / np.maximum((loads > 0).sum(axis=1), 1)
            uneven = (loads.max(axis=1) > _UNEVEN * mean) & (busy > shared_busy)
            bound = _largest(cycles, uneven)
        return LayerTerms(values, bytes_moved, bound)

    def _of_experts(self, loads: Reals) -> tuple[Reals, Reals, Reals, Reals]:
        """Experts in use, the largest load, tiles, and cycles of the busiest region."""
        w = self.workload
        used = (loads > 0).sum(axis=1).astype(float)
        most = loads.max(axis=1)
        tiles, busy = self._of_expert(loads, self._ffn.inner_dim)
        regions = w.expert_regions
        if regions is not None and self.experts:
            busy = busy.reshape(len(loads), regions, -1).sum(axis=2)
        return used, most, tiles.sum(axis=1), busy.max(axis=1)

    def _of_expert(self, loads: Reals, inner: int) -> tuple[Reals, Reals]:
        """Tiles, and cycles of one expert alone, for so many tokens each."""
        w = self.workload
        if w.tile == DYNAMIC:
            tiles = (loads > 0).astype(float)
            height: Any = loads
        else:
            tiles = np.ceil(loads / int(w.tile))
            height = float(w.tile)
        cycle = 2 * self._d * inner / w.network_bw
        load = self._d * inner * self._width / _LOAD_BYTES
        return tiles, tiles * np.maximum(height * cycle, load)


def _largest(cycles: dict[str, Any], uneven: NDArray[np.bool_]) -> list[str]:
    """The resource that takes the longest in each layer; of equal ones the first."""
    names = list(cycles)
    each = np.broadcast_arrays(uneven, *cycles.values())[1:]
    return [
        IMBALANCE if names[at] == EXPERTS and far else names[at]
        for at, far in zip(np.argmax(each, axis=0).tolist(), uneven.tolist(), strict=True)
    ]
