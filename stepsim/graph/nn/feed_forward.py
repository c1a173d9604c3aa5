"""Feed-forward networks: GELU and SwiGLU."""

from __future__ import annotations

from typing import overload

from stepsim.arguments import shown
from stepsim.errors import ArgError
from stepsim.graph import fn
from stepsim.graph.nn.layer import Layer, Tensor
from stepsim.graph.nn.linear import divisor_of
from stepsim.graph.nn.parallel.division import Division, Streams, alone
from stepsim.graph.stream import Stream
from stepsim.graph.types import TensorSpec


@overload
def gelu_ffn(
    x: Stream, up: Tensor, down: Tensor, *, approximate: str = "none", tile: int | None = None,
    compute_bw: int | None = None, write_back: bool = False, tp: None = None,
    collective: None = None, label: str | None = None,
) -> Stream: ...  # fmt: skip


@overload
def gelu_ffn(
    x: Streams, up: Tensor, down: Tensor, *, approximate: str = "none", tile: int | None = None,
    compute_bw: int | None = None, write_back: bool = False, tp: int,
    collective: str | None = None, label: str | None = None,
) -> list[Stream]: ...  # fmt: skip


def gelu_ffn(
    x: Streams,
    up: Tensor,
    down: Tensor,
    *,
    approximate: str = "none",
    tile: int | None = None,
    compute_bw: int | None = None,
    write_back: bool = False,
    tp: int | None = None,
    collective: str | None = None,
    label: str | None = None,
) -> Stream | list[Stream]:
    """Feed-forward network with GELU: ``gelu(x @ up) @ down``.

    The hidden layer never leaves the chip: each of its column tiles is multiplied by the rows of
    ``down`` that belong to it, and the products are added up.

    Shape
    -----
    As ``x``: tiles ``[m, D]`` that hold whole rows.

    Parameters
    ----------
    x : the rows; with ``tp`` a list of streams, or a single one.
    up, down : tensors ``[D, F]`` and ``[F, D]``, read once for every row tile.
    approximate : ``"none"`` for the exact form with erf, ``"tanh"`` for the approximation.
    tile : hidden columns computed at a time, which divide ``F``; None for all.
    compute_bw : FLOPs per cycle of each operator; None is the program's.
    write_back : the result goes to on-chip memory; not with ``tp``, where an all-reduce makes it.
    tp : chips that divide the hidden columns (tensor parallelism); ``x`` is a list with a stream of
        the same rows on each of them, or a single stream, which is sent to the chip it is on and
        those behind. The result is a list of the sum on every chip.
    collective : algorithm of the all-reduce, see :func:`all_reduce`; None is a ring.

    FLOPs
    -----
    For a row tile of ``m`` rows: ``4 m D F + 8 m F``; with tanh ``4 m D F + 12 m F``.

    With ``tp`` these are on all chips together, and the all-reduce adds its own.

    Messages
    --------
    With ``tp`` those of :func:`all_reduce`, and ``x``, if it is on one chip.

    Raises
    ------
    ArgError : ``up`` or ``down`` does not fit ``x``, ``tile`` or ``tp`` does not divide ``F``,
        there is no such approximation, or streams are not on as many chips as ``tp`` says.
    DTypeError : ``x`` carries no tiles, or tiles with an unknown number of columns.

    Example
    -------
    >>> with st.Program(compute_bw=64) as p:
    ...     x = st.linear_load(st.spec(8, 16), (4, 16)).flatten(0, 1)
    ...     y = st.nn.gelu_ffn(x, st.spec(16, 64, name="up"), st.spec(64, 16, name="down"), tile=32)
    ...     y.consume()
    >>> p.metrics().flops
    36864
    """
    if tp is not None:
        group = Division("gelu_ffn", x, tp, label, compute_bw, collective=collective, sent=True)
        group.check_summed(write_back)
        ups, downs = group.columns("up", up), group.rows("down", down)
        return group.summed(
            group.each(
                lambda i: gelu_ffn(
                    group.xs[i], ups[i], downs[i], approximate=approximate, tile=tile,
                    compute_bw=compute_bw, label=group.part(i),
                )
            )
        )  # fmt: skip
    x = alone("gelu_ffn", x, collective=collective)
    layer = Layer("gelu_ffn", {"x": x}, label, compute_bw, write_back)
    forms = {"none": fn.gelu, "tanh": fn.gelu_tanh}
    if not isinstance(approximate, str) or approximate not in forms:
        layer.fail(ArgError, f"approximate must be 'none' or 'tanh', found {shown(approximate)}")
    d = layer.columns("x", x)
    first = layer.matrix("up", up, d)
    second = layer.matrix("down", down, first.shape[1])
    width = divisor_of(layer, tile, first.shape[1], "up")
    acts = x.repeat(first.shape[1] // width, label=layer.part("repeat"))
    hidden = layer.map(
        "activation", forms[approximate], _product(layer, "up", acts, first, width, x)
    )
    return _projected(layer, hidden, second, width, x)


@overload
def swiglu(
    x: Stream, gate: Tensor, up: Tensor, down: Tensor, *, tile: int | None = None,
    compute_bw: int | None = None, write_back: bool = False, tp: None = None,
    collective: None = None, label: str | None = None,
) -> Stream: ...  # fmt: skip


@overload
def swiglu(
    x: Streams, gate: Tensor, up: Tensor, down: Tensor, *, tile: int | None = None,
    compute_bw: int | None = None, write_back: bool = False, tp: int,
    collective: str | None = None, label: str | None = None,
) -> list[Stream]: ...  # fmt: skip


def swiglu(
    x: Streams,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    *,
    tile: int | None = None,
    compute_bw: int | None = None,
    write_back: bool = False,
    tp: int | None = None,
    collective: str | None = None,
    label: str | None = None,
) -> Stream | list[Stream]:
    """Gated feed-forward network, SwiGLU: ``(silu(x @ gate) * (x @ up)) @ down``.

    The hidden layer never leaves the chip, as in :func:`gelu_ffn`; this is an expert of the STeP
    paper's layers (section 5.2).

    Shape
    -----
    As ``x``: tiles ``[m, D]`` that hold whole rows; ``m`` may depend on the data.

    Parameters
    ----------
    x : the rows; with ``tp`` a list of streams, or a single one.
    gate, up, down : tensors ``[D, F]``, ``[D, F]`` and ``[F, D]``, read once for every row tile.
    tile : hidden columns computed at a time, which divide ``F``; None for all.
    compute_bw : FLOPs per cycle of each operator; None is the program's.
    write_back : the result goes to on-chip memory; not with ``tp``, where an all-reduce makes it.
    tp : chips that divide the hidden columns (tensor parallelism); ``x`` is a list with a stream of
        the same rows on each of them, or a single stream, which is sent to the chip it is on and
        those behind. The result is a list of the sum on every chip.
    collective : algorithm of the all-reduce, see :func:`all_reduce`; None is a ring.

    FLOPs
    -----
    For a row tile of ``m`` rows: ``6 m D F + 9 m F`` (silu 8, product 1).

    With ``tp`` these are on all chips together, and the all-reduce adds its own.

    Messages
    --------
    With ``tp`` those of :func:`all_reduce`, and ``x``, if it is on one chip.

    Raises
    ------
    ArgError : a matrix does not fit ``x``, ``tile`` or ``tp`` does not divide ``F``, or streams are
        not on as many chips as ``tp`` says.
    DTypeError : ``x`` carries no tiles, or tiles with an unknown number of columns.

    Example
    -------
    >>> with st.Program(compute_bw=64) as p:
    ...     x = st.linear_load(st.spec(8, 16), (4, 16)).flatten(0, 1)
    ...     gate, up, down = st.spec(16, 64), st.spec(16, 64), st.spec(64, 16)
    ...     st.nn.swiglu(x, gate, up, down, tile=32).consume()
    >>> p.metrics().flops
    53760
    """
    if tp is not None:
        group = Division("swiglu", x, tp, label, compute_bw, collective=collective, sent=True)
        group.check_summed(write_back)
        gates, ups = group.columns("gate", gate), group.columns("up", up)
        downs = group.rows("down", down)
        return group.summed(
            group.each(
                lambda i: swiglu(
                    group.xs[i], gates[i], ups[i], downs[i], tile=tile, compute_bw=compute_bw,
                    label=group.part(i),
                )
            )
        )  # fmt: skip
    x = alone("swiglu", x, collective=collective)
    layer = Layer("swiglu", {"x": x}, label, compute_bw, write_back)
    d = layer.columns("x", x)
    first = layer.matrix("gate", gate, d)
    other = layer.matrix("up", up, d, first.shape[1])
    second = layer.matrix("down", down, first.shape[1])
    width = divisor_of(layer, tile, first.shape[1], "gate")
    acts = x.repeat(first.shape[1] // width, label=layer.part("repeat"))
    silu = layer.map("silu", fn.silu, _product(layer, "gate", acts, first, width, x))
    hidden = layer.map("mul", fn.mul, silu, _product(layer, "up", acts, other, width, x))
    return _projected(layer, hidden, second, width, x)


def _product(
    layer: Layer, what: str, acts: Stream, given: TensorSpec, width: int, lead: Stream
) -> Stream:
    """Rows times the column tiles of a matrix."""
    steps = given.shape[1] // width
    weights = layer.load(f"load_{what}", given, (given.shape[0], width), (steps,), (1,), lead)
    return layer.map(what, fn.matmul, acts, weights)


def _projected(layer: Layer, hidden: Stream, given: TensorSpec, width: int, lead: Stream) -> Stream:
    """Column tiles times the rows of a matrix that belong to them, added up."""
    steps, cols = given.shape[0] // width, given.shape[1]
    weights = layer.load("load_down", given, (width, cols), (steps,), (1,), lead)
    rows = layer.tile("x", lead).rows
    init = None if rows.is_static else fn.empty((0, cols))
    return layer.map_accum("down", fn.matmul, hidden, weights, init, last=True)
