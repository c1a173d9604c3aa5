"""Normalization of rows: RMSNorm and LayerNorm."""

from __future__ import annotations

from stepsim.arguments import is_number, shown
from stepsim.errors import ArgError
from stepsim.graph import fn
from stepsim.graph.nn.layer import Layer, Tensor
from stepsim.graph.stream import Stream


def rms_norm(
    x: Stream,
    weight: Stream | Tensor | None = None,
    *,
    eps: float = 1e-5,
    split: bool = False,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Root mean square normalization: ``x / sqrt(mean(x**2) + eps) * weight`` of each row.

    Built from maps and, with ``split``, an accumulation over the column tiles of a row, which wait
    in a buffer on chip until the mean is known.

    Shape
    -----
    As ``x``: tiles ``[m, n]`` that hold whole rows, or with ``split`` ``C`` tiles of ``n`` columns
    in the innermost dim for rows of ``C * n`` scalars.

    Parameters
    ----------
    weight : scale factors, one for each column: a tensor ``[C * n]``, read again for every row
        tile, or a stream of the shape of ``x`` with tiles of one row; None for no scale.
    eps : added to the mean square.
    split : the innermost dim of ``x`` counts the column tiles of each row.
    compute_bw : FLOPs per cycle of each operator; None is the program's.
    write_back : the result goes to on-chip memory.

    FLOPs
    -----
    For a row tile ``m x n``: ``3 m n + 6 m`` (square, mean; eps, rsqrt; product), and ``m n`` for a
    weight. Split into ``C`` tiles: ``C (3 m n + m) + 6 m``, and ``C m n``.

    Memory
    ------
    With ``split`` the buffer of the column tiles of a row.

    Raises
    ------
    ArgError : ``eps`` is not a number from 0, or ``weight`` has a different number of columns.
    DTypeError : ``x`` carries no tiles, or tiles with an unknown number of columns.
    RankError, DimError : with ``split`` the innermost dim is the only one, or is not constant.

    Example
    -------
    >>> with st.Program(compute_bw=64) as p:
    ...     x = st.linear_load(np.ones((8, 16), np.float32), (4, 16)).flatten(0, 1)
    ...     y = st.nn.rms_norm(x, np.ones(16, np.float32))
    ...     y.consume()
    >>> p.metrics().flops
    560
    """
    streams = _inputs(x, weight=weight)
    layer = Layer("rms_norm", streams, label, compute_bw, write_back)
    eps = _epsilon(layer, eps)
    ends = weight is None
    if not layer.flag("split", split):
        cols = layer.columns("x", x)
        mean = layer.map("mean", fn.row_mean, layer.map("square", fn.square, x))
        scaled = layer.map("scale", fn.mul, x, _inverse_root(layer, mean, eps), last=ends)
        return _weighted(layer, scaled, weight, x, cols, 1, x)
    steps, cols = layer.split_columns("x", x)
    sums = layer.map("row_sum", fn.row_sum, layer.map("square", fn.square, x))
    mean = layer.map("mean", fn.mul_const(1 / (steps * cols)), layer.accum("sum", sums, fn.add))
    kept = layer.kept("keep", x)
    factor = _inverse_root(layer, mean, eps).repeat(steps, label=layer.part("factors"))
    scaled = layer.map("scale", fn.mul, layer.again("read", kept), factor, last=ends)
    return _weighted(layer, scaled, weight, x, cols, steps, kept)


def layer_norm(
    x: Stream,
    weight: Stream | Tensor | None = None,
    bias: Stream | Tensor | None = None,
    *,
    eps: float = 1e-5,
    split: bool = False,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Layer normalization: ``(x - mean) / sqrt(variance + eps) * weight + bias`` of each row.

    The variance is the mean of the squares of ``x - mean``, which avoids cancellation. With
    ``split`` the column tiles of a row wait in a buffer on chip twice: for the mean and for the
    variance.

    Shape
    -----
    As ``x``: tiles ``[m, n]`` that hold whole rows, or with ``split`` ``C`` tiles of ``n`` columns
    in the innermost dim for rows of ``C * n`` scalars.

    Parameters
    ----------
    weight, bias : scale factors and shifts, one for each column: a tensor ``[C * n]``, read again
        for every row tile, or a stream of the shape of ``x`` with tiles of one row; None to omit
        it.
    eps : added to the variance.
    split : the innermost dim of ``x`` counts the column tiles of each row.
    compute_bw : FLOPs per cycle of each operator; None is the program's.
    write_back : the result goes to on-chip memory.

    FLOPs
    -----
    For a row tile ``m x n``: ``5 m n + 7 m`` (mean, difference, square, mean; eps, rsqrt; product),
    and ``m n`` each for a weight and a bias. Split into ``C`` tiles: ``C (5 m n + 2 m) + 7 m``, and
    ``C m n`` each.

    Memory
    ------
    With ``split`` two buffers of the column tiles of a row.

    Raises
    ------
    ArgError : ``eps`` is not a number from 0, or ``weight`` or ``bias`` has other columns.
    DTypeError : ``x`` carries no tiles, or tiles with an unknown number of columns.
    RankError, DimError : with ``split`` the innermost dim is the only one, or is not constant.

    Example
    -------
    >>> with st.Program(compute_bw=64) as p:
    ...     x = st.linear_load(np.ones((8, 16), np.float32), (4, 16)).flatten(0, 1)
    ...     y = st.nn.layer_norm(x, np.ones(16, np.float32), np.zeros(16, np.float32))
    ...     y.consume()
    >>> p.metrics().flops
    952
    """
    streams = _inputs(x, weight=weight, bias=bias)
    layer = Layer("layer_norm", streams, label, compute_bw, write_back)
    eps = _epsilon(layer, eps)
    ends = weight is None and bias is None
    if not layer.flag("split", split):
        steps, cols = 1, layer.columns("x", x)
        centered = layer.map("center", fn.sub, x, layer.map("mean", fn.row_mean, x))
        variance = layer.map("variance", fn.row_mean, layer.map("square", fn.square, centered))
        factor = _inverse_root(layer, variance, eps)
        lead, again = x, centered
    else:
        steps, cols = layer.split_columns("x", x)
        lead = layer.kept("keep", x)
        mean = _mean_of_tiles(layer, "mean", x, steps * cols)
        means = mean.repeat(steps, label=layer.part("means"))
        centered = layer.map("center", fn.sub, layer.again("read", lead), means)
        kept = layer.kept("keep_centered", centered)
        squares = layer.map("square", fn.square, centered)
        variance = _mean_of_tiles(layer, "variance", squares, steps * cols)
        factor = _inverse_root(layer, variance, eps).repeat(steps, label=layer.part("factors"))
        again = layer.again("read_centered", kept)
    scaled = layer.map("scale", fn.mul, again, factor, last=ends)
    scaled = _weighted(layer, scaled, weight, x, cols, steps, lead, last=bias is None)
    if bias is None:
        return scaled
    shifts = layer.row_vector("bias", bias, x, cols, steps, lead)
    return layer.map("shift", fn.add, scaled, shifts, last=True)


def _inputs(x: Stream, **others: object) -> dict[str, Stream]:
    return {"x": x} | {k: v for k, v in others.items() if isinstance(v, Stream)}


def _epsilon(layer: Layer, eps: object) -> float:
    if not is_number(eps) or not eps >= 0:  # type: ignore[operator]
        layer.fail(ArgError, f"eps must be a number from 0, found {shown(eps)}")
    return float(eps)  # type: ignore[arg-type]


def _inverse_root(layer: Layer, mean: Stream, eps: float) -> Stream:
    return layer.map("rsqrt", fn.rsqrt, layer.map("eps", fn.add_const(eps), mean))


def _mean_of_tiles(layer: Layer, part: str, x: Stream, count: int) -> Stream:
    """The mean of rows that are split into the tiles of the innermost dim."""
    sums = layer.map(f"{part}_row_sum", fn.row_sum, x)
    total = layer.accum(f"{part}_sum", sums, fn.add)
    return layer.map(part, fn.mul_const(1 / count), total)


def _weighted(
    layer: Layer,
    scaled: Stream,
    weight: Stream | Tensor | None,
    x: Stream,
    cols: int,
    steps: int,
    lead: Stream,
    *,
    last: bool = True,
) -> Stream:
    if weight is None:
        return scaled
    factors = layer.row_vector("weight", weight, x, cols, steps, lead)
    return layer.map("weigh", fn.mul, scaled, factors, last=last)
