"""Products of matrices, and functions that move scalars about."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepsim.arguments import Range, shown
from stepsim.errors import ArgError
from stepsim.graph.functions.function import Function
from stepsim.graph.functions.polynomial import Polynomial
from stepsim.graph.functions.shape import Shape
from stepsim.graph.functions.standard import SAME_AS_PUBLISHED, family, standard
from stepsim.graph.sizes.limits import SIDE, TILE_SIDE

_ACCUMULATES = (
    "``st.map_accum``, or ``accum`` of a zip, adds the products up, and the sum is free. Operands "
    "have one scalar type, or the second a narrower one that is converted."
)
_PARTS = Range(64, "tiles that one function takes", low=1)


def _matmul(name: str, shape: str, formula: str, first: bool, second: bool) -> Function:
    def values(a: Any, b: Any) -> Any:
        return (a.T if first else a) @ (b.T if second else b)

    return standard(
        name, shape, values, f"Product of two matrices, ``{formula}``.", weight=2,
        work=Polynomial.of("m", "k", "n"), transposes=(first, second), text=_ACCUMULATES,
    )  # fmt: skip


matmul = _matmul("matmul", "m k, k n -> m n", "a @ b", False, False)
matmul_t = _matmul("matmul_t", "m k, n k -> m n", "a @ b.T", False, True)
t_matmul = _matmul("t_matmul", "k m, k n -> m n", "a.T @ b", True, False)
t_matmul_t = _matmul("t_matmul_t", "k m, n k -> m n", "a.T @ b.T", True, True)

transpose = standard(
    "transpose", "m n -> n m", np.transpose, "Rows become columns.", cycles=1,
    text="All rows of the result are valid; padding rows become padding columns.",
)  # fmt: skip


def _packed(tiles: Any, arrays: Any) -> Any:
    """Valid rows one below the other, then padding."""
    valid = [x[: tile.valid] for tile, x in zip(tiles, arrays, strict=True)]
    rest = [x[tile.valid :] for tile, x in zip(tiles, arrays, strict=True)]
    return np.concatenate([*valid, *rest], axis=0)


def _letters(count: int) -> list[Polynomial]:
    return [Polynomial.of(f"a{i}") for i in range(count)]


def _total(sides: list[Polynomial]) -> Polynomial:
    return sum(sides[1:], sides[0])


def _concatenated(count: int, rows: bool) -> Shape:
    sides, other = _letters(count), Polynomial.of("n" if rows else "m")
    tiles = [(side, other) if rows else (other, side) for side in sides]
    total = _total(sides)
    result = (total, other) if rows else (other, total)
    text = ", ".join(f"{r} {c}" for r, c in tiles)
    made = f"{result[0]} {result[1]}".replace(" + ", "+")
    return Shape(f"{text} -> {made}", tuple(tiles), (result,))


@family(2)
def concat_rows(tiles: int = 2) -> Function:
    """Put the rows of several tiles into one.

    A map of as many streams. Valid rows come before padding.

    Shape
    -----
    ``a n, b n, ... -> a+b+... n``.

    Parameters
    ----------
    tiles : number of tiles, from 1 to 64.

    Raises
    ------
    DimError : the columns of the tiles are not known to be equal.
    """
    count = _PARTS.checked("concat_rows: tiles", tiles)
    return standard(
        "concat_rows", _concatenated(count, True),
        lambda tiles, *arrays: _packed(tiles, arrays), f"Rows of {count} tiles in one.",
        cycles=1, valid=("sum", tuple(range(count))), sized=True, arguments=(count,),
        text="Valid rows come before padding.",
    )  # fmt: skip


@family(2)
def concat_cols(tiles: int = 2) -> Function:
    """Put the columns of several tiles into one.

    A map of as many streams. Padding columns between them become zeros.

    Shape
    -----
    ``m a, m b, ... -> m a+b+...``.

    Parameters
    ----------
    tiles : number of tiles, from 1 to 64.

    Raises
    ------
    DimError : the rows of the tiles are not known to be equal.
    """
    count = _PARTS.checked("concat_cols: tiles", tiles)
    return standard(
        "concat_cols", _concatenated(count, False),
        lambda *arrays: np.concatenate(arrays, axis=1), f"Columns of {count} tiles side by side.",
        cycles=1, valid=("max", tuple(range(count))), arguments=(count,),
        text="Padding columns between them become zeros.",
    )  # fmt: skip


def _cut(stop: int, side: int) -> str | None:
    """The spelling of an example; None where the tile of the example is too small."""
    return "" if stop <= side else None


def _range(name: str, start: object, stop: object) -> tuple[int, int]:
    first, end = SIDE.checked(f"{name}: start", start), TILE_SIDE.checked(f"{name}: stop", stop)
    if first >= end:
        raise ArgError(f"{name}: stop must be above start, found {first} to {end}")
    return first, end


@family(0, 1)
def slice_rows(start: int, stop: int) -> Function:
    """Take some rows of a tile.

    A map to the rows ``start`` to ``stop - 1`` of a tile with a known number of rows.

    Shape
    -----
    ``m n -> stop-start n``.

    Parameters
    ----------
    start : first of the rows, from 0.
    stop : end of the range, above ``start``.

    Raises
    ------
    DimError : the tile has fewer rows.
    """
    a, b = _range("slice_rows", start, stop)
    return standard(
        "slice_rows", f"m n -> {b - a} n", lambda x: x[a:b], f"Rows {a} to {b - 1}.", cycles=1,
        valid=("slice", 0, a), arguments=(a, b), least=(b, 0), spelling=_cut(b, 4),
    )  # fmt: skip


@family(0, 1)
def slice_cols(start: int, stop: int) -> Function:
    """Take some columns of a tile.

    A map to the columns ``start`` to ``stop - 1`` of a tile with a known number of columns.

    Shape
    -----
    ``m n -> m stop-start``.

    Parameters
    ----------
    start : first of the columns, from 0.
    stop : end of the range, above ``start``.

    Raises
    ------
    DimError : the tile has fewer columns.
    """
    a, b = _range("slice_cols", start, stop)
    return standard(
        "slice_cols", f"m n -> m {b - a}", lambda x: x[:, a:b], f"Columns {a} to {b - 1}.",
        cycles=1, arguments=(a, b), least=(0, b), spelling=_cut(b, 8),
    )  # fmt: skip


@family("half")
def rotary(pairs: str = "half") -> Function:
    """Turn pairs of columns by angles (RoPE).

    A map of (x, cos, sin), the rotary position embedding: a pair (a, b) becomes
    ``(a cos - b sin, b cos + a sin)``.

    Parameters
    ----------
    pairs : which columns belong together: ``half``, column i and i + h, or ``interleaved``, columns
        2 i and 2 i + 1.

    Raises
    ------
    DimError : ``cos`` and ``sin`` have not half as many columns.

    Example
    -------
    >>> with st.Program("quarter turn", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[1, 2]], "f4"), tile=(1, 2))
    ...     cos = st.linear_load(np.array([[0]], "f4"), tile=(1, 1))
    ...     sin = st.linear_load(np.array([[1]], "f4"), tile=(1, 1))
    ...     out = st.linear_store(st.map(st.fn.rotary(), x, cos, sin), "out")
    >>> print(run_functional(program).stored["out"])
    [[-2.  1.]]
    """
    if not isinstance(pairs, str) or pairs not in ("half", "interleaved"):
        raise ArgError(f"rotary: pairs must be 'half' or 'interleaved', found {shown(pairs)}")
    half = pairs == "half"

    def values(x: Any, cos: Any, sin: Any) -> Any:
        h = cos.shape[1]
        a, b = (x[:, :h], x[:, h:]) if half else (x[:, ::2], x[:, 1::2])
        left, right = a * cos - b * sin, b * cos + a * sin
        if half:
            return np.concatenate([left, right], axis=1)
        return np.stack([left, right], axis=2).reshape(x.shape)

    return standard(
        "rotary", "m 2*h, m h, m h -> m 2*h", values,
        "Rotary position embedding: pairs of columns turned by angles.", weight=6,
        work=Polynomial.of("m", "h"), arguments=(pairs,), spelling=f"st.fn.rotary({pairs!r})",
        flops=f"{SAME_AS_PUBLISHED}: 4 products and 2 sums for each pair.",
        text="Operands are the tile, the cosines and the sines.",
    )  # fmt: skip


@family(0, 2)
def part(index: int, members: int) -> Function:
    """Take one member of a tuple of tiles.

    A map; :func:`unzip` makes all members.

    Shape
    -----
    A tuple of ``members`` tiles to the tile ``index`` of it.

    Parameters
    ----------
    index : which member, from 0.
    members : how many there are, up to 64.

    Fires
    -----
    Once per element, in no cycles but those of reading tiles that were written back to on-chip
    memory.

    Example
    -------
    >>> with st.Program("second") as program:
    ...     x = st.linear_load(np.ones((1, 2), "f4"), tile=(1, 2))
    ...     y = st.linear_load(np.zeros((1, 3), "f4"), tile=(1, 3))
    ...     second = st.zip(x, y).map(st.fn.part(1, 2))
    ...     second.consume()
    >>> second
    Stream[1, 1] of Tile[1x3 f32] <- part#3
    """
    count = _PARTS.checked("part: members", members)
    which = SIDE.checked("part: index", index)
    if which >= count:
        raise ArgError(f"part: index must be below members = {count}, found {which}")
    tiles = tuple((Polynomial.of(f"m{i}"), Polynomial.of(f"n{i}")) for i in range(count))
    text = ", ".join(f"{r} {c}" for r, c in tiles)
    shape = Shape(f"{text} -> m{which} n{which}", tiles, (tiles[which],))
    return standard(
        "part", shape, lambda *arrays: arrays[which], f"Member {which} of {count}.",
        arguments=(which, count), dtype=which, kinds=("tile",) * count,
        numbers=(("keep", which),), text="Takes no cycles but those of reading from memory.",
    )  # fmt: skip
