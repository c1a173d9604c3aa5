"""FlashAttention: attention over blocks of keys with an online softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from stepsim.errors import ArgError
from stepsim.graph.nn.blocks import blocks_of, masked
from stepsim.graph.nn.layer import Layer, Tensor
from stepsim.graph.nn.masks import sight_of
from stepsim.graph.nn.online import online_attention, scores_of
from stepsim.graph.nn.parallel.division import Division, Streams, alone
from stepsim.graph.stream import Stream


@overload
def flash_attention(
    q: Stream, k: Stream | Tensor, v: Stream | Tensor, *, kv_tile: int | None = None,
    causal: bool = False, window: int | None = None, start: int = 0, stacked: int = 1,
    heads_inside: bool = False, scale: float | None = None, compute_bw: int | None = None,
    write_back: bool = False, tp: None = None, label: str | None = None,
) -> Stream: ...  # fmt: skip


@overload
def flash_attention(
    q: Sequence[Stream], k: Sequence[Stream] | Tensor,
    v: Sequence[Stream] | Tensor, *, kv_tile: int | None = None, causal: bool = False,
    window: int | None = None, start: int = 0, stacked: int = 1, heads_inside: bool = False,
    scale: float | None = None, compute_bw: int | None = None,
    write_back: bool = False, tp: int, label: str | None = None,
) -> list[Stream]: ...  # fmt: skip


def flash_attention(
    q: Streams,
    k: Streams | Tensor,
    v: Streams | Tensor,
    *,
    kv_tile: int | None = None,
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
    """FlashAttention: ``softmax(q @ k.T * scale) @ v`` over blocks of keys, in one pass.

    An accumulation carries (largest score, sum of exps, weighted values) for every row and rescales
    the last two whenever the first grows, so that only one block of scores exists at a time. The
    division by the sum comes last.

    Keys and values that are tensors are read from off chip block by block, once for each query
    tile; when ``causal``, only blocks that a query of the tile sees are read and computed, from
    the first key in its ``window`` to the last query. Blocks of streams are all computed.
    Blocks are masked by position.

    Shape
    -----
    ``q`` of tiles ``[m, d]`` gives its shape of ``[m, e]``. Streams ``k`` and ``v`` have the shape
    of ``q`` and one inner dim of blocks, of tiles ``[t, d]`` and ``[t, e]``. Tensors are
    ``[heads, L, d]`` and ``[heads, L, e]``, or without ``heads`` for one head, and ``q`` is
    ``[..., query heads, query tiles]``: the query heads, a multiple of ``heads``, share the key
    heads in groups of neighbors (grouped attention), and leading dims read them again. When
    ``causal``, the innermost dim of ``q`` walks the query tiles of one sequence.

    Parameters
    ----------
    q : the queries; with ``tp`` a list of streams.
    k, v : keys and values, both tensors that are read from off chip or both streams.
    kv_tile : keys of a block, for tensors; it divides ``L``.
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
    tp : chips that divide the heads (tensor parallelism); ``q`` is a list with a stream on each of
        them, of its own query heads, and so are ``k`` and ``v``, where they are streams. Of tensors
        with all heads every chip reads those of its queries. The result is a list like ``q``.

    FLOPs
    -----
    For each computed block ``2 m t d + 2 m t e + 8 m t + m e + 8 m``: products; scale 1,
    max, difference, exp (4) and sum of each score; the rescaled values; max, difference, exp (4),
    product and sum of each row. A ``scale`` of 1 is left out, a mask takes one cycle and no FLOPs.
    For each query tile ``m e`` for the division.

    Memory
    ------
    The states of a query tile, ``m (e + 2)`` scalars.

    Raises
    ------
    ArgError : ``window``, ``start`` or ``stacked`` without ``causal``, ``stacked`` or ``kv_tile``
        does not divide, ``kv_tile`` is missing for tensors or given for streams, or heads do not
        fit; or ``tp`` does not divide the heads, or streams are not on as many chips as it says.
    DTypeError : a stream carries no tiles, or tiles of unknown size.
    RankError, DimError : shapes do not fit, or a dim that must be constant is not.

    Example
    -------
    >>> with st.Program(compute_bw=64) as p:
    ...     q = st.linear_load(st.spec(32, 8, name="q"), (4, 8), shape=(4, 2), stride=(2, 1))
    ...     k, v = st.spec(2, 8, 8, name="k"), st.spec(2, 8, 8, name="v")
    ...     out = st.nn.flash_attention(q, k, v, kv_tile=4, causal=True)
    ...     out.consume()
    >>> print(out.describe())
    Stream[4, 2] of Tile[4x8 bf16]
    >>> p.metrics().flops
    8704
    """
    if tp is not None:
        group = Division("flash_attention", q, tp, label, compute_bw, role="q")
        ks, vs = group.of_heads("k", k), group.of_heads("v", v)
        return group.each(
            lambda i: flash_attention(
                group.xs[i], ks[i], vs[i], kv_tile=kv_tile, causal=causal, window=window,
                start=start, stacked=stacked, heads_inside=heads_inside, scale=scale,
                compute_bw=compute_bw, write_back=write_back, label=group.part(i),
            )
        )  # fmt: skip
    q = alone("flash_attention", q, "q")
    keys: dict[str, Any] = {"k": k, "v": v}
    streams = {role: x for role, x in keys.items() if isinstance(x, Stream)}
    layer = Layer("flash_attention", {"q": q, **streams}, label, compute_bw, write_back)
    rows, width = layer.rows("q", q), layer.columns("q", q)
    sight = sight_of(
        layer, q, causal=causal, window=window, start=start, stacked=stacked,
        heads_inside=heads_inside,
    )  # fmt: skip
    blocks = blocks_of(layer, q, keys, kv_tile, sight)
    found = layer.columns("k", blocks.k)
    layer.require(found == width, ArgError, f"k has heads of {found} columns, q has tiles {q.type}")
    scores = masked(layer, scores_of(layer, blocks.q, blocks.k, scale), blocks, sight, rows)
    return online_attention(layer, scores, blocks.v)
