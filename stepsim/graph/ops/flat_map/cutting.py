"""Stream functions that cut tiles: into rows, columns or user-defined pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepsim.graph.ops.flat_map.flat_maps import StreamFunction


def unpack_rows(drop_padding: bool = False, chunk: int | None = None) -> StreamFunction:
    """Split tiles into rows, top to bottom.

    The inverse of ``fn.pack_rows``; RetileStreamify of the paper's simulator, a FlatMap of the STeP
    paper (table 6).

    Shape
    -----
    ``[..., D_0]`` of ``Tile[r x c]`` becomes ``[..., D_0 * ceil(r / chunk)]`` of ``Tile[chunk x
    c]``; the last piece of a tile has the remaining rows. With ``drop_padding`` the count of
    valid rows takes the place of ``D_0 * r``: the dim before ``reshape(pad=0)``, if that is
    known.

    Parameters
    ----------
    drop_padding : stop after the piece with the last valid row. A tile without valid rows is sent
        completely, as in the paper's simulator.
    chunk : rows of a piece; None is 1. Larger pieces are from the public simulator of 2026.

    Fires
    -----
    Once for each tile: all of its pieces in one cycle, if there is room.

    Raises
    ------
    DTypeError : the elements are not tiles of arithmetic scalars.

    Example
    -------
    >>> with st.Program("round trip") as program:
    ...     x = st.linear_load(np.ones((5, 2), "f4"), tile=(1, 2)).flatten(0, 1)  # [5]
    ...     tiles = x.reshape(4, pad=0).accum(st.fn.pack_rows, rank=1)  # [2]
    ...     rows = tiles.flat_map(st.fn.unpack_rows(drop_padding=True))
    ...     pairs = tiles.flat_map(st.fn.unpack_rows(chunk=2))
    ...     rows.consume()
    ...     pairs.consume()
    >>> [rows, pairs]
    [Stream[5] of Tile[1x2 f32] <- unpack_rows#4, Stream[4] of Tile[2x2 f32] <- unpack_rows#5]
    """
    params = (("split_row", True), ("filter", drop_padding))
    return StreamFunction("unpack_rows", "RetileStreamify", _chunked(params, chunk))


def unpack_cols(chunk: int | None = None) -> StreamFunction:
    """Split tiles into columns, left to right.

    RetileStreamify of the paper's simulator with columns, a FlatMap of the STeP paper (table 6).

    Shape
    -----
    Without ``chunk``, ``[..., D_0]`` of ``Tile[r x c]`` becomes ``[..., D_0 * c]`` of ``Tile[1 x
    r]``: a column is laid out as a row. With ``chunk``, the rule of the public simulator of 2026,
    it becomes ``[..., D_0 * ceil(c / chunk)]`` of ``Tile[r x chunk]``, the last one with the
    rest.

    Parameters
    ----------
    chunk : columns of an upright piece; None: single columns, laid out as rows. In the timing of
        the latter, column i counts as padding if row i does or is missing, as in the paper's
        simulator; in values, all columns of valid data are kept. Drop padding before, not after.

    Fires
    -----
    Once for each tile: all of its pieces in one cycle, if there is room.

    Raises
    ------
    DTypeError : the elements are not tiles of arithmetic scalars.

    Example
    -------
    >>> with st.Program("columns") as program:
    ...     x = st.linear_load(np.arange(4, dtype="f4").reshape(2, 2), tile=(2, 2)).flatten(0, 1)
    ...     out = st.linear_store(x.flat_map(st.fn.unpack_cols()), "out")
    >>> print(run_functional(program).stored["out"])
    [[0. 2.]
     [1. 3.]]
    """
    params = (("split_row", False), ("filter", False))
    return StreamFunction("unpack_cols", "RetileStreamify", _chunked(params, chunk))


def _chunked(params: tuple[tuple[str, Any], ...], chunk: int | None) -> tuple[tuple[str, Any], ...]:
    return params if chunk is None else (*params, ("chunk", chunk))


def emit(
    dims: Sequence[int | str],
    tile: tuple[int | str, int | str] = ("rows", "cols"),
    *,
    cycles: int = 0,
    kernel: Callable[..., Any] | None = None,
) -> StreamFunction:
    """Cut every tile into pieces of one size: the general stream function.

    FlatMap of the STeP paper (table 6) with a user-defined rule for the number and size of pieces.

    Shape
    -----
    ``[..., D_0]`` becomes ``[..., D_0 * dims[0], dims[1], ...]`` of ``Tile[tile]``.

    Parameters
    ----------
    dims : pieces of a tile, outermost first. Each is an int or a formula such as ``"2*m"``: a sum
        of products of ``m`` (or ``rows``) and ``n`` (``cols``) of the tile, its valid rows
        ``valid``, and ``length``: the value, from 1 to 2**20, of a second stream of 1x1 integers
        with the shape of the first: ``x.flat_map(fn.emit(["length"]), lengths)``. The formula may
        be divided by a number, rounded up (``"ceil(m/4)"``) or exactly (``"m/4"``, where 4 is known
        to divide m).
    tile : rows and columns of a piece, the same for all pieces of a tile; ints or formulas of ``m``
        and ``n``.
    cycles : cycles of each piece.
    kernel : ``kernel(array, valid_rows)``, with ``"length"`` ``kernel(array, valid_rows, length)``,
        returns the pieces as arrays, in row-major order over ``dims``, for functional runs; without
        it the scalars of the tile are cut up in row-major order.

    Fires
    -----
    Once for each tile: ``cycles`` for each piece.

    Raises
    ------
    ArgError : an entry is not a size, or a tile is cut into too many pieces.
    DTypeError : the elements are not tiles of arithmetic scalars.

    Raises
    ------
    ArgError : a formula has other letters, differences, a floor, ``min`` or ``max``, or rounds
        only part of a sum; or there are more than 2**40 pieces.
    DimError : an exact quotient is not known to be an integer.

    Example
    -------
    >>> with st.Program("halves") as program:
    ...     x = st.linear_load(np.arange(4, dtype="f4").reshape(1, 4), tile=(1, 4)).flatten(0, 1)
    ...     halves = x.flat_map(st.fn.emit(["n/2"], ("1", "2"), cycles=3))
    ...     copies = st.fn.emit(["length"], kernel=lambda tile, valid, length: [tile] * length)
    ...     again = x.flat_map(copies, st.metadata([3]))
    ...     stores = st.linear_store(halves, "halves"), st.linear_store(again, "again")
    >>> halves
    Stream[2] of Tile[1x2 f32] <- emit#2
    >>> stored = run_functional(program).stored
    >>> print(stored["halves"], stored["again"].shape)
    [[0. 1.]
     [2. 3.]] (3, 4)
    """
    params = (("dims", dims), ("tile", tile), ("cycles", cycles))
    return StreamFunction("emit", "FlatMap", params, kernel=kernel)
