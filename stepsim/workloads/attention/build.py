"""Decode attention of one KV head over several regions (STeP paper, section 5.5).

Every request appends its new key and value rows to the last tile of its cache and attends over all
tiles. There are three ways to distribute the requests over the regions: contiguous blocks
(``coarse``), round robin (``interleaved``), or to the next region that has read its last key tile
(``dynamic``; the graph is then cyclic). The number of requests is arbitrary: regions may get
different numbers of them, and a region without requests is not built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stepsim.graph import Program, Stream, chip, linear_load, metadata
from stepsim.workloads.attention.graph import AttentionGraph, Lengths, Work
from stepsim.workloads.built import Built, Counted
from stepsim.workloads.checks import window_notes
from stepsim.workloads.inputs import Data
from stepsim.workloads.models import ATTENTION, AttentionShape
from stepsim.workloads.tensors import tensor_of

if TYPE_CHECKING:
    from stepsim.workloads.attention.parameters import Attention


class BuiltAttention(Built):
    """A built attention program.

    Attributes
    ----------
    lanes : requests of each region that was built, on several chips of those of the first group;
        for ``dynamic``, where the run decides, the round-robin assignment.
    sizes : values of the symbolic sizes of the graph. They do not depend on which region
        serves which request.
    """

    def __init__(
        self,
        program: Program,
        workload: Attention,
        lengths: Lengths,
        lanes: tuple[tuple[int, ...], ...],
        sizes: Mapping[Any, Any],
    ) -> None:
        notes = []
        if len(lanes) < workload.regions:
            notes.append(_fewer(workload, sum(map(len, lanes)), len(lanes)))
        if workload.heads.name != workload.model.name:
            notes.append(_narrow(workload.heads.attention))
        notes += window_notes(workload.heads, workload.attention_layer)
        notes += workload.heads.notes(ATTENTION)
        if workload.split.chips > 1:
            notes.append(f"on {workload.split.chips} chips: {workload.split.text}")
        super().__init__(
            program,
            parameters={
                "max_length": reserved(workload.max_length, lengths, workload.kv_tile),
                "block": workload.requests_per_block if workload.strategy == "coarse" else None,
                "regions_built": len(lanes),
            },
            notes=notes,
        )
        self.workload = workload
        self.lengths = lengths
        self.lanes = lanes
        self.sizes = sizes

    def symbols(self, data: Data) -> Mapping[Any, Any]:
        return self.sizes

    def padded_flops(self, data: Data) -> int:
        return cache_padding_flops(
            self.workload.heads.attention, self.lengths, self.workload.kv_tile
        )

    def published(self, data: Data) -> Counted:
        bound = self.program.metrics(counting="published").bind(self.sizes)
        return Counted(
            offchip_bytes=bound.off_chip_traffic,
            onchip_bytes=bound.on_chip_memory,
            flops=bound.flops,
            padded_flops=self.padded_flops(data),
            allocated_flops_per_cycle=bound.allocated_compute,
        )


def build_attention(workload: Attention, data: Data) -> BuiltAttention:
    """The program for the cached tokens of each request, in order."""
    heads, lengths = workload.heads.attention, workload.attended(data)
    strategy, split = workload.strategy, workload.split
    shape = replace(heads, heads=heads.heads // split.tp)
    groups = workload.micro_batches or (len(lengths),)
    title = f"attention_{heads.name}_b{'+'.join(str(g) for g in groups)}_{strategy}"
    if split.chips > 1:
        title += f"_{split.chips}chips"
    rows = reserved(workload.max_length, lengths, workload.kv_tile)
    lanes: tuple[tuple[int, ...], ...] = ()
    with Program(title, compute_bw=workload.compute_bw, fifo_depth=workload.fifo_depth) as program:
        sizes: dict[Any, Any] = {}
        for d in range(split.dp):
            own = lengths[split.requests(len(lengths), d)]
            shares = workload.micro_batches or (len(own),)
            for t in range(split.tp):
                with chip(split.chip(0, d, t)):
                    graph = AttentionGraph(
                        program, shape, own, workload.kv_tile, rows, workload.types
                    )
                    given, found = _attend(workload, graph, shares)
                sizes |= found
            lanes = given if d == 0 else lanes
    return BuiltAttention(program, workload, lengths, lanes, sizes)


def _attend(
    workload: Attention, graph: AttentionGraph, groups: Sequence[int]
) -> tuple[tuple[tuple[int, ...], ...], Mapping[Any, Any]]:
    """The requests of each region of a chip, and values of its symbolic sizes."""
    loads = _Loads(graph)
    if workload.strategy == "coarse":
        lanes = coarse_lanes(groups, workload.regions, workload.requests_per_block)
        return lanes, loads.coarse(lanes)
    lanes = round_robin(graph.tasks, workload.regions)
    distribute = graph.interleaved if workload.strategy == "interleaved" else graph.dynamic
    _, sizes = distribute(loads.whole_batch(), lanes)
    return lanes, sizes


def reserved(max_length: int | None, lengths: Lengths, kv_tile: int) -> int:
    """Tokens reserved in the cache of each request: the smallest number that fits by default."""
    if max_length is not None:
        return max_length
    return -(-(int(lengths.max()) + 1) // kv_tile) * kv_tile


def cache_padding_flops(shape: AttentionShape, lengths: Lengths, kv_tile: int) -> int:
    """FLOPs of one KV head on the rows of the last KV tiles that do not hold a token."""
    empty = int((-(lengths + 1) % kv_tile).sum())
    # A score, its exponential (4), the weighted value and the sum of weights, for every query.
    per_row = 2 * shape.head_dim + 4 + 2 * shape.value_width + 1
    return empty * shape.queries_per_kv_head * per_row


def _narrow(heads: AttentionShape) -> str:
    return f"heads of {heads.head_dim} as in the published experiment, which is shape {heads.name}"


def _fewer(workload: Attention, requests: int, built: int) -> str:
    if workload.strategy != "coarse":
        return fewer_regions(built, workload.regions, counted(requests, "request"))
    size = counted(workload.requests_per_block, "request")
    blocks = f"{counted(built, 'block')} of up to {size}"
    if workload.micro_batches is not None:
        blocks += " in the largest micro-batch"
    reason = fewer_regions(built, workload.regions, blocks)
    return f"{reason}; choose a smaller block for more"


def counted(number: int, noun: str) -> str:
    """``1 request``, ``2 requests``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def fewer_regions(built: int, asked: int, shares: str, regions: str = "regions") -> str:
    """The note that not all regions are built because there are not enough shares for them."""
    verb, there = ("is", "there is") if built == 1 else ("are", "there are")
    return f"{built} of {asked} {regions} {verb} built: {there} only {shares}"


