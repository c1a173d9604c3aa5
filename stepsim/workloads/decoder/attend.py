"""Attention of a decoder layer: tasks, their regions, and the order of their outputs.

Request i is generated in region ``i mod R``. Tasks are ordered by head, and by request within a
head; they are distributed to the regions of attention as in the graphs of the STeP paper's figure
14. A region of QKV generation without a request is not built, nor one of attention without a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepsim.graph import (
    Stream,
    fn,
    linear_load,
    metadata,
    partition,
    reassemble,
    selector,
)
from stepsim.workloads.attention.build import round_robin
from stepsim.workloads.attention.graph import AttentionGraph
from stepsim.workloads.decoder.qkv import Rows
from stepsim.workloads.parameters import DYNAMIC
from stepsim.workloads.tensors import tensor_of


@dataclass(frozen=True)
class Regions:
    """The regions of attention.

    Attributes
    ----------
    shares : requests of each region of QKV generation.
    count : regions of attention at most.
    """

    graph: AttentionGraph
    shares: Sequence[Sequence[int]]
    count: int

    @property
    def batch(self) -> int:
        return sum(map(len, self.shares))

    def stored_rows(self) -> list[Rows]:
        """Rows of queries, keys and values that were left off chip, ``[tasks]`` of each region."""
        shape, found = self.graph.shape, []
        tiles = {
            "query": (shape.queries_per_kv_head, shape.head_dim),
            "key": (1, shape.head_dim),
            "value": (1, shape.value_width),
        }
        for r, share in enumerate(self.shares):
            tasks = len(share) * shape.kv_heads
            query, key, value = (
                linear_load(
                    tensor_of(tasks * tile[0], tile[1], dtype=self.graph.types.activations,
                         name=f"{what}.{r}"),
                    tile, shape=(tasks,), stride=(1,), label=f"{what}.{r}",
                )
                for what, tile in tiles.items()
            )  # fmt: skip
            found.append((query, key, value))
        return found

    def outputs(
        self, rows: Sequence[Rows], strategy: str, *, by_request: bool
    ) -> tuple[list[Stream], dict[Any, Any]]:
        """Outputs of every region of attention, and values of the symbolic sizes.

        With ``by_request`` they are those of the tasks of each region of QKV generation, in order.
        """
        tasks, shares = self.graph.tasks, len(rows)
        turns = np.eye(shares, dtype=int)[np.arange(tasks) % self.batch % shares]
        streams: dict[str, Stream] = {}
        for what, parts in zip(("query", "key", "value"), zip(*rows, strict=True), strict=True):
            order = selector(turns[np.newaxis], label=f"turns_{what}")
            streams[what] = reassemble(parts, order, rank=0, label=f"join_{what}")
        numbers = self.graph.numbers(range(tasks))
        for what, values in zip(("index", "tiles", "offset"), numbers, strict=True):
            streams[what] = metadata(values[np.newaxis], label=what)
        distribute = self.graph.dynamic if strategy == DYNAMIC else self.graph.interleaved
        found, sizes = distribute(streams, round_robin(tasks, self.count), join=by_request)
        if by_request and shares > 1:
            back = selector(turns, label="turns_output")
            found = partition(found[0], back, rank=0, label="split_output")
        return found, sizes


def barrier(outputs: Sequence[Stream]) -> Stream:
    """``[1]``: one element when the last elements of all streams have arrived."""
    signals = []
    for r, x in enumerate(outputs):
        end = x.promote(label=f"all.{r}").accum(fn.signal, 1, label=f"end.{r}")
        signals.append(end.assume_shape(1))
    every = selector(np.ones((1, len(signals)), dtype=int), label="every_region")
    joined = reassemble(signals, every, rank=0, label="join_ends")
    return joined.accum(fn.signal, 1, label="barrier")
