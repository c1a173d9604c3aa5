"""The regions of decode attention: their computation, and how requests reach them.

Builders for the program under construction, shared by the attention workload and the decoder layer.
A *task* is one request of one KV head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepsim.graph import (
    Program,
    Stream,
    broadcast,
    fn,
    map as map_stream,
    map_accum,
    partition,
    random_load,
    random_store,
    reassemble,
)
from stepsim.workloads.attention.distribution import Distribution, RegionResult
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.models import AttentionShape
from stepsim.workloads.tensors import tensor_of

STORE_DEPTH = 4
"""Tiles that the store of a cache holds; this affects metrics only."""

Lengths = np.ndarray[Any, np.dtype[np.int64]]


def tiles_of(kv_lengths: Lengths, kv_tile: int) -> Lengths:
    """Tiles that hold every request's cached tokens and one more: ``ceil((L + 1) / kv_tile)``."""
    return -(-(kv_lengths + 1) // kv_tile)


@dataclass(frozen=True)
class Work:
    """The inputs of a region: rows as ``[n, 1]``, integers as ``[n]``."""

    query: Stream
    key: Stream
    value: Stream
    index: Stream
    tiles: Stream
    offset: Stream


@dataclass(frozen=True)
class AttentionGraph(Distribution[Work]):
    """Parts of an attention graph over ``kv_lengths``, one for each task.

    Attributes
    ----------
    reserved : cache tokens of one task, a multiple of ``kv_tile``.
    types : of the cache and, for queries, new rows and outputs, of the activations.
    compute_bw : FLOPs per cycle of each operator, None for the program's.
    stored : outputs are written off chip, as in the published graph.
    """

    program: Program
    shape: AttentionShape
    kv_lengths: Lengths
    kv_tile: int
    reserved: int
    types: ElementTypes
    compute_bw: int | None = None
    stored: bool = True

    @property
    def tasks(self) -> int:
        return len(self.kv_lengths)

    def numbers(self, lane: Sequence[int]) -> tuple[Lengths, Lengths, Lengths]:
        """Index, tiles, and rows in the last tile, of the tasks of a lane."""
        which = np.asarray(lane, dtype=np.int64)
        lengths = self.kv_lengths[which]
        return which, tiles_of(lengths, self.kv_tile), lengths % self.kv_tile

    def symbols(self, works: Sequence[Work], lanes: Sequence[Sequence[int]]) -> dict[Any, Any]:
        """Values of the ragged dims of every region."""
        return {w.tiles: self.numbers(lane)[1] for w, lane in zip(works, lanes, strict=True)}

    def received(self, streams: Sequence[Stream]) -> Work:
        return Work(*streams)

    def region(self, work: Work, r: int) -> RegionResult:
        """Attention of the tasks that one region receives."""
        shape, bw = self.shape, self.compute_bw
        keys, all_keys = self._cache(work, work.key, shape.head_dim, f"key.{r}")
        _, all_values = self._cache(work, work.value, shape.value_width, f"value.{r}")
        query = work.query.expand(all_keys, 1, label=f"expand_query.{r}")
        scores = map_stream(fn.matmul_t, query, all_keys, compute_bw=bw, label=f"scores.{r}")
        weights = map_stream(fn.exp, scores, compute_bw=bw, label=f"exp.{r}")
        weighted = map_accum(
            fn.matmul, weights, all_values, 1, compute_bw=bw, label=f"weighted.{r}"
        )
        totals = weights.accum(fn.add, 1, compute_bw=bw, label=f"totals.{r}")
        norms = map_stream(fn.row_sum, totals, compute_bw=bw, label=f"norms.{r}")
        out = map_stream(
            fn.div, weighted, norms, compute_bw=bw, write_back=True, label=f"divide.{r}"
        )
        if self.stored:
            target = tensor_of(
                self.tasks * shape.queries_per_kv_head, shape.value_width,
                dtype=self.types.activations, name=f"output.{r}",
            )  # fmt: skip
            ack = random_store(work.index, out, target, label=f"store_output.{r}")
            ack.consume(label=f"stored_output.{r}")
        return RegionResult(keys, out)

    def _cache(self, work: Work, row: Stream, width: int, what: str) -> tuple[Stream, Stream]:
        """Read the cache of every task, append ``row`` to its last tile and write that back.

        Returns the tiles as loaded and with the row appended, both ``[n, S]``.
        """
        steps = self.reserved // self.kv_tile
        cache = tensor_of(
            self.tasks * self.reserved, width, dtype=self.types.cache, name=f"cache_{what}"
        )
        reads = work.index.flat_map(
            fn.cache_read_addresses(steps), work.tiles, label=f"addresses_{what}"
        )
        tiles = random_load(reads, cache, (self.kv_tile, width), label=f"load_{what}")
        is_last = work.tiles.flat_map(fn.last_tile_filter(), label=f"is_last_{what}")
        last, others = partition(tiles, is_last, rank=0, label=f"split_{what}")
        sized = map_stream(fn.set_offset, last, work.offset, compute_bw=0, label=f"valid_{what}")
        flat = row.flatten(0, 1, label=f"row_{what}")
        grown = map_stream(fn.append_row, sized, flat, compute_bw=0, label=f"append_{what}")
        joined = reassemble([grown, others], is_last, rank=0, label=f"join_{what}")
        everything = joined.flatten(0, 1, label=f"tiles_{what}")
        writes = map_stream(
            fn.cache_write_address(steps), work.index, work.tiles, compute_bw=0,
            label=f"write_address_{what}",
        )  # fmt: skip
        (copy,) = broadcast(grown, 1, label=f"copy_{what}")
        ack = random_store(writes, copy, cache, depth=STORE_DEPTH, label=f"store_{what}")
        ack.consume(label=f"stored_{what}")
        return tiles, everything
