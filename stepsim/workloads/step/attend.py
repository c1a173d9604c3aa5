"""Attention of a step: new keys and values go to the cache, and tasks read it from there.

Every region of QKV generation writes its new keys and values, row by row, as serving engines do. A
task starts to read its cache when the last of its own keys and values has been written; tasks are
sent to the regions of attention in order, so that those of earlier blocks of its request have been
written too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from stepsim.graph import (
    Dim,
    Program,
    Stream,
    Tile,
    fn,
    map as map_stream,
    map_accum,
    metadata,
    partition,
    random_load,
    random_store,
    reassemble,
    selector,
)
from stepsim.workloads.attention.distribution import Distribution, RegionResult
from stepsim.workloads.attention.graph import STORE_DEPTH
from stepsim.workloads.decoder.qkv import Rows
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.models import AttentionShape
from stepsim.workloads.step.blocks import Numbers, StepBlocks
from stepsim.workloads.step.functions import Grouped
from stepsim.workloads.tensors import tensor_of


@dataclass(frozen=True)
class Task:
    """The tasks of a region: tiles ``[n, 1]``, integers ``[n]``.

    Attributes
    ----------
    query : rows of queries, ``[n, 1]``.
    first : address of the first tile of the cache.
    tiles : tiles of the cache.
    position : of the first query, ``[n, 1]``.
    """

    query: Stream
    first: Stream
    tiles: Stream
    position: Stream


@dataclass(frozen=True)
class StepAttention(Distribution[Task]):
    """Causal attention of blocks of new tokens.

    Attributes
    ----------
    types : of the cache and, for queries, new rows and outputs, of the activations.
    compute_bw : FLOPs per cycle of each operator.
    row_sizes : rows of the tasks of each region of QKV generation, by the stream of them.
    row_sums : rows of the tiles of each region, of every key tile and of every task.
    """

    program: Program
    shape: AttentionShape
    blocks: StepBlocks
    types: ElementTypes
    compute_bw: int
    row_sizes: dict[Any, Any] = field(default_factory=dict)
    row_sums: list[tuple[Dim, Dim]] = field(default_factory=list)

    @property
    def tasks(self) -> int:
        return self.shape.kv_heads * len(self.blocks.rows)

    def received(self, streams: Sequence[Stream]) -> Task:
        return Task(*streams)

    def streams(self, rows: Sequence[Rows]) -> dict[str, Stream]:
        """What tasks need, in the order of tasks, from all rows of every region."""
        found: dict[str, list[Stream]] = {"query": [], "first": []}
        for r, (query, key, value) in enumerate(rows):
            share = self.blocks.shares[r]
            found["query"].append(self._queries(query, share, r))
            at = self._integers(f"first_tiles.{r}")
            for what, x in (("key", key), ("value", value)):
                at = self._written(x, at, share, f"{what}.{r}")
            found["first"].append(at)
        turns = np.eye(len(rows), dtype=int)[self._regions()]
        made = {}
        for what, parts in found.items():
            order = selector(turns[np.newaxis], label=f"turns_{what}")
            made[what] = reassemble(parts, order, rank=0, label=f"join_{what}")
        return {
            "query": made["query"],
            "first": made["first"].flatten(0, 1, label="first_of_tasks"),
            "tiles": self._integers("tiles"),
            "position": self._integers("position"),
        }

    def returned(self, outputs: Stream, regions: int) -> list[Stream]:
        """Outputs of the tasks of each region of QKV generation, from those of all, in order."""
        if regions == 1:
            return [outputs]
        back = selector(np.eye(regions, dtype=int)[self._regions()], label="turns_output")
        return partition(outputs, back, rank=0, label="split_output")

    def region(self, work: Task, r: int) -> RegionResult:
        """Attention of the tasks that one region receives."""
        shape, bw, tile = self.shape, self.compute_bw, self.blocks.kv_tile
        of = Grouped(shape.queries_per_kv_head, shape.head_dim, shape.value_width, tile)
        reads = work.first.flat_map(fn.cache_read_addresses(1), work.tiles, label=f"addresses.{r}")
        keys = random_load(reads, self._cache("key"), (tile, shape.head_dim), label=f"load_key.{r}")
        values = random_load(
            reads, self._cache("value"), (tile, shape.value_width), label=f"load_value.{r}"
        )
        query = work.query.expand(keys, 1, label=f"expand_query.{r}")
        position = work.position.expand(keys, 1, label=f"expand_position.{r}")
        scores = map_stream(of.scores, query, keys, compute_bw=bw, label=f"scores.{r}")
        mask = of.seen(self.blocks.steps, self.blocks.window)
        seen = map_stream(mask, scores, reads, position, label=f"mask.{r}")
        weights = map_stream(fn.exp, seen, compute_bw=bw, label=f"exp.{r}")
        weighted = map_accum(
            of.weighted, weights, values, 1, of.no_values, compute_bw=bw, label=f"weighted.{r}"
        )
        sums = weights.accum(of.sums, 1, of.no_sums, compute_bw=bw, label=f"sums.{r}")
        out = map_stream(
            of.divided, weighted, sums, compute_bw=bw, write_back=True, label=f"divide.{r}"
        )
        self.row_sums.append((_rows_of(query), _rows_of(weighted)))
        return RegionResult(keys, out)

    def symbols(self, works: Sequence[Task], lanes: Sequence[Sequence[int]]) -> dict[Any, Any]:
        """Values of the ragged dims of every region."""
        tiles = np.tile(self.blocks.tiles, self.shape.kv_heads)
        rows = np.tile(self.blocks.rows, self.shape.kv_heads)
        found: dict[Any, Any] = dict(self.row_sizes)
        for work, lane, sums in zip(works, lanes, self.row_sums, strict=True):
            own, each = np.asarray(lane), rows[np.asarray(lane)]
            found[work.tiles] = tiles[own]
            for dim, total in zip(sums, ((each * tiles[own]).sum(), each.sum()), strict=True):
                if dim.is_ragged:
                    found[dim.total] = int(total)
        return found

    def _cache(self, what: str) -> Any:
        width = self.shape.head_dim if what == "key" else self.shape.value_width
        slots = self.shape.kv_heads * len(self.blocks.new)
        return tensor_of(
            slots * self.blocks.reserved, width, dtype=self.types.cache, name=f"cache_{what}"
        )

    def _integers(self, what: str) -> Stream:
        return metadata(self._cached[what], label=what)

    @cached_property
    def _cached(self) -> dict[str, Numbers]:
        return self.blocks.integers(self.shape.kv_heads)

    def _of_tasks(self, values: Any, share: Any) -> Any:
        """A number of each task of a region, from those of blocks."""
        return np.tile(values[share], self.shape.kv_heads)

    def _regions(self) -> Any:
        """The region of QKV generation of each task."""
        blocks = np.arange(len(self.blocks.rows)) % self.blocks.regions
        return np.tile(blocks, self.shape.kv_heads)

    def _ends(self, share: Any) -> Any:
        """One-hot rows ``[rows of the region]``: 0 for the last row of a task, 1 for the others."""
        rows = self._of_tasks(self.blocks.rows, share)
        ends = np.zeros(int(rows.sum()), dtype=int)
        ends[np.cumsum(rows) - 1] = 1
        return np.stack([ends, 1 - ends], axis=1)

    def _queries(self, query: Stream, share: Any, r: int) -> Stream:
        """The queries of each task of a region as one tile, ``[tasks]``."""
        rows = query.flat_map(fn.unpack_rows(), label=f"query_rows.{r}")
        tasks = self.shape.kv_heads * len(share)
        if not self.blocks.single:
            sizes = metadata(self._of_tasks(self.blocks.rows, share), label=f"block_rows.{r}")
            self.row_sizes[sizes] = self._of_tasks(self.blocks.rows, share)
            is_last = sizes.flat_map(fn.last_tile_filter(), label=f"is_last_row.{r}")
            last, others = partition(
                rows, selector(self._ends(share), label=f"ends.{r}"), rank=0,
                label=f"split_query.{r}",
            )  # fmt: skip
            grouped = reassemble([last, others], is_last, rank=0, label=f"group_query.{r}")
            rows = grouped.flatten(0, 1, label=f"block_queries.{r}").accum(
                fn.pack_rows, 1, label=f"queries.{r}"
            )
        return rows.with_depth(max(tasks, 2))

    def _written(self, tall: Stream, first: Stream, share: Any, what: str) -> Stream:
        """Write new rows to the cache; ``first`` passes when the rows of its task are written."""
        name = what.split(".")[0]
        rows = tall.flat_map(fn.unpack_rows(), label=f"{what}_rows")
        if self.types.cache is not self.types.activations:
            rows = map_stream(fn.cast(self.types.cache), rows, label=f"cast_{what}")
        at = self._integers(f"write_address_{what}")
        ack = random_store(at, rows, self._cache(name), depth=STORE_DEPTH, label=f"store_{what}")
        if not self.blocks.single:
            ack, others = partition(
                ack, selector(self._ends(share), label=f"last_{what}"), rank=0,
                label=f"split_stored_{what}",
            )  # fmt: skip
            others.consume(label=f"stored_before_{what}")
        gated = first.reshape(1, label=f"each_{what}").expand(
            ack.reshape(1, label=f"stored_{what}"), 1, label=f"after_{what}"
        )
        return gated.flatten(0, 1, label=f"ready_{what}")


def _rows_of(x: Stream) -> Dim:
    assert isinstance(x.type, Tile)
    return x.type.rows