def round_robin(tasks: int, regions: int) -> tuple[tuple[int, ...], ...]:
    """Task i goes to lane ``i mod R``; lanes without a task are left out."""
    return tuple(tuple(range(r, tasks, regions)) for r in range(min(tasks, regions)))


def coarse_lanes(groups: Sequence[int], regions: int, block: int) -> tuple[tuple[int, ...], ...]:
    """Requests of each region: blocks are distributed in turn, starting at the first region in each
    group.

    Regions without a block are left out.
    """
    lanes: list[list[int]] = [[] for _ in range(min(regions, max(groups)))]
    first = 0
    for size in groups:
        for local in range(size):
            lanes[local // block % regions].append(first + local)
        first += size
    return tuple(tuple(lane) for lane in lanes if lane)


class _Loads:
    """Rows and integers of the requests, read from off chip, and the regions that they feed."""

    def __init__(self, graph: AttentionGraph) -> None:
        self.graph = graph

    def rows(self, what: str, requests: int, tile: tuple[int, int], source_rows: int) -> Stream:
        """One tile for each request: ``[1, n, 1]``."""
        return linear_load(
            tensor_of(
                requests * source_rows, tile[1], dtype=self.graph.types.activations, name=what
            ),
            tile, shape=(1, requests, 1), stride=(0, 1, 1), label=what,
        )  # fmt: skip

    def integers(self, what: str, values: Lengths) -> Stream:
        """``[1, n]``."""
        return metadata(values[np.newaxis, :], label=what)

    @property
    def tiles(self) -> dict[str, tuple[int, int]]:
        """The tile of one request in each of the three row streams."""
        shape = self.graph.shape
        return {
            "query": (shape.queries_per_kv_head, shape.head_dim),
            "key": (1, shape.head_dim),
            "value": (1, shape.value_width),
        }

    def coarse(self, lanes: Sequence[Sequence[int]]) -> dict[Any, Any]:
        """Every region loads the rows of its own requests."""
        rows: list[list[Stream]] = []
        for what, tile in self.tiles.items():
            made = [
                self.rows(f"{what}.{r}", len(lane), tile, tile[0]) for r, lane in enumerate(lanes)
            ]
            rows.append([x.flatten(1, 2, label=f"{what}s.{r}") for r, x in enumerate(made)])
        integers = [
            [
                self.integers(f"{what}.{r}", values).flatten(0, 1, label=f"{what}s.{r}")
                for what, values in zip(
                    ("index", "tiles", "offset"), self.graph.numbers(lane), strict=True
                )
            ]
            for r, lane in enumerate(lanes)
        ]
        works = [Work(*own, *meta) for *own, meta in zip(*rows, integers, strict=True)]
        for r, work in enumerate(works):
            self.graph.region(work, r)
        return self.graph.symbols(works, lanes)

    def whole_batch(self) -> dict[str, Stream]:
        """Rows ``[1, B, 1]`` and integers ``[1, B]`` of all requests.

        Keys and values are read from a tensor as large as that of the queries, as in the published
        graphs; only addresses are affected.
        """
        batch = self.graph.tasks
        group = self.graph.shape.queries_per_kv_head
        rows = {what: self.rows(what, batch, tile, group) for what, tile in self.tiles.items()}
        index, tiles, offset = self.graph.numbers(range(batch))
        return rows | {
            "index": self.integers("index", index),
            "tiles": self.integers("tiles", tiles),
            "offset": self.integers("offset", offset),
        }
