"""Decode attention of one KV head over several regions (STeP paper, section 5.5).

Every request appends its new key and value rows to the last tile of its cache and attends over all
tiles. Three ways of sharing the requests among the regions: contiguous blocks (``coarse``), round
robin (``interleaved``), or whenever a region has read its last key tile (``dynamic``; the graph is
then cyclic).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepsim.errors import ArgError
from stepsim.graph import (
    Program,
    Stream,
    linear_load,
    metadata,
    parallelize,
    spec,
)
from stepsim.graph.metrics import BoundMetrics
from stepsim.workloads.attention_graph import AttentionGraph, Lengths, Work, tiles_of
from stepsim.workloads.models import AttentionShape, attention_shape

__all__ = [
    "STRATEGIES",
    "AttentionWorkload",
    "attention",
    "published_attention_config",
]

STRATEGIES = ("coarse", "interleaved", "dynamic")

_PUBLISHED_RESERVED = {16: (4672, 6528, 8000), 80: (6528,)}
"""Cache tokens of a request by batch, for ever longer traces; other batches: 6464."""


@dataclass(frozen=True)
class AttentionWorkload:
    """A built attention program.

    Attributes
    ----------
    kv_lengths : cached tokens of each request before this step.
    regions : regions that were built.
    lanes : requests of each region; for ``dynamic``, where the run decides, those of round robin.
    symbols : values of the sizes that the graph leaves open.
    """

    program: Program
    shape: AttentionShape
    kv_lengths: Lengths
    strategy: str
    regions: int
    kv_tile: int
    max_length: int
    lanes: tuple[tuple[int, ...], ...]
    symbols: Mapping[Any, Any]

    @property
    def batch(self) -> int:
        return len(self.kv_lengths)

    @property
    def tiles(self) -> Lengths:
        """KV tiles of each request, the appended row included."""
        return tiles_of(self.kv_lengths, self.kv_tile)

    def metrics(self, *, memory: str = "published") -> BoundMetrics:
        """Bytes and FLOPs as numbers. They do not depend on which region serves which request."""
        return self.program.metrics(memory=memory).bind(self.symbols)

    @property
    def allocated_compute(self) -> int:
        """FLOPs per cycle: six operators in each region."""
        return int(self.program.metrics().allocated_compute)


def published_attention_config(batch: int, strategy: str, longest: int = 0) -> dict[str, Any]:
    """Arguments of :func:`attention`, but for the lengths, in the published figures.

    ``batch`` 80 is the case of two micro-batches of 64 and 16 requests; ``longest`` is the longest
    request of the trace.
    """
    choices = _PUBLISHED_RESERVED.get(batch, (6464,))
    reserved = next((tokens for tokens in choices if tokens > longest), None)
    if reserved is None:
        raise ArgError(
            f"published_attention_config: no published run of {batch} requests has one of "
            f"{longest} tokens; the longest cache holds {choices[-1]}. Call attention() with a "
            "max_length of its own"
        )
    return {
        "shape": "qwen3-30b-a3b-step",
        "strategy": strategy,
        "regions": 4,
        "kv_tile": 32,
        "micro_batches": (64, 16) if batch == 80 else None,
        "max_length": reserved,
        "compute_bw": 2048,
        "fifo_depth": 1,
    }


def attention(
    shape: AttentionShape | str,
    kv_lengths: Sequence[int] | Lengths,
    strategy: str = "dynamic",
    regions: int = 4,
    kv_tile: int = 32,
    *,
    block: int = 16,
    micro_batches: Sequence[int] | None = None,
    max_length: int | None = None,
    compute_bw: int = 2048,
    fifo_depth: int | None = 1,
    name: str | None = None,
) -> AttentionWorkload:
    """Build the program for ``kv_lengths`` (cached tokens of each request, in order).

    Parameters
    ----------
    strategy : ``coarse`` (contiguous blocks; only as many regions as there are blocks are built),
        ``interleaved`` or ``dynamic``.
    block : requests of a contiguous block.
    micro_batches : sizes of the micro-batches that ``kv_lengths`` joins; blocks of each start
        again at the first region.
    max_length : tokens reserved in the cache for each request, a multiple of ``kv_tile``; the
        smallest that fits when not given.
    """
    model = attention_shape(shape) if isinstance(shape, str) else shape
    lengths = checked_lengths("attention", kv_lengths)
    check_arguments("attention", len(lengths), strategy, regions, kv_tile, block)
    reserved = reserved_tokens("attention", lengths, kv_tile, max_length)
    groups = _micro_batches(len(lengths), micro_batches)
    title = name or f"attention_{model.name}_b{'+'.join(str(g) for g in groups)}_{strategy}"
    with Program(title, compute_bw=compute_bw, fifo_depth=fifo_depth) as program:
        graph = AttentionGraph(program, model, lengths, kv_tile, reserved)
        loads = _Loads(graph)
        if strategy == "coarse":
            lanes = coarse_lanes(groups, regions, block)
            symbols = loads.coarse(lanes)
        else:
            lanes = round_robin(len(lengths), regions)
            if strategy == "interleaved":
                symbols = loads.interleaved(lanes)
            else:
                _, symbols = graph.dynamic(loads.whole_batch(), lanes)
    return AttentionWorkload(
        program, model, lengths, strategy, len(lanes), kv_tile, reserved, lanes, symbols
    )


def round_robin(tasks: int, regions: int) -> tuple[tuple[int, ...], ...]:
    """Task i to lane ``i mod R``."""
    return tuple(tuple(range(r, tasks, regions)) for r in range(regions))


def coarse_lanes(groups: Sequence[int], regions: int, block: int) -> tuple[tuple[int, ...], ...]:
    """Requests of each region: blocks are dealt to the regions, anew for each group."""
    lanes: list[list[int]] = [[] for _ in range(regions)]
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
            spec(requests * source_rows, tile[1], name=what), tile,
            shape=(1, requests, 1), stride=(0, 1, 1), label=what,
        )  # fmt: skip

    def integers(self, what: str, values: Lengths) -> Stream:
        """``[1, n]``."""
        return metadata(values[np.newaxis, :], label=what)

    @property
    def tiles(self) -> dict[str, tuple[int, int]]:
        """Tile of one request in each of the three row streams."""
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

        Keys and values are read from a tensor as large as the queries, as in the published graphs:
        only addresses are affected.
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

    def interleaved(self, lanes: Sequence[Sequence[int]]) -> dict[Any, Any]:
        """Request i goes to region ``i mod R``."""
        dealt: list[list[Stream]] = []
        for what, x in self.whole_batch().items():
            low = x.rank - 1
            flat = x.flatten(low, low + 1, label=f"{what}s")
            dealt.append(parallelize(flat, len(lanes), label=f"deal_{what}"))
        works = [Work(*parts) for parts in zip(*dealt, strict=True)]
        for r, work in enumerate(works):
            self.graph.region(work, r)
        return self.graph.symbols(works, lanes)


def checked_lengths(who: str, kv_lengths: Sequence[int] | Lengths) -> Lengths:
    """A private, read-only array of lengths >= 0."""
    array = np.asarray(kv_lengths)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise ArgError(
            f"{who}: kv_lengths must be one integer for each request, found shape "
            f"{array.shape} of {array.dtype}. Pass the cached tokens of every request"
        )
    if int(array.min()) < 0:
        worst = int(array.argmin())
        raise ArgError(
            f"{who}: kv_lengths[{worst}] is {int(array[worst])}, expected >= 0. Drop the "
            "request or mend its length"
        )
    lengths = array.astype(np.int64)
    lengths.flags.writeable = False
    return lengths


def check_arguments(
    who: str, batch: int, strategy: str, regions: int, kv_tile: int, block: int = 1
) -> None:
    """Refuse counts below 1 and requests that cannot be shared out."""
    if strategy not in STRATEGIES:
        raise ArgError(f"{who}: unknown strategy {strategy!r}; use one of {', '.join(STRATEGIES)}")
    for what, value in (("regions", regions), ("kv_tile", kv_tile), ("block", block)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ArgError(f"{who}: {what} must be an int >= 1, found {value!r}")
    if strategy == "interleaved" and batch % regions:
        raise ArgError(
            f"{who}: interleaved deals {batch} requests to {regions} regions, which leaves "
            f"{batch % regions} over. Choose a number of regions that divides {batch}"
        )
    if strategy == "dynamic" and batch < regions:
        raise ArgError(
            f"{who}: dynamic starts one request in each of {regions} regions, found only "
            f"{batch} requests. Choose regions <= {batch}"
        )


def reserved_tokens(who: str, lengths: Lengths, kv_tile: int, max_length: int | None) -> int:
    longest = int(lengths.max())
    if max_length is None:
        return -(-(longest + 1) // kv_tile) * kv_tile
    if max_length % kv_tile or max_length < longest + 1:
        raise ArgError(
            f"{who}: max_length must be a multiple of kv_tile {kv_tile} that holds the longest "
            f"request of {longest} tokens and the new one, found {max_length}. Use at least "
            f"{-(-(longest + 1) // kv_tile) * kv_tile}, or leave it out"
        )
    return max_length


def _micro_batches(batch: int, micro_batches: Sequence[int] | None) -> tuple[int, ...]:
    groups = (batch,) if micro_batches is None else tuple(int(g) for g in micro_batches)
    if sum(groups) != batch or min(groups) < 1:
        raise ArgError(
            f"attention: micro_batches {list(groups)} must be sizes >= 1 that sum to the {batch} "
            f"requests of kv_lengths, found a sum of {sum(groups)}"
        )
    return groups
