"""A decoder layer of the Llama family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

from stepsim.errors import ArgError, RankError
from stepsim.graph import fn
from stepsim.graph.nn.feed_forward import swiglu
from stepsim.graph.nn.flash import flash_attention
from stepsim.graph.nn.layer import Layer, Tensor
from stepsim.graph.nn.linear import linear
from stepsim.graph.nn.norms import rms_norm
from stepsim.graph.nn.parallel.division import Division, Streams, alone, slice_of
from stepsim.graph.nn.rotary import rope
from stepsim.graph.ops.flat_map.cutting import emit
from stepsim.graph.ops.flat_map.flat_maps import flat_map
from stepsim.graph.ops.shape.chunks import reshape
from stepsim.graph.sizes.limits import COUNT
from stepsim.graph.sizes.shapes import format_dims
from stepsim.graph.stream import Stream
from stepsim.graph.types import TensorSpec


@dataclass(frozen=True)
class LlamaWeights:
    """Tensors of one layer, stored as [in, out].

    Attributes
    ----------
    attention_norm, ffn_norm : scale factors ``[1, D]``.
    q, k, v : projections ``[D, heads * d]`` and, twice, ``[D, kv_heads * d]``.
    o : projection of the heads ``[heads * d, D]``.
    gate, up, down : feed-forward network ``[D, F]``, ``[D, F]`` and ``[F, D]``.
    cos, sin : tables of :func:`rope_tables` for all positions.
    """

    attention_norm: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    ffn_norm: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor
    cos: Tensor
    sin: Tensor


@overload
def llama_block(
    x: Stream, weights: LlamaWeights, *, heads: int, kv_heads: int | None = None,
    inner: int | None = None, eps: float = 1e-5, compute_bw: int | None = None,
    write_back: bool = False, tp: None = None, collective: None = None, label: str | None = None,
) -> Stream: ...  # fmt: skip


@overload
def llama_block(
    x: Streams, weights: LlamaWeights, *, heads: int, kv_heads: int | None = None,
    inner: int | None = None, eps: float = 1e-5, compute_bw: int | None = None,
    write_back: bool = False, tp: int, collective: str | None = None, label: str | None = None,
) -> list[Stream]: ...  # fmt: skip


def llama_block(
    x: Streams,
    weights: LlamaWeights,
    *,
    heads: int,
    kv_heads: int | None = None,
    inner: int | None = None,
    eps: float = 1e-5,
    compute_bw: int | None = None,
    write_back: bool = False,
    tp: int | None = None,
    collective: str | None = None,
    label: str | None = None,
) -> Stream | list[Stream]:
    """A decoder layer of the Llama family over whole sequences (prefill).

    RMSNorm, causal attention with rotated queries and keys and grouped heads, a residual sum;
    RMSNorm, SwiGLU, a residual sum. Everything between two loads of weights stays on chip:
    normalized rows, keys and values of a sequence are buffered, and the online softmax reads all
    key blocks for each query tile, masking those after the queries. Query heads of a group are
    stacked vertically in one tile, so that they share each block.

    Shape
    -----
    ``x`` ``[sequences, row tiles]`` of ``[m, D]`` gives the same shape and tiles. A block of keys
    is a row tile.

    Parameters
    ----------
    x : the rows; with ``tp`` a list of streams, or a single one.
    weights : the tensors, see :class:`LlamaWeights`.
    heads, kv_heads : query heads, and key and value heads, which divide them; None: equally many.
    inner : hidden columns of the feed-forward network computed at a time; None for all.
    eps : epsilon of both norms.
    compute_bw : FLOPs per cycle of each operator; None is the program's.
    write_back : the result goes to on-chip memory.
    tp : chips that divide the heads and the hidden columns (tensor parallelism); ``x`` is a list
        with a stream of the same rows on each of them, or a single stream, which is sent to the
        chip it is on and those behind. With more chips than key heads, chips that follow each other
        have the same one. The result is a list of the rows on every chip.
    collective : algorithm of the all-reduces, see :func:`all_reduce`; None is a ring.

    FLOPs
    -----
    The sum of the parts, for each row tile of ``m`` rows among ``n`` of a sequence, heads of ``d``,
    ``H`` query and ``K`` key heads: norms ``2 (4 m D + 6 m)``, projections ``2 m D d (H + 2 K) +
    2 m H d D``, rotations ``3 m d (H + K)``, attention ``n H (4 m m d + 8 m m + m d + 8 m) +
    H m d``, feed-forward network ``6 m D F + 9 m F``, sums ``2 m D``.

    With ``tp`` these are on all chips together, but norms and sums are on each of them, and with
    more chips than key heads ``K`` is the number of chips. The two all-reduces add ``2 m D (tp -
    1)``.

    Memory
    ------
    Buffers of a sequence: normalized rows, input, keys and values; see ``bufferize``.

    Messages
    --------
    With ``tp`` those of two :func:`all_reduce`, behind attention and behind the feed-forward
    network, and ``x``, if it is on one chip.

    Raises
    ------
    ArgError : heads do not divide, or a tensor does not fit; or ``tp`` does not divide the heads or
        the hidden columns, or streams are not on as many chips as it says.
    RankError, DimError : ``x`` does not have two dims, or one is not constant.
    DTypeError : ``x`` carries no tiles, or tiles of unknown size.

    Example
    -------
    >>> shapes = dict(
    ...     q=(16, 16), k=(16, 8), v=(16, 8), o=(16, 16), gate=(16, 32), up=(16, 32),
    ...     down=(32, 16), attention_norm=(1, 16), ffn_norm=(1, 16), cos=(8, 2), sin=(8, 2),
    ... )
    >>> weights = st.nn.LlamaWeights(**{k: st.spec(*s, name=k) for k, s in shapes.items()})
    >>> with st.Program(compute_bw=64) as p:
    ...     x = st.linear_load(st.spec(8, 16, name="x"), (4, 16), shape=(1, 2), stride=(2, 1))
    ...     y = st.nn.llama_block(x, weights, heads=4, kv_heads=2)
    ...     y.consume()
    >>> print(y.describe())
    Stream[1, 2] of Tile[4x16 bf16]
    >>> p.metrics().flops
    48160
    """
    if tp is not None:
        group = Division("llama_block", x, tp, label, compute_bw, collective=collective, sent=True)
        layers = [
            Layer("llama_block", {"x": one}, group.part(i), compute_bw, write_back)
            for i, one in enumerate(group.xs)
        ]
        heads, kv_heads, width = _checked(group.layer, group.xs[0], weights, heads, kv_heads)
        own = _divided(group, weights, heads, kv_heads, width)
        h, k = heads // group.count, max(1, kv_heads // group.count)
        attended = group.summed(
            group.each(lambda i: _attention(layers[i], group.xs[i], own[i], h, k, width, eps))
        )
        summed = group.each(lambda i: _with_input(layers[i], group.xs[i], attended[i]))
        normed = group.each(lambda i: _normed(layers[i], summed[i], own[i], eps))
        fed = swiglu(
            normed, weights.gate, weights.up, weights.down, tile=inner, compute_bw=compute_bw,
            tp=tp, collective=collective, label=group.layer.part("ffn"),
        )  # fmt: skip
        return group.each(lambda i: layers[i].map("add_ffn", fn.add, summed[i], fed[i], last=True))
    x = alone("llama_block", x, collective=collective)
    layer = Layer("llama_block", {"x": x}, label, compute_bw, write_back)
    heads, kv_heads, width = _checked(layer, x, weights, heads, kv_heads)
    rows = _with_input(layer, x, _attention(layer, x, weights, heads, kv_heads, width, eps))
    network = swiglu(
        _normed(layer, rows, weights, eps), weights.gate, weights.up, weights.down, tile=inner,
        compute_bw=compute_bw, label=layer.part("ffn"),
    )  # fmt: skip
    return layer.map("add_ffn", fn.add, rows, network, last=True)


def _checked(
    layer: Layer, x: Stream, weights: LlamaWeights, heads: int, kv_heads: int | None
) -> tuple[int, int, int]:
    """Query heads, key heads, and the columns of a head."""
    layer.require(
        isinstance(weights, LlamaWeights), ArgError,
        f"weights must be LlamaWeights, found {type(weights).__name__}",
    )  # fmt: skip
    heads = layer.number(COUNT, "heads", heads)
    kv_heads = heads if kv_heads is None else layer.number(COUNT, "kv_heads", kv_heads)
    layer.require(
        heads % kv_heads == 0, ArgError, f"kv_heads {kv_heads} does not divide the {heads} heads"
    )
    layer.require(
        x.rank == 1, RankError, f"x is {format_dims(x.shape)}, expected [sequences, row tiles]"
    )
    q = layer.matrix("q", weights.q, layer.columns("x", x))
    layer.require(
        q.shape[1] % heads == 0, ArgError, f"q is {q}, its columns are not those of {heads} heads"
    )
    return heads, kv_heads, q.shape[1] // heads


def _divided(
    group: Division, weights: LlamaWeights, heads: int, kv_heads: int, width: int
) -> list[LlamaWeights]:
    """The tensors of attention that each member reads, its heads of them, and of the norms."""
    layer, count = group.layer, group.count
    layer.require(heads % count == 0, ArgError, f"tp {count} does not divide the {heads} heads")
    layer.require(
        kv_heads % count == 0 or count % kv_heads == 0, ArgError,
        f"tp {count} neither divides the {kv_heads} key heads nor is a multiple of them",
    )  # fmt: skip
    d_model = layer.columns("x", group.xs[0])
    each, shared = max(1, kv_heads // count) * width, max(1, count // kv_heads)
    keys, values = (
        layer.matrix(role, tensor, d_model, kv_heads * width)
        for role, tensor in (("k", weights.k), ("v", weights.v))
    )
    q, o = group.columns("q", weights.q, d_model), group.rows("o", weights.o, heads * width)
    vectors = [
        group.copies(role, layer.matrix(role, tensor, None))
        for role, tensor in (
            ("attention_norm", weights.attention_norm), ("ffn_norm", weights.ffn_norm),
            ("cos", weights.cos), ("sin", weights.sin),
        )
    ]  # fmt: skip
    found = []
    for i, number in enumerate(group.chips):
        k, v = (slice_of(one, 1, i // shared * each, each, number) for one in (keys, values))
        attention_norm, ffn_norm, cos, sin = (copies[i] for copies in vectors)
        found.append(
            LlamaWeights(
                attention_norm=attention_norm, q=q[i], k=k, v=v, o=o[i], ffn_norm=ffn_norm,
                gate=weights.gate, up=weights.up, down=weights.down, cos=cos, sin=sin,
            )
        )  # fmt: skip
    return found


def _with_input(layer: Layer, x: Stream, attended: Stream) -> Stream:
    """The rows that attention gives plus those that it was given."""
    kept = layer.again("input", layer.kept("keep_input", x))
    return layer.map("add_attention", fn.add, kept, attended)


def _normed(layer: Layer, rows: Stream, weights: LlamaWeights, eps: float) -> Stream:
    """The rows that the feed-forward network gets."""
    return rms_norm(
        rows, weights.ffn_norm, eps=eps, compute_bw=layer.compute_bw, label=layer.part("ffn_norm")
    )


def _attention(
    layer: Layer, x: Stream, weights: LlamaWeights, heads: int, kv_heads: int, width: int,
    eps: float,
) -> Stream:  # fmt: skip
    rows, d_model = layer.rows("x", x), layer.columns("x", x)
    _, tiles = layer.constant_dims("x", x, "tables and keys are read by position")
    bw, group = layer.compute_bw, heads // kv_heads
    normed = rms_norm(
        x, weights.attention_norm, eps=eps, compute_bw=bw, label=layer.part("attention_norm")
    )
    # Queries wait for the keys of the entire sequence; a buffer keeps them from stalling the keys.
    kept = layer.kept("keep_normed", normed)
    q = linear(
        layer.again("rows_for_q", kept), weights.q, tile=width, compute_bw=bw, label=layer.part("q")
    )
    tables = weights.cos, weights.sin
    q = rope(q, *tables, heads_inside=True, compute_bw=bw, label=layer.part("rope_q"))
    q = layer.accum(
        "stack", reshape(q, group, label=layer.part("groups")), fn.pack_rows
    )  # [sequences, row tiles, key heads], the heads of a group stacked

    def projected(role: str, tensor: Tensor) -> Stream:
        """[sequences, key heads, row tiles]."""
        given: TensorSpec = layer.matrix(role, tensor, d_model, kv_heads * width)
        loaded = layer.load(f"load_{role}", given, (d_model, width), (kv_heads,), (1,), kept)
        acts = layer.again(f"rows_for_{role}", kept, repeat=kv_heads)
        return layer.map(
            role, fn.matmul, acts, loaded.repeat(tiles, label=layer.part(f"all_{role}"))
        )

    def for_queries(role: str, x: Stream) -> Stream:
        """All blocks of all heads once for each row tile."""
        return layer.again(f"blocks_{role}", layer.kept(f"keep_{role}", x, 2), repeat=tiles)

    k = rope(projected("k", weights.k), *tables, compute_bw=bw, label=layer.part("rope_k"))
    out = flash_attention(
        q, for_queries("k", k), for_queries("v", projected("v", weights.v)), causal=True,
        stacked=group, heads_inside=True, compute_bw=bw, label=layer.part("attention"),
    )  # fmt: skip
    apart = flat_map(out, emit([group], (rows, width)), label=layer.part("unstack"))
    return linear(apart, weights.o, split=True, compute_bw=bw, label=layer.part("o"))
