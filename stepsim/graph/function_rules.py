"""Type rules and FLOPs of the functions in ``st.fn``, each a function of the operands' types."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stepsim.errors import DimError, DTypeError
from stepsim.graph.dims import Dim
from stepsim.graph.sizes import Size, product
from stepsim.graph.types import DType, ElementType, Tile

__all__ = [
    "U64_TILE",
    "Same",
    "address_type",
    "append_type",
    "broadcast_type",
    "matmul_cost",
    "matmul_type",
    "numbers_of",
    "row_sum_cost",
    "scalar_cost",
    "set_offset_type",
    "tiles_of",
    "unary_type",
]

U64_TILE = Tile(DType.u64, Dim(1), Dim(1))

Same = Callable[[Dim, Dim, str], None]
"""Checks two dims: (left, right, what they are); raises when they are not proved equal."""


def tiles_of(name: str, types: Sequence[ElementType]) -> list[Tile]:
    tiles = [t for t in types if isinstance(t, Tile)]
    if len(tiles) != len(types):
        raise DTypeError(f"{name} works on tiles, found {', '.join(str(t) for t in types)}")
    return tiles


def numbers_of(name: str, types: Sequence[ElementType]) -> list[Tile]:
    tiles = tiles_of(name, types)
    if any(not t.dtype.is_arithmetic for t in tiles):
        found = ", ".join(str(t) for t in types)
        known = ", ".join(d.text for d in DType if d.is_arithmetic)
        raise DTypeError(f"{name} works on tiles of {known}, found {found}")
    return tiles


def matmul_type(types: Sequence[ElementType], same: Same, *, transposed: bool) -> Tile:
    a, b = numbers_of("matmul", types)
    inner, out = (b.cols, b.rows) if transposed else (b.rows, b.cols)
    if a.dtype is not b.dtype and b.dtype.bits >= a.dtype.bits:
        raise DTypeError(
            "matmul multiplies tiles of one scalar type, or by a second operand of a narrower one "
            f"that is converted to the first's, found {a} and {b}"
        )
    same(a.cols, inner, f"inner sizes of {a} and {b}{' transposed' if transposed else ''}")
    return Tile(a.dtype, a.rows, out)


def broadcast_type(types: Sequence[ElementType], same: Same, *, name: str) -> Tile:
    a, b = numbers_of(name, types)
    sides = []
    for left, right, what in ((a.rows, b.rows, "rows"), (a.cols, b.cols, "columns")):
        if not (left.is_one() or right.is_one()):
            same(left, right, f"{what} of {a} and {b}")
        sides.append(right if left.is_one() else left)
    return Tile(a.dtype, sides[0], sides[1])


def unary_type(
    types: Sequence[ElementType], same: Same, *, name: str, cols: int | None = None
) -> Tile:
    (a,) = numbers_of(name, types)
    return a if cols is None else Tile(a.dtype, a.rows, Dim(cols))


def set_offset_type(types: Sequence[ElementType], same: Same) -> Tile:
    a, b = tiles_of("set_offset", types)
    if not b.is_address:
        raise DTypeError(f"set_offset takes the number of valid rows as a 1x1 u64 tile, found {b}")
    return a


def append_type(types: Sequence[ElementType], same: Same) -> Tile:
    a, b = numbers_of("append_row", types)
    same(a.cols, b.cols, f"columns of {a} and {b}")
    if not b.rows.is_one():
        raise DimError(f"append_row appends one row, found {b}")
    return a


def address_type(types: Sequence[ElementType], same: Same) -> Tile:
    for tile in tiles_of("cache_write_address", types):
        if not tile.is_address:
            raise DTypeError(f"cache_write_address takes two 1x1 u64 tiles, found {tile}")
    return U64_TILE


def matmul_cost(types: Sequence[Tile], out: Tile) -> Size:
    return product((2, types[0].rows.expr, types[0].cols.expr, out.cols.expr))


def scalar_cost(types: Sequence[Tile], out: Tile, *, weight: int) -> Size:
    return product((weight, out.rows.expr, out.cols.expr))


def row_sum_cost(types: Sequence[Tile], out: Tile) -> Size:
    return product((types[0].rows.expr, types[0].cols.expr))
