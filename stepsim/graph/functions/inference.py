"""Types of the results of functions, from those of the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stepsim.errors import DimError, DTypeError
from stepsim.frozen import NamedTuple
from stepsim.graph.functions.function import Function
from stepsim.graph.functions.polynomial import Polynomial
from stepsim.graph.sizes.dims import Dim, Namer, total_over
from stepsim.graph.sizes.shapes import cardinality
from stepsim.graph.sizes.sizes import Size, product, sum_of
from stepsim.graph.types import DType, ElementType, Tile

Same = Callable[[Dim, Dim, Callable[[], str]], None]
"""Checks two dims: (left, right, what they are); raises when they are not proved equal.

A function describes them, because thousands of dims are checked and few are refused.
"""


class Setting(NamedTuple):
    """Where a function is applied.

    Attributes
    ----------
    same : raises unless two dims are equal.
    namer : makes the symbols of new sides.
    shape : dims of the stream, over whose elements ragged sides are summed.
    """

    same: Same
    namer: Namer
    shape: tuple[Dim, ...]

    @property
    def elements(self) -> Size:
        """Elements of the stream."""
        return cardinality(self.shape)


def operand_tiles(fn: Function, types: Sequence[ElementType]) -> list[Tile]:
    """The elements of a function as tiles; DTypeError when one is of another kind."""
    tiles = [t for t in types if isinstance(t, Tile)]
    if len(tiles) != len(types):
        raise DTypeError(f"'{fn}' works on tiles, found {', '.join(str(t) for t in types)}")
    kinds = fn.kinds[fn.shape.states :]
    for position, (kind, tile) in enumerate(zip(kinds, tiles, strict=True)):
        if kind == "number" and not tile.dtype.is_arithmetic:
            known = ", ".join(d.text for d in DType if d.is_arithmetic)
            found = ", ".join(str(t) for t in types)
            raise DTypeError(
                f"'{fn}' works on tiles of {known}, found {found}; "
                + (
                    "of whole numbers there are add, sub, mul, max, min, comparisons and where, "
                    "and add_const, sub_const, mul_const and floor_div_const with such a constant"
                    if any(t.is_address for t in tiles)
                    else "st.fn.cast makes numbers of flags"
                )
            )
        if kind == "flag" and tile.dtype.is_address:
            raise DTypeError(
                f"'{fn}' takes flags or numbers as operand {position + 1}, found {tile}"
            )
        if kind == "address" and not tile.is_address:
            raise DTypeError(
                f"'{fn}' takes a whole number, a 1x1 tile of u64 or u32, as operand "
                f"{position + 1}, found {tile}"
            )
    if fn.transposes is not None and len(tiles) > 1:
        a, b = tiles[-2:]
        if a.dtype is not b.dtype and b.dtype.bits >= a.dtype.bits:
            raise DTypeError(
                f"'{fn}' multiplies tiles of one scalar type, or by a second operand of a narrower "
                f"one that is converted to the first's, found {a} and {b}"
            )
    return tiles


def result_types(fn: Function, tiles: Sequence[Tile], setting: Setting) -> tuple[Tile, ...]:
    """Types of the results for operands (states first); DimError when sides do not fit."""
    made = _result_types(fn, tiles, setting)
    for number, tile in zip(fn.numbers, made, strict=True):
        # A timing run has no values: it knows the numbers that rules make, and those of sources.
        known = number is not None
        if number is not None and number[0] == "keep":
            known = tiles[number[1]].is_address
        if tile.is_address and not known:
            raise DTypeError(
                f"'{fn}' makes {tile}, a whole number on which other operators depend, which is "
                "not known when times are simulated; keep it in a type of numbers, or take such "
                "numbers from metadata(), counter() or fn.cache_write_address"
            )
    return made


def _result_types(fn: Function, tiles: Sequence[Tile], setting: Setting) -> tuple[Tile, ...]:
    if fn.shape.broadcast:
        sides = [_broadcast(fn, tiles, side, setting.same) for side in ("rows", "cols")]
        return (Tile(_dtype(fn, 0, tiles), *sides),)
    if fn.least != (0, 0):
        _check_least(fn, tiles[0])
    dims = _checked_sides(fn, tiles, setting)
    made = []
    for j, result in enumerate(fn.shape.made_of):
        rows, cols = [
            _evaluated(fn, side, _letters(fn, dims), setting) if number is None else dims[number]
            for number, side in result
        ]
        made.append(Tile(_dtype(fn, j, tiles), rows, cols))
    return tuple(made)


def _check_least(fn: Function, tile: Tile) -> None:
    for side, least, what in zip(
        (tile.rows, tile.cols), fn.least, ("rows", "columns"), strict=True
    ):
        if least and not side.is_static:
            raise DimError(f"'{fn}' needs a known number of {what}, found {tile}")
        if least and int(side) < least:
            raise DimError(f"'{fn}' needs at least {least} {what}, found {tile}")


def evaluated(
    fn: Function, side: Polynomial, elements: Sequence[Tile], setting: Setting
) -> Dim | None:
    """A side of a state as the elements have it; None when they do not determine it."""
    first = 2 * fn.shape.states
    if side.letter is not None:
        number = fn.shape.sides.get(side.letter, -1) - first
        if number < 0:
            return None
        tile = elements[number // 2]
        return tile.cols if number % 2 else tile.rows
    dims = [dim for tile in elements for dim in (tile.rows, tile.cols)]
    sides = {v: n - first for v, n in fn.shape.sides.items() if n >= first}
    if any(letter not in sides for letter in side.variables()):
        return None
    return _evaluated(fn, side, {v: dims[n] for v, n in sides.items()}, setting)


def state_of(fn: Function, i: int) -> str:
    """What to call operand ``i``, a state: ``the state`` or ``state 2``."""
    return "the state" if fn.shape.states == 1 else f"state {i + 1}"


def _named(fn: Function, i: int, tile: Tile) -> str:
    return f"{state_of(fn, i)} {tile}" if i < fn.shape.states else str(tile)


def _dtype(fn: Function, result: int, tiles: Sequence[Tile]) -> DType:
    rule = fn.dtypes[result]
    return rule if isinstance(rule, DType) else tiles[rule].dtype


def _broadcast(fn: Function, tiles: Sequence[Tile], side: str, same: Same) -> Dim:
    what = "rows" if side == "rows" else "columns"
    first = 0
    found: Dim = getattr(tiles[0], side)
    for i, tile in enumerate(tiles[1:], 1):
        other: Dim = getattr(tile, side)
        if found.is_one():
            first, found = i, other
        elif found is not other and not other.is_one():
            pair = (first, i)
            same(found, other, lambda pair=pair: _both(fn, what, tiles, pair))  # type: ignore[misc]
    return found


def _both(fn: Function, what: str, tiles: Sequence[Tile], pair: tuple[int, int]) -> str:
    left, right = (_named(fn, i, tiles[i]) for i in pair)
    return f"'{fn}': {what} of {left} and {right}"


def _letters(fn: Function, dims: Sequence[Dim]) -> dict[str, Dim]:
    """What each letter stands for."""
    return {letter: dims[number] for letter, number in fn.shape.sides.items()}


def _checked_sides(fn: Function, tiles: Sequence[Tile], setting: Setting) -> list[Dim]:
    """Rows and columns of all operands, which must be equal where their letters are."""
    dims = [dim for tile in tiles for dim in (tile.rows, tile.cols)]
    for number, side, other in fn.shape.repeated:
        if other is None:
            wanted = _evaluated(fn, side, _letters(fn, dims), setting)
            setting.same(
                dims[number],
                wanted,
                lambda number=number, side=side: (  # type: ignore[misc]
                    f"'{fn}': {_side(fn, number, tiles)} and {side}"
                ),
            )
            continue
        left, right = min(other, number), max(other, number)
        if dims[left] is not dims[right]:
            setting.same(
                dims[left],
                dims[right],
                lambda left=left, right=right: (  # type: ignore[misc]
                    f"'{fn}': {_side(fn, left, tiles)} and {_side(fn, right, tiles)}"
                ),
            )
    return dims


def _side(fn: Function, number: int, tiles: Sequence[Tile]) -> str:
    """What to call a side of an operand."""
    i, j = divmod(number, 2)
    return f"{('rows', 'columns')[j]} of {_named(fn, i, tiles[i])}"


def _evaluated(fn: Function, side: Polynomial, bound: dict[str, Dim], setting: Setting) -> Dim:
    """The dim of a side that is a sum of letters and numbers."""
    if side.letter is not None:
        return bound[side.letter]
    if side.constant is not None:
        return Dim(side.constant)
    dims = [(number, bound[letters[0]] if letters else Dim(1)) for number, letters in side.terms]
    if not any(dim.is_ragged for _, dim in dims):
        return Dim(sum_of(product((number, dim.size)) for number, dim in dims))
    count = setting.elements
    return setting.namer.ragged(
        "r",
        f"{side} of {fn}",
        total=sum_of(product((number, total_over(dim, count))) for number, dim in dims),
        bound=sum_of(product((number, dim.most)) for number, dim in dims),
        span=count,
    )
