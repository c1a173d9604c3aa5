"""The new tokens of a batch, cut into blocks whose queries share a tile.

A block has up to ``query_tile`` consecutive new tokens of one request. Blocks are in the order of
the batch, and block b is in region ``b mod R`` of QKV generation and output projection. A *task* of
attention is one block of one KV head; tasks are ordered by head, and by block within a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class StepBlocks:
    """The blocks of a batch, and which cached tokens they attend to.

    Attributes
    ----------
    new, cached : tokens of each request. [requests]
    query_tile : new tokens of a block at most.
    kv_tile : cached tokens of a tile.
    window : tokens that a query attends to at most, itself among them; None for all.
    regions : of QKV generation at most.
    """

    new: Numbers
    cached: Numbers
    query_tile: int
    kv_tile: int
    window: int | None
    regions: int

    @cached_property
    def request(self) -> Numbers:
        """The request of each block."""
        return np.repeat(np.arange(len(self.new)), self._counts)

    @cached_property
    def _counts(self) -> Numbers:
        return -(-self.new // self.query_tile)

    @cached_property
    def first(self) -> Numbers:
        """The position of the first query of each block in its request."""
        before = np.repeat(np.cumsum(self._counts) - self._counts, self._counts)
        inside = np.arange(len(self.request)) - before
        return self.cached[self.request] + inside * self.query_tile

    @cached_property
    def rows(self) -> Numbers:
        """New tokens of each block."""
        left = (self.cached + self.new)[self.request] - self.first
        rows: Numbers = np.minimum(left, self.query_tile)
        return rows

    @property
    def single(self) -> bool:
        """Whether every block has one token."""
        return int(self.rows.max()) == 1

    @cached_property
    def shares(self) -> tuple[Numbers, ...]:
        """The blocks of each region; a region without any is left out."""
        count = len(self.rows)
        return tuple(np.arange(r, count, self.regions) for r in range(min(count, self.regions)))

    @cached_property
    def region_of_rows(self) -> Numbers:
        """The region of every new token of the batch."""
        regions: Numbers = np.repeat(np.arange(len(self.rows)) % self.regions, self.rows)
        return regions

    @property
    def reserved(self) -> int:
        """Cache tokens of one request and KV head: whole tiles that hold the longest request."""
        return -(-int((self.cached + self.new).max()) // self.kv_tile) * self.kv_tile

    @property
    def steps(self) -> int:
        """Tiles of a cache."""
        return self.reserved // self.kv_tile

    @cached_property
    def first_tile(self) -> Numbers:
        """The first tile of its cache that a block attends to."""
        if self.window is None:
            return np.zeros(len(self.rows), dtype=np.int64)
        return np.maximum(self.first - self.window + 1, 0) // self.kv_tile

    @cached_property
    def tiles(self) -> Numbers:
        """Tiles of its cache that a block attends to."""
        return -(-(self.first + self.rows) // self.kv_tile) - self.first_tile

    def integers(self, heads: int) -> dict[str, Numbers]:
        """The integers that attention of so many KV heads reads and that depend on cached tokens,
        by label. Programs of batches with equal new tokens differ in nothing else.
        """
        first = np.tile(self.first, heads)
        found = {
            "tiles": np.tile(self.tiles, heads)[np.newaxis],
            "position": first[np.newaxis, :, np.newaxis],
        }
        # The place of the cache of each task. [heads, blocks]
        slots = np.arange(heads)[:, None] * len(self.new) + self.request
        for r, share in enumerate(self.shares):
            own = slots[:, share].ravel()
            found[f"first_tiles.{r}"] = np.tile(self.first_tile[share], heads) + own * self.steps
            rows = np.repeat(own, np.tile(self.rows[share], heads))
            written = rows * self.reserved + np.tile(self.positions(share), heads)
            found[f"write_address_key.{r}"] = found[f"write_address_value.{r}"] = written
        return found

    def positions(self, share: Sequence[int] | Numbers) -> Numbers:
        """The positions of the new tokens of some blocks, in order."""
        rows = self.rows[share]
        inside = np.arange(int(rows.sum())) - np.repeat(np.cumsum(rows) - rows, rows)
        positions: Numbers = np.repeat(self.first[share], rows) + inside
        return positions

    @cached_property
    def pairs(self) -> int:
        """Pairs of a query and a key that it attends to, of one head."""
        position = self.positions(np.arange(len(self.rows)))
        seen = position + 1 if self.window is None else np.minimum(position + 1, self.window)
        return int(seen.sum())

    @property
    def computed_pairs(self) -> int:
        """Pairs of a query and a row of its key tiles, of one head."""
        return int((self.rows * self.tiles).sum()) * self.kv_tile
