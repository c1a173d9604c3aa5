"""Multi-head latent attention: keys and values of all heads from one small latent vector."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, overload

from stepsim.errors import ArgError, RankError
from stepsim.graph import fn
from stepsim.graph.nn.blocks import blocks_of, masked
from stepsim.graph.nn.layer import Layer, Tensor
from stepsim.graph.nn.masks import sight_of
from stepsim.graph.nn.online import online_attention, scores_of
from stepsim.graph.nn.parallel.division import Division, Streams, alone
from stepsim.graph.sizes.shapes import format_dims
from stepsim.graph.stream import Stream


@overload
def latent_attention(
    q: Stream, q_rope: Stream, latent: Stream | Tensor, k_rope: Stream | Tensor, up_key: Tensor,
    up_value: Tensor, *, absorbed: bool = True,
    kv_tile: int | None = None, causal: bool = False, window: int | None = None, start: int = 0,
    heads_inside: bool = False, scale: float | None = None, compute_bw: int | None = None,
    write_back: bool = False, tp: None = None, label: str | None = None,
) -> Stream: ...  # fmt: skip


@overload
def latent_attention(
    q: Sequence[Stream], q_rope: Sequence[Stream], latent: Sequence[Stream] | Tensor,
    k_rope: Sequence[Stream] | Tensor, up_key: Tensor, up_value: Tensor, *, absorbed: bool = True,
    kv_tile: int | None = None, causal: bool = False, window: int | None = None, start: int = 0,
    heads_inside: bool = False, scale: float | None = None, compute_bw: int | None = None,
    write_back: bool = False, tp: int, label: str | None = None,
) -> list[Stream]: ...  # fmt: skip


def latent_attention(
    q: Streams,
    q_rope: Streams,
    latent: Streams | Tensor,
    k_rope: Streams | Tensor,
    up_key: Tensor,
    up_value: Tensor,
    *,
    absorbed: bool = True,
    kv_tile: int | None = None,
    causal: bool = False,
    window: int | None = None,
    start: int = 0,
    heads_inside: bool = False,
    scale: float | None = None,
    compute_bw: int | None = None,
    write_back: bool = False,
    tp: int | None = None,
    label: str | None = None,
) -> Stream | list[Stream]:
    """Multi-head latent attention (MLA) of DeepSeek-V2 over blocks of cached latent vectors.

    The cache holds a latent vector ``c`` and a rotated key ``k_rope`` for each position, shared by
    all heads. Head ``h`` has keys ``[c @ up_key[h].T, k_rope]`` and values ``c @ up_value[h]``.
    ``absorbed`` never computes these: queries are multiplied by ``up_key[h]``, the latent vectors
    serve as keys and values, and the result is multiplied by ``up_value[h]``. Otherwise keys and
    values of each block are computed for each head and query tile. Softmax and blocks are as in
    :func:`flash_attention`.

    Shape
    -----
    ``q`` ``[..., heads, query tiles]`` of ``[m, d]`` and ``q_rope``, of the same shape, of
    ``[m, p]`` give that shape of ``[m, e]``. ``latent`` and ``k_rope`` are tensors ``[L, r]`` and
    ``[L, p]``, or streams of the shape of ``q`` and one inner dim of blocks, of ``[t, r]`` and
    ``[t, p]``.

    Parameters
    ----------
    q, q_rope : the two parts of the queries; the second is rotated, see :func:`rope`.
    latent, k_rope : the cache, both tensors that are read from off chip or both streams.
    up_key, up_value : up-projections of the heads, stacked vertically: tensors ``[heads * d, r]``
        and ``[heads * r, e]``.
    absorbed : whether the up-projections are applied to queries and results.
    kv_tile : positions of a block, for tensors; it divides ``L``.
    causal, window, start, heads_inside : as in :func:`flash_attention`.
    scale : factor of the scores; None is ``1 / sqrt(d + p)``.
    compute_bw : FLOPs per cycle of each operator; None is the program's.
    write_back : the result goes to on-chip memory.
    tp : chips that divide the heads (tensor parallelism); ``q`` and ``q_rope`` are lists with a
        stream on each of them, of its own heads. Every chip has the up-projections of its heads and
        a copy of the cache. The result is a list like ``q``.

    FLOPs
    -----
    Absorbed: for each query tile ``2 m d r + 2 m r e + m r`` (queries, results, division), for each
    block ``2 m t (r + p) + 2 m t r + 8 m t + m r + 8 m``. Otherwise: for each query tile ``m e``,
    for each block ``2 t r (d + e)`` for keys and values and ``2 m t (d + p) + 2 m t e + 8 m t + m e
    + 8 m``.

    Raises
    ------
    ArgError : a tensor does not fit, or as in :func:`flash_attention`; or ``tp`` does not divide
        the up-projections, or streams are not on as many chips as it says.
    RankError, DimError : ``q`` has no dim of heads, shapes do not fit, or a dim is not constant.
    DTypeError : a stream carries no tiles, or tiles of unknown size.

    Example
    -------
    >>> with st.Program(compute_bw=64) as p:
    ...     q = st.linear_load(st.spec(16, 8, name="q"), (4, 8), shape=(2, 2), stride=(2, 1))
    ...     r = st.linear_load(st.spec(16, 2, name="r"), (4, 2), shape=(2, 2), stride=(2, 1))
    ...     c, k = st.spec(8, 4, name="c"), st.spec(8, 2, name="k")
    ...     up_key, up_value = st.spec(16, 4, name="up_key"), st.spec(8, 8, name="up_value")
    ...     out = st.nn.latent_attention(q, r, c, k, up_key, up_value, kv_tile=4)
    ...     out.consume()
    >>> p.metrics().flops
    6080
    """
    if tp is not None:
        group = Division("latent_attention", q, tp, label, compute_bw, role="q")
        ropes = group.streams("q_rope", q_rope)
        latents, turned_keys = group.copies("latent", latent), group.copies("k_rope", k_rope)
        up_keys, up_values = group.rows("up_key", up_key), group.rows("up_value", up_value)
        return group.each(
            lambda i: latent_attention(
                group.xs[i], ropes[i], latents[i], turned_keys[i], up_keys[i], up_values[i],
                absorbed=absorbed, kv_tile=kv_tile, causal=causal, window=window, start=start,
                heads_inside=heads_inside, scale=scale, compute_bw=compute_bw,
                write_back=write_back, label=group.part(i),
            )
        )  # fmt: skip
    q = alone("latent_attention", q, "q")
    q_rope = alone("latent_attention", q_rope, "q_rope")
    cache: dict[str, Any] = {"latent": latent, "k_rope": k_rope}
    streams = {role: x for role, x in cache.items() if isinstance(x, Stream)}
    layer = Layer(
        "latent_attention", {"q": q, "q_rope": q_rope, **streams}, label, compute_bw, write_back
    )
    absorbed = layer.flag("absorbed", absorbed)
    rows, width = layer.rows("q", q), layer.columns("q", q)
    turned = layer.columns("q_rope", q_rope)
    layer.site.same_dims(q.shape, q_rope.shape, "q", "q_rope")
    sight = sight_of(layer, q, causal=causal, window=window, start=start, heads_inside=heads_inside)
    dims = layer.constant_dims("q", q, "every head has up-projections")
    layer.require(
        len(dims) >= 2,
        RankError,
        f"q is {format_dims(q.shape)}, expected [..., heads, query tiles]",
    )
    heads = dims[sight.heads]
    key = layer.matrix("up_key", up_key, heads * width)
    held = key.shape[1]
    value = layer.matrix("up_value", up_value, heads * held)
    out = value.shape[1]
    walk = (0,) * (len(dims) - 2) + ((0, 1) if sight.inside else (1, 0))
    keys = layer.walk("load_up_key", key, (width, held), dims, walk)
    values = layer.walk("load_up_value", value, (held, out), dims, walk)
    both = fn.concat_cols(2)
    if absorbed:
        q = layer.map("absorb", fn.matmul, q, keys)
    joined = layer.map("queries_of_heads", both, q, q_rope)
    blocks = blocks_of(layer, joined, cache, kv_tile, sight)
    for role, x, wanted in (("latent", blocks.k, held), ("k_rope", blocks.v, turned)):
        layer.require(
            layer.columns(role, x) == wanted,
            ArgError,
            f"{role} has {layer.columns(role, x)} columns, expected {wanted}",
            "latent has the columns of up_key, k_rope those of q_rope",
        )
    if absorbed:
        k, v = blocks.k, blocks.k
    else:
        k = layer.map("key", fn.matmul_t, blocks.k, layer.spread("up_keys", keys, blocks.k))
        v = layer.map("value", fn.matmul, blocks.k, layer.spread("up_values", values, blocks.k))
    k = layer.map("keys_of_heads", both, k, blocks.v)
    if scale is None:
        scale = 1 / math.sqrt(width + turned)
    scores = masked(layer, scores_of(layer, blocks.q, k, scale), blocks, sight, rows)
    weighted = online_attention(layer, scores, v, last=not absorbed)
    if not absorbed:
        return weighted
    return layer.map("project", fn.matmul, weighted, values, last=True)
