"""Linear layers and feed-forward networks: GELU and SwiGLU."""

from __future__ import annotations

from stepsim.arguments import shown
from stepsim.errors import ArgError
from stepsim.graph import fn
from stepsim.graph.nn.layer import Layer, Tensor
from stepsim.graph.sizes.limits import TILE_SIDE
from stepsim.graph.stream import Stream
from stepsim.graph.types import TensorSpec


def linear(
    x: Stream,
    weight: Tensor,
    bias: Stream | Tensor | None = None,
    *,
    tile: int | None = None,
    split: bool = False,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Linear layer: rows times a matrix, ``x @ weight + bias``, where the matrix is read from off
    chip.

    Every row tile reads the matrix once. With ``split`` the column tiles of a row are kept on chip
    and read again for each column tile of the result.

    Shape
    -----
    ``x`` of tiles ``[m, k]`` gives ``x.shape ++ [N / tile]`` of tiles ``[m, tile]``, or ``x.shape``
    of tiles ``[m, N]`` without ``tile``. With ``split`` the ``C`` tiles of the innermost dim of
    ``x`` are columns of one row tile, and the products are summed over that dim.

    Parameters
    ----------
    weight : tensor ``[k, N]``, with ``split`` ``[C * k, N]``.
    bias : tensor ``[N]``, or a stream of the shape of the result with tiles of one row; or None.
    tile : columns of a tile of the result, which divide ``N``; None for a single tile.
    split : the innermost dim of ``x`` counts the column tiles of each row.
    compute_bw : FLOPs per cycle of each operator; None is the program's.
    write_back : the result goes to on-chip memory.

    FLOPs
    -----
    For a row tile of ``m`` rows: ``2 m K N`` for a matrix ``K x N``, and ``m N`` for a bias.

    Memory
    ------
    With ``split`` the buffer of the column tiles of a row.

    Raises
    ------
    ArgError : ``weight`` or ``bias`` does not fit ``x``, or ``tile`` does not divide the columns.
    DTypeError : ``x`` carries no tiles, or tiles with an unknown number of columns.
    RankError, DimError : with ``split`` the innermost dim is the only one, or is not constant.

    Example
    -------
    >>> with st.Program(compute_bw=64) as p:
    ...     x = st.linear_load(st.spec(8, 16), (4, 16)).flatten(0, 1)
    ...     y = st.nn.linear(x, st.spec(16, 32, name="w"), tile=8)
    ...     y.consume()
    >>> print(y.describe())
    Stream[2, 4] of Tile[4x8 bf16]
    >>> p.metrics().flops
    8192
    """
    streams = {"x": x} | ({"bias": bias} if isinstance(bias, Stream) else {})
    layer = Layer("linear", streams, label, compute_bw, write_back)
    split = layer.flag("split", split)
    steps, cols = layer.split_columns("x", x) if split else (1, layer.columns("x", x))
    given = layer.matrix("weight", weight, steps * cols)
    width = _divisor(layer, tile, given.shape[1], "weight")
    times = () if tile is None else (given.shape[1] // width,)
    outer = given.shape[1] // width
    ends = bias is None
    if split:
        lead = layer.kept("keep", x)
        acts = layer.again("read", lead, repeat=times or None)
        weights = layer.load(
            "weight", given, (cols, width), (*times, steps), (1,) * len(times) + (outer,), lead
        )
        y = layer.map_accum("matmul", fn.matmul, acts, weights, last=ends)
    else:
        lead = x
        weights = layer.load("weight", given, (cols, width), (outer,), (1,), x)
        if tile is None:
            weights = weights.flatten(0, 1, label=layer.part("weights"))
        acts = x if tile is None else x.repeat(outer, label=layer.part("repeat"))
        y = layer.map("matmul", fn.matmul, acts, weights, last=ends)
    if bias is None:
        return y
    shifts = layer.row_vector("bias", bias, y, width, outer, lead)
    return layer.map("shift", fn.add, y, shifts, last=True)


def gelu_ffn(
    x: Stream,
    up: Tensor,
    down: Tensor,
    *,
    approximate: str = "none",
    tile: int | None = None,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Feed-forward network with GELU: ``gelu(x @ up) @ down``.

    The hidden layer never leaves the chip: each of its column tiles is multiplied by the rows of
    ``down`` that belong to it, and the products are added up.

    Shape
    -----
    As ``x``: tiles ``[m, D]`` that hold whole rows.

    Parameters
    ----------
    up, down : tensors ``[D, F]`` and ``[F, D]``, read once for every row tile.
    approximate : ``"none"`` for the exact form with erf, ``"tanh"`` for the approximation.
    tile : hidden columns computed at a time, which divide ``F``; None for all.
    compute_bw : FLOPs per cycle of each operator; None is the program's.
    write_back : the result goes to on-chip memory.

    FLOPs
    -----
    For a row tile of ``m`` rows: ``4 m D F + 8 m F``; with tanh ``4 m D F + 12 m F``.

    Raises
    ------
    ArgError : ``up`` or ``down`` does not fit ``x``, ``tile`` does not divide ``F``, or there is no
        such approximation.
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
    layer = Layer("gelu_ffn", {"x": x}, label, compute_bw, write_back)
    forms = {"none": fn.gelu, "tanh": fn.gelu_tanh}
    if not isinstance(approximate, str) or approximate not in forms:
        layer.fail(ArgError, f"approximate must be 'none' or 'tanh', found {shown(approximate)}")
    d = layer.columns("x", x)
    first = layer.matrix("up", up, d)
    second = layer.matrix("down", down, first.shape[1])
    width = _divisor(layer, tile, first.shape[1], "up")
    acts = x.repeat(first.shape[1] // width, label=layer.part("repeat"))
    hidden = layer.map(
        "activation", forms[approximate], _product(layer, "up", acts, first, width, x)
    )
    return _projected(layer, hidden, second, width, x)


def swiglu(
    x: Stream,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    *,
    tile: int | None = None,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Gated feed-forward network, SwiGLU: ``(silu(x @ gate) * (x @ up)) @ down``.

    The hidden layer never leaves the chip, as in :func:`gelu_ffn`; this is an expert of the STeP
    paper's layers (section 5.2).

    Shape
    -----
    As ``x``: tiles ``[m, D]`` that hold whole rows; ``m`` may depend on the data.

    Parameters
    ----------
    gate, up, down : tensors ``[D, F]``, ``[D, F]`` and ``[F, D]``, read once for every row tile.
    tile : hidden columns computed at a time, which divide ``F``; None for all.
    compute_bw : FLOPs per cycle of each operator; None is the program's.
    write_back : the result goes to on-chip memory.

    FLOPs
    -----
    For a row tile of ``m`` rows: ``6 m D F + 9 m F`` (silu 8, product 1).

    Raises
    ------
    ArgError : a matrix does not fit ``x``, or ``tile`` does not divide ``F``.
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
    layer = Layer("swiglu", {"x": x}, label, compute_bw, write_back)
    d = layer.columns("x", x)
    first = layer.matrix("gate", gate, d)
    other = layer.matrix("up", up, d, first.shape[1])
    second = layer.matrix("down", down, first.shape[1])
    width = _divisor(layer, tile, first.shape[1], "gate")
    acts = x.repeat(first.shape[1] // width, label=layer.part("repeat"))
    gates = layer.map("silu", fn.silu, _product(layer, "gate", acts, first, width, x))
    hidden = layer.map("mul", fn.mul, gates, _product(layer, "up", acts, other, width, x))
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


def _divisor(layer: Layer, tile: int | None, columns: int, what: str) -> int:
    """The columns of a tile, which divide those of a matrix."""
    if tile is None:
        return columns
    tile = layer.number(TILE_SIDE, "tile", tile)
    layer.require(
        columns % tile == 0,
        ArgError,
        f"tile {tile} does not divide the {columns} columns of {what}",
    )
    return tile
