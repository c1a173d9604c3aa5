"""Attention with all keys of a query in one tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from stepsim.errors import ArgError
from stepsim.graph import fn
from stepsim.graph.nn.layer import Layer
from stepsim.graph.nn.masks import grid, position_mask, sight_of
from stepsim.graph.nn.online import scores_of
from stepsim.graph.nn.parallel.division import Division, Streams, alone
from stepsim.graph.ops.sources import metadata
from stepsim.graph.stream import Stream


@overload
def attention(
    q: Stream, k: Stream, v: Stream, *, causal: bool = False, window: int | None = None,
    start: int = 0, stacked: int = 1, heads_inside: bool = False, scale: float | None = None,
    compute_bw: int | None = None,
    write_back: bool = False, tp: None = None, label: str | None = None,
) -> Stream: ...  # fmt: skip


@overload
def attention(
    q: Sequence[Stream], k: Sequence[Stream], v: Sequence[Stream], *, causal: bool = False,
    window: int | None = None, start: int = 0, stacked: int = 1, heads_inside: bool = False,
    scale: float | None = None, compute_bw: int | None = None,
    write_back: bool = False, tp: int, label: str | None = None,
) -> list[Stream]: ...  # fmt: skip


def attention(
    q: Streams,
    k: Streams,
    v: Streams,
    *,
    causal: bool = False,
    window: int | None = None,
    start: int = 0,
    stacked: int = 1,
    heads_inside: bool = False,
    scale: float | None = None,
    compute_bw: int | None = None,
    write_back: bool = False,
    tp: int | None = None,
    label: str | None = None,
) -> Stream | list[Stream]:
    """Attention with all keys in one tile: ``softmax(q @ k.T * scale) @ v``.

    Complete rows of scores are computed, masked and normalized by a safe softmax. Grouped heads
    share keys and values: load them with a stride of 0 or ``repeat`` them, or put the query heads
    of a group on top of each other in one tile (``stacked``). For keys in blocks see
    :func:`flash_attention`.

    Shape
    -----
    ``q`` of tiles ``[m, d]``, ``k`` of ``[n, d]`` and ``v`` of ``[n, e]``, of one shape, give that
    shape of ``[m, e]``. When ``causal``, the innermost dim walks the query tiles of one sequence.

    Parameters
    ----------
    q : the queries; with ``tp`` a list of streams.
    k, v : keys and values, one tile of each for each query tile.
    causal : queries do not see keys after them.
    window : queries see only the last ``window`` keys up to them (sliding window).
    start : position of the first query; keys count from 0.
    stacked : heads in one query tile, stacked vertically, all at the same positions; for the
        causal mask.
    heads_inside : ``q`` is ``[..., query tiles, query heads]``, the output of a linear layer,
        instead of ``[..., query heads, query tiles]``.
    scale : factor of the scores; None is ``1 / sqrt(d)``.
    compute_bw : FLOPs per cycle of each operator; None is the program's.
    write_back : the result goes to on-chip memory.
    tp : chips that divide the heads (tensor parallelism); ``q``, ``k`` and ``v`` are lists with a
        stream on each of them, of its own heads. The result is a list like ``q``.

    FLOPs
    -----
    For each query tile ``2 m n d + 2 m n e + 9 m n`` (scale 1, softmax 8); a mask takes one cycle
    and no FLOPs, and a ``scale`` of 1 is left out.

    Raises
    ------
    ArgError : ``window``, ``start``, ``stacked`` or ``heads_inside`` without ``causal``, or
        ``stacked`` does not divide the rows; or streams are not on as many chips as ``tp`` says.
    DTypeError : a stream carries no tiles, or tiles of unknown size.
    DimError : shapes differ, the tiles do not fit each other, or with ``causal`` a dim is not
        constant.

    Example
    -------
    >>> with st.Program(compute_bw=64) as p:
    ...     q = st.linear_load(st.spec(16, 8, name="q"), (4, 8), shape=(2, 2), stride=(2, 1))
    ...     k = st.linear_load(st.spec(16, 8, name="k"), (8, 8), shape=(2, 2), stride=(1, 0))
    ...     v = st.linear_load(st.spec(16, 8, name="v"), (8, 8), shape=(2, 2), stride=(1, 0))
    ...     st.nn.attention(q, k, v, causal=True).consume()
    >>> p.metrics().flops
    5248
    """
    if tp is not None:
        group = Division("attention", q, tp, label, compute_bw, role="q")
        ks, vs = group.streams("k", k), group.streams("v", v)
        return group.each(
            lambda i: attention(
                group.xs[i], ks[i], vs[i], causal=causal, window=window, start=start,
                stacked=stacked, heads_inside=heads_inside, scale=scale, compute_bw=compute_bw,
                write_back=write_back, label=group.part(i),
            )
        )  # fmt: skip
    q, k, v = (alone("attention", x, role) for role, x in (("q", q), ("k", k), ("v", v)))
    layer = Layer("attention", {"q": q, "k": k, "v": v}, label, compute_bw, write_back)
    rows = layer.rows("q", q)
    keys = layer.rows("k", k)
    layer.columns("v", v)
    sight = sight_of(
        layer, q, causal=causal, window=window, start=start, stacked=stacked,
        heads_inside=heads_inside,
    )  # fmt: skip
    layer.require(
        sight.causal or not sight.inside, ArgError, "heads_inside has no effect without "
        "causal=True", "leave heads_inside out",
    )  # fmt: skip
    scores = scores_of(layer, q, k, scale)
    if not sight.all:
        dims = layer.constant_dims("q", q, "a causal mask needs the position of every tile")
        sight.check(layer, dims[sight.tiles] * rows // stacked, keys)
        at = metadata(grid(dims, sight.tiles), label=layer.part("query_tile"))
        block = metadata(np.zeros(dims, np.int64), label=layer.part("key_block"))
        mask = position_mask(sight, rows // stacked, keys, 1)
        scores = layer.map("mask", mask, scores, at, block)
    powers = layer.map(
        "exp", fn.exp, layer.map("subtract", fn.sub, scores, layer.map("max", fn.row_max, scores))
    )
    weights = layer.map("divide", fn.div, powers, layer.map("sum", fn.row_sum, powers))
    return layer.map("weigh", fn.matmul, weights, v, last=True)
