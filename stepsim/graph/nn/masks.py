"""Which keys a query sees: positions of query tiles and key blocks, and the mask by position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from stepsim.errors import ArgError, DimError, RankError
from stepsim.graph.functions.define import function
from stepsim.graph.functions.function import Function
from stepsim.graph.nn.layer import Layer
from stepsim.graph.sizes.limits import SIZE, TILE_SIDE
from stepsim.graph.sizes.shapes import format_dims
from stepsim.graph.stream import Stream


@dataclass(frozen=True)
class Sight:
    """The keys that queries see.

    Attributes
    ----------
    causal : no keys after the query.
    window : number of keys up to the query, or None for all.
    start : position of the first query; keys count from 0.
    stacked : heads in one query tile, stacked vertically.
    inside : the innermost dim of the queries walks heads and the next one query tiles, instead of
        the other way round.
    """

    causal: bool
    window: int | None
    start: int
    stacked: int
    inside: bool

    @property
    def tiles(self) -> int:
        """The axis of query tiles."""
        return -2 if self.inside else -1

    @property
    def heads(self) -> int:
        """The axis of heads."""
        return -1 if self.inside else -2

    @property
    def all(self) -> bool:
        return not self.causal

    def check(self, layer: Layer, queries: int, keys: int) -> None:
        """Refuse queries whose window lies beyond the last key: their softmax has no value."""
        last = self.start + queries - 1
        first = 0 if self.window is None else last - self.window + 1
        layer.require(
            first < keys,
            DimError,
            f"the query at position {last} sees keys {first} to {last} alone, but there are only "
            f"{keys} keys",
            "give keys up to the last query, or a larger window",
        )

    def blocks(self, queries: int, rows: int, keys: int, blocks: int) -> tuple[Any, Any]:
        """First key block and number of blocks that each of ``queries`` tiles of ``rows`` needs."""
        first = self.start + rows * np.arange(queries)
        last = first + rows - 1
        stop = np.minimum(last // keys + 1, blocks)
        if self.window is None:
            return np.zeros(queries, np.int64), stop
        begin = np.maximum(first - self.window + 1, 0) // keys
        return begin, stop - begin


def sight_of(
    layer: Layer,
    q: Stream,
    *,
    causal: bool,
    window: int | None,
    start: int,
    stacked: int = 1,
    heads_inside: bool,
) -> Sight:
    """The `Sight` of the queries of a stream, from the arguments of a layer."""
    rows = layer.rows("q", q)
    inside = layer.flag("heads_inside", heads_inside)
    layer.require(
        not inside or q.rank >= 1,
        RankError,
        f"heads_inside=True needs dims of query tiles and heads, q is {format_dims(q.shape)}",
    )
    causal = layer.flag("causal", causal)
    stacked = layer.number(TILE_SIDE, "stacked", stacked)
    start = layer.number(SIZE, "start", start)
    if window is not None:
        window = layer.number(TILE_SIDE, "window", window)
    given = {"window": window is not None, "start": start != 0, "stacked": stacked != 1}
    for name, changed in given.items():
        layer.require(
            causal or not changed, ArgError, f"{name} has no effect without causal=True",
            f"pass causal=True, or leave {name} out",
        )  # fmt: skip
    layer.require(
        rows % stacked == 0, ArgError, f"stacked={stacked} does not divide the {rows} rows of q"
    )
    return Sight(causal, window, start, stacked, inside)


@cache
def position_mask(sight: Sight, rows: int, keys: int, blocks: int) -> Function:
    """Masks scores of keys that a query does not see; operands (scores, query tile, key block).

    Query tiles hold ``rows`` positions of every stacked head; block numbers count the ``blocks`` of
    a head and continue with those of the next head.
    """
    return _mask("position_mask", _Seen(sight, rows, keys, blocks))


@cache
def length_mask(keys: int, blocks: int, window: int | None = None) -> Function:
    """Masks scores of keys beyond a length; operands (scores, key block, length).

    With ``window`` also those before the last ``window`` keys.
    """
    return _mask("length_mask", _Held(keys, blocks, window))


@dataclass(frozen=True)
class _Seen:
    """Values of :func:`position_mask`."""

    sight: Sight
    rows: int
    keys: int
    blocks: int

    def __call__(self, scores: Any, tile: Any, block: Any) -> Any:
        window = math.inf if self.sight.window is None else self.sight.window
        first = self.sight.start + int(tile[0, 0]) * self.rows
        queries = first + np.arange(scores.shape[0])[:, None] % self.rows
        at = int(block[0, 0]) % self.blocks * self.keys + np.arange(scores.shape[1])
        seen = (at <= queries) & (at > queries - window)
        return np.where(seen, scores, np.float32(-np.inf))


@dataclass(frozen=True)
class _Held:
    """Values of :func:`length_mask`."""

    keys: int
    blocks: int
    window: int | None

    def __call__(self, scores: Any, block: Any, length: Any) -> Any:
        at = int(block[0, 0]) % self.blocks * self.keys + np.arange(scores.shape[1])
        end = int(length[0, 0])
        seen = (at < end) & (at >= (0 if self.window is None else end - self.window))
        return np.where(seen, scores, np.float32(-np.inf))


def _mask(name: str, values: Any) -> Function:
    # Like the masks of st.fn: one cycle, no FLOPs.
    return function(
        name, "m n, 1 1, 1 1 -> m n", 0, 1, values, kind=("number", "address", "address")
    )


def grid(dims: Sequence[int], axis: int) -> Any:
    """The index along one axis, at every position of an array of these dims."""
    return np.broadcast_to(
        np.arange(dims[axis]).reshape([-1, *(1 for _ in dims[axis % len(dims) + 1 :])]),
        tuple(dims),
    ).copy()
