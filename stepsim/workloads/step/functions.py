"""Functions of grouped heads: a row has the queries of one token, those of the heads of a KV head
side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from stepsim.graph import Function, Init, fn, function


@dataclass(frozen=True)
class Grouped:
    """Sizes of the tiles of attention.

    Attributes
    ----------
    heads : query heads of a KV head.
    width : of queries and keys.
    value_width : of values.
    keys : rows of a tile of the cache.
    """

    heads: int
    width: int
    value_width: int
    keys: int

    @property
    def scores(self) -> Function:
        """Queries times transposed keys."""
        return _scores(self)

    @property
    def weighted(self) -> Function:
        """Weights times values, added up; the sum is free, as that of a matrix product."""
        return _weighted(self)

    @property
    def no_values(self) -> Init:
        """The state of `weighted` before the first tile."""
        return fn.empty((0, self.heads * self.value_width))

    @property
    def sums(self) -> Function:
        """The sum of the weights of each head, over all tiles."""
        return _sums(self)

    @property
    def no_sums(self) -> Init:
        """The state of `sums` before the first tile."""
        return fn.empty((0, self.heads))

    @property
    def divided(self) -> Function:
        """Values of each head over its sum of weights."""
        return _divided(self)

    def seen(self, steps: int, window: int | None) -> Function:
        """Scores of keys that a query attends to; minus infinity for the others.

        A map of (scores, address of the key tile, position of the first query). A cache has
        ``steps`` tiles.
        """
        return _seen(self, steps, window)

    def split(self, x: Any) -> Any:
        """Rows ``[n, heads, ...]`` of the tiles."""
        return x.reshape(x.shape[0], self.heads, -1)


@cache
def _scores(of: Grouped) -> Function:
    return function(
        "grouped_scores",
        f"n {of.heads * of.width}, {of.keys} {of.width} -> n {of.heads * of.keys}",
        lambda n: 2 * of.heads * of.width * of.keys * n,
        values=_Scores(of),
    )


@cache
def _weighted(of: Grouped) -> Function:
    columns = of.heads * of.value_width
    return function(
        "grouped_values",
        f"n {columns}; n {of.heads * of.keys}, {of.keys} {of.value_width} -> n {columns}",
        lambda n: 2 * of.heads * of.keys * of.value_width * n,
        values=_Weighted(of),
    )


@cache
def _sums(of: Grouped) -> Function:
    return function(
        "grouped_sums",
        f"n {of.heads}; n {of.heads * of.keys} -> n {of.heads}",
        lambda n: of.heads * of.keys * n,
        values=_Sums(of),
    )


@cache
def _divided(of: Grouped) -> Function:
    return function(
        "grouped_quotients",
        f"n {of.heads * of.value_width}, n {of.heads} -> n {of.heads * of.value_width}",
        lambda n: of.heads * of.value_width * n,
        values=_Divided(of),
    )


@cache
def _seen(of: Grouped, steps: int, window: int | None) -> Function:
    # Like the masks of st.fn: one cycle, no FLOPs.
    columns = of.heads * of.keys
    return function(
        "causal_scores", f"n {columns}, 1 1, 1 1 -> n {columns}", 0, 1,
        _Seen(of, steps, window), kind=("number", "address", "address"),
    )  # fmt: skip


@dataclass(frozen=True)
class _Scores:
    of: Grouped

    def __call__(self, queries: Any, keys: Any) -> Any:
        return (self.of.split(queries) @ keys.T).reshape(len(queries), -1)


@dataclass(frozen=True)
class _Weighted:
    of: Grouped

    def __call__(self, state: Any, weights: Any, values: Any) -> Any:
        added = (self.of.split(weights) @ values).reshape(len(weights), -1)
        return state + added if len(state) else added


@dataclass(frozen=True)
class _Sums:
    of: Grouped

    def __call__(self, state: Any, weights: Any) -> Any:
        added = self.of.split(weights).sum(axis=2)
        return state + added if len(state) else added


@dataclass(frozen=True)
class _Divided:
    of: Grouped

    def __call__(self, values: Any, sums: Any) -> Any:
        return (self.of.split(values) / sums[:, :, None]).reshape(len(values), -1)


@dataclass(frozen=True)
class _Seen:
    of: Grouped
    steps: int
    window: int | None

    def __call__(self, scores: Any, address: Any, position: Any) -> Any:
        keys = self.of.keys
        at = int(address[0, 0]) % self.steps * keys + np.arange(keys)
        query = int(position[0, 0]) + np.arange(len(scores))[:, None]
        seen = at <= query
        if self.window is not None:
            seen &= at > query - self.window
        every = np.tile(seen, (1, self.of.heads))
        return np.where(every, scores, np.float32(-np.inf))
