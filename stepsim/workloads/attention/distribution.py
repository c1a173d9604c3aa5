"""How tasks of attention reach its regions: in turn, in blocks, or as the regions become free.

A graph of attention says what a region does with the tasks that it receives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

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
    parallelize,
    partition,
    reassemble,
    selector,
)

W = TypeVar("W")
"""The inputs of a region."""


@dataclass(frozen=True)
class RegionResult:
    """Output streams of a region: key tiles as loaded, outputs ``[n]``."""

    keys: Stream
    output: Stream


class Distribution(ABC, Generic[W]):
    """Tasks of attention that are distributed to regions."""

    program: Program

    @property
    @abstractmethod
    def tasks(self) -> int:
        """How many tasks there are."""

    @abstractmethod
    def received(self, streams: Sequence[Stream]) -> W:
        """The inputs of a region from its streams."""

    @abstractmethod
    def region(self, work: W, r: int) -> RegionResult:
        """Attention of the tasks that one region receives."""

    @abstractmethod
    def symbols(self, works: Sequence[W], lanes: Sequence[Sequence[int]]) -> dict[Any, Any]:
        """Values of the symbolic sizes of every region, which receives the tasks of a lane."""

    def coarse(
        self, rows: Mapping[str, Stream], lanes: Sequence[Sequence[int]], *, join: bool = False
    ) -> tuple[list[Stream], dict[Any, Any]]:
        """Distribute rows ``[1, T, 1]`` and integers ``[1, T]`` to the regions of given lanes.

        What a region receives waits in FIFOs as deep as there are tasks, so that no region waits
        for another. Returns as `dynamic`.
        """
        turns = np.zeros((self.tasks, len(lanes)), dtype=int)
        for r, lane in enumerate(lanes):
            turns[np.asarray(lane), r] = 1
        distributed = []
        for what, x in rows.items():
            which = selector(turns[np.newaxis], label=f"turns_deal_{what}")
            parts = partition(x, which, label=f"deal_{what}")
            distributed.append([part.with_depth(self.tasks) for part in parts])
        works = [self.received(parts) for parts in zip(*distributed, strict=True)]
        outputs = [self.region(work, r).output for r, work in enumerate(works)]
        sizes = self.symbols(works, lanes)
        if not join:
            return outputs, sizes
        return [self._in_order(outputs, selector(turns, label="turns_outputs"))], sizes

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
        works = [self.received(parts) for parts in zip(*distributed, strict=True)]
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
        works = [self.received(parts) for parts in zip(*distributed, strict=True)]
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
