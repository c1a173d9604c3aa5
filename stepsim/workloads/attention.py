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
    Dim,
    DType,
    Program,
    Stream,
    Tile,
    broadcast,
    eager_merge,
    feedback,
    fn,
    linear_load,
    map_accum,
    metadata,
    parallelize,
    partition,
    random_load,
    random_store,
    reassemble,
    selector,
    spec,
)
from stepsim.graph import map as map_stream
from stepsim.graph.metrics import BoundMetrics
from stepsim.workloads.models import AttentionShape, attention_shape

__all__ = [
    "STRATEGIES",
    "AttentionWorkload",
    "attention",
    "published_attention_config",
]

STRATEGIES = ("coarse", "interleaved", "dynamic")
BLOCK = 16
"""Requests of one contiguous block."""

STORE_DEPTH = 4
"""Tiles that the store of a cache holds; a matter of metrics only."""

Lengths = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class AttentionWorkload:
    """A built attention program.

    Attributes
    ----------
    kv_lengths : cached tokens of each request before this step.
    regions : regions that were built.
    lanes : requests of each region; for ``dynamic``, where the run decides, those of round robin.
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


def tiles_of(kv_lengths: Lengths, kv_tile: int) -> Lengths:
    """Tiles that hold every request's cached tokens and one more: ``ceil((L + 1) / kv_tile)``."""
    return -(-(kv_lengths + 1) // kv_tile)


def published_attention_config(batch: int, strategy: str) -> dict[str, Any]:
    """Arguments of :func:`attention`, but for the lengths, in the published figures.

    ``batch`` 80 is the case of two micro-batches of 64 and 16 requests.
    """
    return {
        "shape": "qwen3-30b-a3b-step",
        "strategy": strategy,
        "regions": 4,
        "kv_tile": 32,
        "micro_batches": (64, 16) if batch == 80 else None,
        "max_length": {16: 4672, 80: 6528}.get(batch, 6464),
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
    micro_batches: Sequence[int] | None = None,
    max_length: int | None = None,
    compute_bw: int = 2048,
    fifo_depth: int | None = 1,
    name: str | None = None,
) -> AttentionWorkload:
    """Build the program for ``kv_lengths`` (cached tokens of each request, in order).

    Parameters
    ----------
    strategy : ``coarse`` (blocks of 16 requests; only as many regions as there are blocks are
        built), ``interleaved`` or ``dynamic``.
    micro_batches : sizes of the micro-batches that ``kv_lengths`` joins; blocks of each start
        again at the first region.
    max_length : tokens reserved in the cache for each request, a multiple of ``kv_tile``; the
        smallest that fits when not given.
    """
    model = attention_shape(shape) if isinstance(shape, str) else shape
    lengths = _checked_lengths(kv_lengths)
    _check_arguments(len(lengths), strategy, regions, kv_tile)
    reserved = _reserved(lengths, kv_tile, max_length)
    groups = _micro_batches(len(lengths), micro_batches)
    title = name or f"attention_{model.name}_b{'+'.join(str(g) for g in groups)}_{strategy}"
    with Program(title, compute_bw=compute_bw, fifo_depth=fifo_depth) as program:
        layer = _Layer(program, model, lengths, kv_tile, reserved)
        if strategy == "coarse":
            lanes = coarse_lanes(groups, regions)
            symbols = layer.coarse(lanes)
        else:
            lanes = tuple(tuple(range(r, len(lengths), regions)) for r in range(regions))
            symbols = layer.interleaved(lanes) if strategy == "interleaved" else (
                layer.dynamic(lanes)
            )  # fmt: skip
    return AttentionWorkload(
        program, model, lengths, strategy, len(lanes), kv_tile, reserved, lanes, symbols
    )


def coarse_lanes(groups: Sequence[int], regions: int) -> tuple[tuple[int, ...], ...]:
    """Requests of each region: blocks of 16 are dealt to the regions, anew for each group."""
    lanes: list[list[int]] = [[] for _ in range(regions)]
    first = 0
    for size in groups:
        for local in range(size):
            lanes[local // BLOCK % regions].append(first + local)
        first += size
    return tuple(tuple(lane) for lane in lanes if lane)


@dataclass(frozen=True)
class _Work:
    """What a region receives: rows as ``[n, 1]``, integers as ``[n]``."""

    query: Stream
    key: Stream
    value: Stream
    index: Stream
    tiles: Stream
    offset: Stream


@dataclass(frozen=True)
class _Layer:
    """The parts of the graph that the three strategies share."""

    program: Program
    shape: AttentionShape
    kv_lengths: Lengths
    kv_tile: int
    reserved: int

    @property
    def _steps(self) -> int:
        """Tiles reserved for each request."""
        return self.reserved // self.kv_tile

    def _rows(self, what: str, requests: int, rows: int, source_rows: int) -> Stream:
        """One tile of ``rows`` for each request: ``[1, n, 1]``."""
        width = self.shape.head_dim
        return linear_load(
            spec(requests * source_rows, width, name=what), (rows, width),
            shape=(1, requests, 1), stride=(0, 1, 1), label=what,
        )  # fmt: skip

    def _integers(self, what: str, values: Lengths) -> Stream:
        return metadata(values[np.newaxis, :], label=what)

    def _numbers(self, lane: Sequence[int]) -> tuple[Lengths, Lengths, Lengths]:
        """Index, tiles and rows in the last tile of the requests of a lane."""
        which = np.asarray(lane, dtype=np.int64)
        lengths = self.kv_lengths[which]
        return which, tiles_of(lengths, self.kv_tile), lengths % self.kv_tile

    def _length_values(
        self, works: Sequence[_Work], lanes: Sequence[Sequence[int]]
    ) -> dict[Any, Any]:
        return {w.tiles: self._numbers(lane)[1] for w, lane in zip(works, lanes, strict=True)}

    def coarse(self, lanes: Sequence[Sequence[int]]) -> dict[Any, Any]:
        """Every region loads the rows of its own requests."""
        group = self.shape.queries_per_kv_head

        def loads(what: str, rows: int) -> list[Stream]:
            made = (
                self._rows(f"{what}.{r}", len(lane), rows, rows) for r, lane in enumerate(lanes)
            )
            return [x.flatten(1, 2, label=f"{what}s.{r}") for r, x in enumerate(made)]

        query, key, value = loads("query", group), loads("key", 1), loads("value", 1)
        numbers = [self._numbers(lane) for lane in lanes]
        integers = [
            [
                self._integers(f"{what}.{r}", values).flatten(0, 1, label=f"{what}s.{r}")
                for what, values in zip(("index", "tiles", "offset"), own, strict=True)
            ]
            for r, own in enumerate(numbers)
        ]
        works = [
            _Work(q, k, v, *own)
            for q, k, v, own in zip(query, key, value, integers, strict=True)
        ]  # fmt: skip
        for r, work in enumerate(works):
            self.region(work, r)
        return self._length_values(works, lanes)

    def _whole_batch(self) -> dict[str, Stream]:
        """Rows ``[1, B, 1]`` and integers ``[1, B]`` of all requests.

        Keys and values are read from the query tensor, as the published graphs do: only addresses
        are affected.
        """
        group, batch = self.shape.queries_per_kv_head, len(self.kv_lengths)
        index, tiles, offset = self._numbers(range(batch))
        return {
            "query": self._rows("query", batch, group, group),
            "key": self._rows("key", batch, 1, group),
            "value": self._rows("value", batch, 1, group),
            "index": self._integers("index", index),
            "tiles": self._integers("tiles", tiles),
            "offset": self._integers("offset", offset),
        }

    def interleaved(self, lanes: Sequence[Sequence[int]]) -> dict[Any, Any]:
        """Request i goes to region ``i mod R``."""
        dealt: list[list[Stream]] = []
        for what, x in self._whole_batch().items():
            low = x.rank - 1
            flat = x.flatten(low, low + 1, label=f"{what}s")
            dealt.append(parallelize(flat, len(lanes), label=f"deal_{what}"))
        works = [_Work(*parts) for parts in zip(*dealt, strict=True)]
        for r, work in enumerate(works):
            self.region(work, r)
        return self._length_values(works, lanes)

    def dynamic(self, lanes: Sequence[Sequence[int]]) -> dict[Any, Any]:
        """The next request goes to the region that has read its last key tile."""
        regions, batch = len(lanes), len(self.kv_lengths)
        served = [self.program.dim(f"served{r}") for r in range(regions)]
        token = Tile(DType.u64, Dim(1), Dim(1))
        done = [feedback(token, [n], label=f"done.{r}") for r, n in enumerate(served)]
        which = self._who_is_next(done, batch)
        dealt = [
            partition(x, which, label=f"deal_{what}") for what, x in self._whole_batch().items()
        ]
        works = [_Work(*parts) for parts in zip(*dealt, strict=True)]
        for r, work in enumerate(works):
            keys = self.region(work, r)
            finished = keys.accum(fn.signal, 1, label=f"signal.{r}")
            self.program.assume_equal(finished.shape[0], served[r])
            done[r].connect(finished)
        counts = {n: len(lane) for n, lane in zip(served, lanes, strict=True)}
        return {**counts, **self._length_values(works, lanes)}

    def _who_is_next(self, done: Sequence[Stream], batch: int) -> Stream:
        """Regions in the order in which they take requests, ``[1, B]``: each once, then as free.

        The last signals of the regions free nobody and are dropped.
        """
        regions = len(done)
        data, free = eager_merge(done, rank=0, label="free")
        data.consume(label="free_tokens")
        free = free.assume_shape(batch)
        early = np.arange(batch) < batch - regions
        rest, reused = partition(
            free, selector(np.stack([~early, early], axis=1).astype(int), label="early"),
            label="drop_last",
        )  # fmt: skip
        rest.consume(label="last_signals")
        first = selector(np.eye(regions, dtype=int)[np.newaxis], label="first")
        opening = np.arange(batch) < regions
        turns = np.stack([opening, ~opening], axis=1).astype(int)[np.newaxis]
        order = reassemble(
            [first.flatten(0, 1, label="firsts"), reused], selector(turns, label="turns"), rank=0,
            label="order",
        )  # fmt: skip
        return order.flatten(0, 1, label="regions")

    def region(self, work: _Work, r: int) -> Stream:
        """Attention of the requests that one region receives; returns its key tiles as loaded."""
        shape, width = self.shape, self.shape.head_dim
        keys, all_keys = self._cache(work, work.key, f"key.{r}")
        _, all_values = self._cache(work, work.value, f"value.{r}")
        query = work.query.expand(all_keys, 1, label=f"expand_query.{r}")
        scores = map_stream(fn.matmul_t, query, all_keys, label=f"scores.{r}")
        weights = map_stream(fn.exp, scores, label=f"exp.{r}")
        weighted = map_accum(fn.matmul, weights, all_values, 1, label=f"weighted.{r}")
        totals = weights.accum(fn.add, 1, label=f"totals.{r}")
        norms = map_stream(fn.row_sum, totals, label=f"norms.{r}")
        out = map_stream(fn.div, weighted, norms, write_back=True, label=f"divide.{r}")
        rows = shape.queries_per_kv_head
        target = spec(len(self.kv_lengths) * rows, width, name=f"output.{r}")
        ack = random_store(work.index, out, target, label=f"store_output.{r}")
        ack.consume(label=f"stored_output.{r}")
        return keys

    def _cache(self, work: _Work, row: Stream, what: str) -> tuple[Stream, Stream]:
        """Read the cache of every request, append ``row`` to its last tile and write that back.

        Returns the tiles as loaded and with the row appended, both ``[n, S]``.
        """
        width = self.shape.head_dim
        cache = spec(len(self.kv_lengths) * self.reserved, width, name=f"cache_{what}")
        reads = work.index.flat_map(
            fn.cache_read_addresses(self._steps), work.tiles, label=f"addresses_{what}"
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
            fn.cache_write_address(self._steps), work.index, work.tiles, compute_bw=0,
            label=f"write_address_{what}",
        )  # fmt: skip
        (copy,) = broadcast(grown, 1, label=f"copy_{what}")
        ack = random_store(writes, copy, cache, depth=STORE_DEPTH, label=f"store_{what}")
        ack.consume(label=f"stored_{what}")
        return tiles, everything


def _checked_lengths(kv_lengths: Sequence[int] | Lengths) -> Lengths:
    array = np.asarray(kv_lengths)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise ArgError(
            f"attention: kv_lengths must be one integer for each request, found shape "
            f"{array.shape} of {array.dtype}. Pass the cached tokens of every request"
        )
    if int(array.min()) < 0:
        worst = int(array.argmin())
        raise ArgError(
            f"attention: kv_lengths[{worst}] is {int(array[worst])}, expected >= 0. Drop the "
            "request or mend its length"
        )
    lengths = array.astype(np.int64)
    lengths.flags.writeable = False
    return lengths


def _check_arguments(batch: int, strategy: str, regions: int, kv_tile: int) -> None:
    if strategy not in STRATEGIES:
        raise ArgError(
            f"attention: unknown strategy {strategy!r}; use one of {', '.join(STRATEGIES)}"
        )
    for what, value in (("regions", regions), ("kv_tile", kv_tile)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ArgError(f"attention: {what} must be an int >= 1, found {value!r}")
    if strategy == "interleaved" and batch % regions:
        raise ArgError(
            f"attention: interleaved deals {batch} requests to {regions} regions, which leaves "
            f"{batch % regions} over. Choose a number of regions that divides {batch}"
        )
    if strategy == "dynamic" and batch < regions:
        raise ArgError(
            f"attention: dynamic starts one request in each of {regions} regions, found only "
            f"{batch} requests. Choose regions <= {batch}"
        )


def _reserved(lengths: Lengths, kv_tile: int, max_length: int | None) -> int:
    longest = int(lengths.max())
    if max_length is None:
        return -(-(longest + 1) // kv_tile) * kv_tile
    if max_length % kv_tile or max_length < longest + 1:
        raise ArgError(
            f"attention: max_length must be a multiple of kv_tile {kv_tile} that holds the longest "
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
