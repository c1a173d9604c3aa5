"""Rotary position embedding (RoPE)."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepsim.arguments import is_number, is_whole, shown
from stepsim.errors import ArgError, DTypeError
from stepsim.graph import fn
from stepsim.graph.handle import StreamHandle
from stepsim.graph.nn.layer import Layer, Tensor
from stepsim.graph.stream import Stream

_MOST_NUMBERS = 1 << 28
"""Of a table; it takes 1 GiB."""


def rope_tables(
    positions: Any, dim: int, *, base: float = 10000.0
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Cosines and sines of the angles of :func:`rope`, one row for each position.

    Pair ``i`` of the ``dim / 2`` pairs of columns is rotated by ``position / base**(2 i / dim)``.

    Shape
    -----
    Two float32 arrays ``[len(positions), dim / 2]``.

    Parameters
    ----------
    positions : a number of positions, counted from 0, or a list of them.
    dim : columns of a head, even.
    base : base of the frequencies; 10 000 in the first models, 500 000 in Llama 3.

    Raises
    ------
    ArgError : ``dim`` is odd or not positive, ``base`` not positive, or the positions are not a
        list of numbers from 0.

    Example
    -------
    >>> cos, sin = st.nn.rope_tables(16, 8)
    >>> cos.shape
    (16, 4)
    """
    if not is_whole(dim) or dim < 2 or dim % 2:
        raise ArgError(f"rope_tables: dim must be an even int from 2, found {shown(dim)}")
    if not is_number(base) or not base > 0:
        raise ArgError(f"rope_tables: base must be a positive number, found {shown(base)}")
    given = _numbers(positions)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iuf" or (given < 0).any():
        raise ArgError(
            "rope_tables: positions must be a number from 1 to 2**28 or a list of numbers from 0, "
            f"found {shown(positions)}"
        )
    if given.size * dim > _MOST_NUMBERS:
        raise ArgError(
            f"rope_tables: {given.size:,} positions of dim {shown(dim)} are more than "
            f"{_MOST_NUMBERS:,} numbers; make the tables of fewer positions at a time"
        )
    angles = given[:, None] * float(base) ** (-2 * np.arange(dim // 2) / dim)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _numbers(positions: Any) -> np.ndarray[Any, Any]:
    """The positions as an array; an empty one for what cannot be an array."""
    if is_whole(positions):
        return np.arange(int(positions) if 0 < positions <= _MOST_NUMBERS else 0)
    try:
        return np.asarray(positions)
    except (TypeError, ValueError, OverflowError, RecursionError):  # lists of different lengths
        return np.empty(0)


def rope(
    x: Stream,
    cos: Stream | Tensor,
    sin: Stream | Tensor,
    *,
    pairs: str = "half",
    heads_inside: bool = False,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Rotary position embedding: pairs of columns of each head are rotated by position.

    Shape
    -----
    As ``x``: tiles ``[m, d]`` of one head. With tables off chip the innermost dim of ``x`` walks
    the row tiles of one sequence and must be constant.

    Parameters
    ----------
    cos, sin : tables ``[positions, d / 2]``, from :func:`rope_tables`, of which element
        ``i`` of the innermost dim of ``x`` reads rows ``i m`` to ``(i + 1) m - 1``; or streams of
        the shape of ``x`` with tiles ``[m, d / 2]``.
    pairs : ``"half"``, columns ``i`` and ``i + d / 2`` form a pair, or ``"interleaved"``,
        columns ``2 i`` and ``2 i + 1``.
    heads_inside : the innermost dim of ``x`` walks heads and the next one row tiles, for tables off
        chip.
    compute_bw : FLOPs per cycle of each operator; None is the program's.
    write_back : the result goes to on-chip memory.

    FLOPs
    -----
    For a tile ``m x d``: ``3 m d`` (4 products and 2 sums for each pair).

    Raises
    ------
    ArgError : the tables have too few rows or a different number of columns, only one is a stream,
        or there is no such pairing.
    DTypeError : ``x`` carries no tiles, tiles of unknown size, or an odd number of columns.
    DimError : the tables are off chip and a dim of ``x`` is not constant.

    Example
    -------
    >>> cos, sin = st.nn.rope_tables(16, 8)
    >>> with st.Program(compute_bw=64) as p:
    ...     x = st.linear_load(np.ones((32, 8), np.float32), (4, 8), shape=(2, 4), stride=(4, 1))
    ...     st.nn.rope(x, cos, sin).consume()
    >>> p.metrics().flops
    768
    """
    tables = {"cos": cos, "sin": sin}
    streams = {role: t for role, t in tables.items() if isinstance(t, StreamHandle)}
    layer = Layer("rope", {"x": x, **streams}, label, compute_bw, write_back)
    rows, cols = layer.rows("x", x), layer.columns("x", x)
    layer.require(
        cols % 2 == 0, DTypeError, f"x carries tiles of {cols} columns, which do not make pairs"
    )
    layer.require(len(streams) != 1, ArgError, "cos and sin must both be streams, or both tensors")
    if pairs not in ("half", "interleaved"):
        layer.fail(ArgError, f"pairs must be 'half' or 'interleaved', found {shown(pairs)}")
    inside = layer.flag("heads_inside", heads_inside)
    layer.require(
        not inside or (not streams and x.rank >= 1), ArgError, "heads_inside is for tables off "
        "chip, and x with dims of row tiles and heads", "leave heads_inside out",
    )  # fmt: skip
    if streams:
        turns = [streams["cos"], streams["sin"]]
    else:
        turns = [_walked(layer, role, t, x, rows, cols // 2, inside) for role, t in tables.items()]  # type: ignore[arg-type]
    return layer.map("rotate", fn.rotary(pairs), x, *turns, last=True)


def _walked(
    layer: Layer, role: str, table: Tensor, x: Stream, rows: int, half: int, inside: bool
) -> Stream:
    """Row tiles of a table, read again for every sequence."""
    dims = layer.constant_dims("x", x, "a table off chip is read along its innermost dim")
    tiles = dims[-2 if inside else -1]
    given = layer.matrix(role, table, None, half)
    found = given.shape[0]
    layer.require(
        found >= rows * tiles and found % rows == 0,
        ArgError,
        f"{role} has {found} rows, x has {tiles} tiles of {rows} positions",
        f"give a table of {rows * tiles} rows, or of more that are a multiple of {rows}",
    )
    stride = (0,) * (len(dims) - 2) + (1, 0) if inside else (0,) * (len(dims) - 1) + (1,)
    return layer.walk(f"load_{role}", given, (rows, half), dims, stride)
