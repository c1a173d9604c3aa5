"""Linear layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

from stepsim.arguments import shown
from stepsim.errors import ArgError
from stepsim.graph import fn
from stepsim.graph.nn.layer import Layer, Tensor
from stepsim.graph.nn.parallel.division import Division, Streams, alone
from stepsim.graph.sizes.limits import TILE_SIDE
from stepsim.graph.stream import Stream


@overload
def linear(
    x: Stream, weight: Tensor, bias: Stream | Tensor | None = None, *, tile: int | None = None,
    split: bool = False, compute_bw: int | None = None, write_back: bool = False, tp: None = None,
    divide: None = None, collective: None = None, label: str | None = None,
) -> Stream: ...  # fmt: skip


@overload
def linear(
    x: Streams, weight: Tensor, bias: Stream | Tensor | None = None, *, tile: int | None = None,
    split: bool = False, compute_bw: int | None = None, write_back: bool = False, tp: int,
    divide: Literal["columns", "rows"] | None = None, collective: str | None = None,
    label: str | None = None,
) -> list[Stream]: ...  # fmt: skip


def linear(
    x: Streams,
    weight: Tensor,
    bias: Stream | Tensor | None = None,
    *,
    tile: int | None = None,
    split: bool = False,
    compute_bw: int | None = None,
    write_back: bool = False,
    tp: int | None = None,
    divide: Literal["columns", "rows"] | None = None,
    collective: str | None = None,
    label: str | None = None,
) -> Stream | list[Stream]:
    """Linear layer: rows times a matrix, ``x @ weight + bias``, where the matrix is read from off
    chip.

    Every row tile reads the matrix once. With ``split`` the column tiles of a row are kept on chip
    and read again for each column tile of the result.

    With ``tp`` so many chips divide the matrix. Divided by columns, every chip reads all of ``x``
    and has its columns of the result. Divided by rows, every chip has its columns of ``x``, as the
    former gives them, and an all-reduce adds up the products.

    Shape
    -----
    ``x`` of tiles ``[m, k]`` gives ``x.shape ++ [N / tile]`` of tiles ``[m, tile]``, or ``x.shape``
    of tiles ``[m, N]`` without ``tile``. With ``split`` the ``C`` tiles of the innermost dim of
    ``x`` are columns of one row tile, and the products are summed over that dim.

    With ``tp`` a list of streams, one on each chip: of its ``N / tp`` columns, or with
    ``divide="rows"`` of the sum.

    Parameters
    ----------
    x : the rows; with ``tp`` a list of streams, or a single one.
    weight : tensor ``[k, N]``, with ``split`` ``[C * k, N]``.
    bias : tensor ``[N]``, or a stream of the shape of the result with tiles of one row; or None.
    tile : columns of a tile of the result, which divide ``N``; None for a single tile.
    split : the innermost dim of ``x`` counts the column tiles of each row.
    compute_bw : FLOPs per cycle of each operator; None is the program's.
    write_back : the result goes to on-chip memory; not where an all-reduce makes it.
    tp : chips that divide the matrix (tensor parallelism); ``x`` is a list with a stream on each of
        them, or with columns a single stream, which is sent to the chip it is on and those behind.
    divide : ``"columns"`` or ``"rows"`` of the matrix; None is columns.
    collective : algorithm of the all-reduce of ``"rows"``, see :func:`all_reduce`; None is a ring.

    FLOPs
    -----
    For a row tile of ``m`` rows: ``2 m K N`` for a matrix ``K x N``, and ``m N`` for a bias. With
    ``tp`` these are on all chips together; the all-reduce of ``"rows"`` adds its own.

    Memory
    ------
    With ``split`` the buffer of the column tiles of a row.

    Messages
    --------
    With ``divide="rows"`` those of :func:`all_reduce`; else none but ``x``, if it is on one chip.

    Raises
    ------
    ArgError : ``weight`` or ``bias`` does not fit ``x``, ``tile`` or ``tp`` does not divide, or
        streams are not on as many chips as ``tp`` says.
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
    if tp is not None:
        options: dict[str, Any] = {"tile": tile, "split": split, "compute_bw": compute_bw}
        by_rows = _is_by_rows(divide)
        group = Division(
            "linear", x, tp, label, compute_bw, collective=collective, sent=not by_rows
        )
        if by_rows:
            return _by_rows(group, weight, bias, options, write_back)
        group.layer.require(
            collective is None, ArgError, "collective has no effect on a matrix divided by columns",
            "leave it out, or divide by rows",
        )  # fmt: skip
        return _by_columns(group, weight, bias, options | {"write_back": write_back})
    x = alone("linear", x, divide=divide, collective=collective)
    streams = {"x": x} | ({"bias": bias} if isinstance(bias, Stream) else {})
    layer = Layer("linear", streams, label, compute_bw, write_back)
    split = layer.flag("split", split)
    steps, cols = layer.split_columns("x", x) if split else (1, layer.columns("x", x))
    given = layer.matrix("weight", weight, steps * cols)
    width = divisor_of(layer, tile, given.shape[1], "weight")
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


def _is_by_rows(divide: object) -> bool:
    if divide not in (None, "columns", "rows"):
        raise ArgError(f"linear: divide must be 'columns' or 'rows', found {shown(divide)}")
    return divide == "rows"


def _by_columns(
    group: Division, weight: Tensor, bias: Stream | Tensor | None, options: dict[str, Any]
) -> list[Stream]:
    """Each member has columns of the result."""
    parts = group.columns("weight", weight)
    shifts: Sequence[Any] = [None] * group.count
    if bias is not None:
        shifts = group.columns("bias", _tensor(group, bias), 1)
    return group.each(
        lambda i: linear(group.xs[i], parts[i], shifts[i], label=group.part(i), **options)
    )


def _by_rows(
    group: Division, weight: Tensor, bias: Stream | Tensor | None, options: dict[str, Any],
    write_back: bool,
) -> list[Stream]:  # fmt: skip
    """Each member has a part of the sum; the first one's has the bias."""
    group.check_summed(write_back)
    parts = group.rows("weight", weight)
    if bias is not None:
        bias = _tensor(group, bias)
    return group.summed(
        group.each(
            lambda i: linear(
                group.xs[i], parts[i], bias if i == 0 else None, label=group.part(i), **options
            )
        )
    )


def _tensor(group: Division, bias: Stream | Tensor) -> Tensor:
    if isinstance(bias, Stream):
        group.layer.fail(
            ArgError,
            "bias is a stream, which chips cannot divide",
            "pass a tensor, which each chip reads its part of",
        )
    return bias


def divisor_of(layer: Layer, tile: int | None, columns: int, what: str) -> int:
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
