"""The regions of decode attention: their computation, and how requests reach them.

Builders for the program under construction, shared by the attention workload and the decoder layer.
A *task* is one request of one KV head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepsim.graph import (
    Dim,
    DType,
    Program,
    Stream,
    Tile,
    broadcast,
    eager_merge,
    feedback,
    fn,
    map as map_stream,
    map_accum,
    parallelize,
    partition,
    random_load,
    random_store,
    reassemble,
    selector,
    spec,
)
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.models import AttentionShape

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
class RegionResult:
    """Output streams of a region: key tiles as loaded, outputs ``[n]``."""

    keys: Stream
    output: Stream


@dataclass(frozen=True)
class AttentionGraph:
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

    def interleaved(
        self, rows: Mapping[str, Stream], lanes: Sequence[Sequence[int]], *, join: bool = False
    ) -> tuple[list[Stream], dict[Any, Any]]:
        """Distribute rows ``[1, T, 1]`` and integers ``[1, T]`` to the regions in turn.

        Task i goes to region ``i mod R``. Returns as `dynamic`.
        """
        regions = len(lanes)
        distributed = []
        for what, x in rows.items():
            low = x.rank - 1
            flat = x.flatten(low, low + 1, label=f"{what}s")
            distributed.append(parallelize(flat, regions, label=f"deal_{what}"))
        works = [Work(*parts) for parts in zip(*distributed, strict=True)]
        outputs = [self.region(work, r).output for r, work in enumerate(works)]
        sizes = self.symbols(works, lanes)
        if not join:
            return outputs, sizes
        turns = np.eye(regions, dtype=int)[np.arange(self.tasks) % regions]
        return [self._in_order(outputs, selector(turns, label="turns_outputs"))], sizes

    def dynamic(
        self, rows: Mapping[str, Stream], lanes: Sequence[Sequence[int]], *, join: bool = False
    ) -> tuple[list[Stream], dict[Any, Any]]:
        """Distribute rows ``[1, T, 1]`` and integers ``[1, T]`` to the regions as they become free.

        The next task goes to the region that has read its last key tile: a cyclic graph. ``lanes``
        only determines how the symbols are bound; every distribution has the same totals. Returns
        the outputs of each region, or with ``join`` one stream ``[T]`` of those of all tasks, in
        their order.
        """
        served = [self.program.dim(f"served{r}") for r in range(len(lanes))]
        token = Tile(DType.u64, Dim(1), Dim(1))
        done = [feedback(token, [n], label=f"done.{r}") for r, n in enumerate(served)]
        which = self._who_is_next(done)
        if join:
            which, order = broadcast(which, 2, label="deal_and_join")
        distributed = [partition(x, which, label=f"deal_{what}") for what, x in rows.items()]
        works = [Work(*parts) for parts in zip(*distributed, strict=True)]
        results = []
        for r, work in enumerate(works):
            result = self.region(work, r)
            finished = result.keys.accum(fn.signal, 1, label=f"signal.{r}")
            self.program.assume_equal(finished.shape[0], served[r])
            done[r].connect(finished)
            results.append(result)
        counts = {n: len(lane) for n, lane in zip(served, lanes, strict=True)}
        sizes = {**counts, **self.symbols(works, lanes)}
        outputs = [result.output for result in results]
        return [self._in_order(outputs, order)] if join else outputs, sizes

    def _in_order(self, outputs: Sequence[Stream], regions: Stream) -> Stream:
        """Outputs in the order of the tasks, ``[T]``, from the region that took each.

        A region may be ahead of the others by all of its tasks; it must not wait for them.
        """
        deep = [x.with_depth(self.tasks) for x in outputs]
        joined = reassemble(deep, regions.with_depth(self.tasks), rank=0, label="join_outputs")
        return joined.flatten(0, joined.rank, label="outputs").assume_shape(self.tasks)

    def _who_is_next(self, done: Sequence[Stream]) -> Stream:
        """Regions in the order in which they take tasks, ``[1, T]``: each once, then as they become
        free.

        The last signals of the regions are not needed and are dropped.
        """
        regions, tasks = len(done), self.tasks
        data, free = eager_merge(done, rank=0, label="free")
        data.consume(label="free_tokens")
        free = free.assume_shape(tasks)
        early = np.arange(tasks) < tasks - regions
        rest, reused = partition(
            free, selector(np.stack([~early, early], axis=1).astype(int), label="early"),
            label="drop_last",
        )  # fmt: skip
        rest.consume(label="last_signals")
        first = selector(np.eye(regions, dtype=int)[np.newaxis], label="first")
        opening = np.arange(tasks) < regions
        turns = np.stack([opening, ~opening], axis=1).astype(int)[np.newaxis]
        order = reassemble(
            [first.flatten(0, 1, label="firsts"), reused], selector(turns, label="turns"), rank=0,
            label="order",
        )  # fmt: skip
        return order.flatten(0, 1, label="regions")

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
            target = spec(
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
        cache = spec(
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
