"""Values of the functions of ``st.fn`` and ``st.function``, with the rules for padding.

Sides that no result has are reduced: there the padding of an operand is replaced by the neutral
element (``Function.padding``). The number of valid rows of a result is a rule of the
function, the same as in the timing model; columns become padding where those of the operands are,
and where the rows of a transposed operand are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stepsim.dtypes import DType
from stepsim.errors import EvaluationError
from stepsim.functional.network import Node
from stepsim.functional.values import Array, TileValue, rounded
from stepsim.graph import MAX_VALUE, Function, Init, Polynomial, Rule

States = list[TileValue]


def map_tiles(
    fn: Function, tiles: Sequence[TileValue], node: Node, dtypes: Sequence[DType]
) -> States:
    """Results of a map, rounded to their scalar types."""
    return [
        shown(y, node, dtype) for y, dtype in zip(_applied(fn, tiles, node), dtypes, strict=True)
    ]


def shown(tile: TileValue, node: Node, dtype: DType) -> TileValue:
    """A result as it is emitted. Sums are kept in float32 and rounded once."""
    if dtype is DType.bool_:
        return TileValue(tile.data.astype(bool), tile.valid, tile.width)
    data = tile.data
    with np.errstate(all="ignore"):
        if dtype.is_arithmetic:
            data = rounded(data, node.world.scalar or dtype)
        elif data.dtype.kind != "u":
            data = np.rint(np.maximum(data, 0)).astype(np.uint64)
    return TileValue(data, tile.valid, tile.width)


def initial(fn: Function, inits: Sequence[Init]) -> States:
    """The states before the first element."""
    states = []
    for init in inits:
        value = fn.start if init.is_empty else init.value
        data = np.full((init.rows, init.cols), value, np.float32)
        # No product has been added yet, so no column is valid.
        started = fn.summed is None or fn.shape.broadcast
        states.append(TileValue.of(data) if started else TileValue(data, 0, 0))
    return states


def accumulate(fn: Function, states: States, tiles: Sequence[TileValue], node: Node) -> States:
    """New states after some elements, not rounded yet."""
    states = [_adopted(fn, i, state, tiles) for i, state in enumerate(states)]
    if fn.summed is None:
        return _applied(fn, [*states, *tiles], node)
    (state,), (product,) = states, _applied(fn.summed, tiles, node)
    if fn.shape.broadcast:
        sides = zip(state.data.shape, product.data.shape, strict=True)
        if any(a != b and 1 not in (a, b) for a, b in sides):
            node.fail(f"the state {state!r} and the product {product!r} cannot be broadcast")
        with np.errstate(all="ignore"):
            return [TileValue.of(state.data + product.unpadded())]
    if state.data.shape != product.data.shape:
        node.fail(
            f"the state is {state!r}, the product {product!r}",
            "all products of one reduction need one size",
        )
    with np.errstate(all="ignore"):
        total = state.data + product.unpadded()
    return [TileValue(total, product.valid, max(state.width, product.width))]


def _adopted(fn: Function, i: int, state: TileValue, tiles: Sequence[TileValue]) -> TileValue:
    """A state without rows or columns takes its size from the first element."""
    if state.rows and state.cols:
        return state
    if fn.packs is not None:
        rows, cols = state.rows, state.cols
        if fn.packs == "rows" and rows + cols == 0:
            cols = tiles[0].cols
        elif fn.packs == "cols" and cols == 0:
            rows = tiles[0].rows
        return state if state.data.size else TileValue.of(np.zeros((rows, cols), np.float32))
    if fn.shape.broadcast:
        return TileValue.of(np.full((1, 1), fn.start, np.float32))
    first = 2 * fn.shape.states
    sizes = [size for tile in tiles for size in (tile.rows, tile.cols)]
    known = {v: sizes[n - first] for v, n in fn.shape.sides.items() if n >= first}
    shape = [_whole(side, known) for side in fn.shape.operands[i]]
    data = np.full(shape, fn.start, np.float32)
    return TileValue.of(data) if fn.summed is None else TileValue(data, 0, 0)


def _whole(side: Polynomial, sizes: dict[Any, int]) -> int:
    return int(side.at(dict(sizes)))


def _applied(fn: Function, tiles: Sequence[TileValue], node: Node) -> States:
    """Results of a function, not rounded yet."""
    bound, shapes = _checked(fn, tiles, node)
    valid = [
        _valid(rule, rows, tiles, node) for rule, (rows, _) in zip(fn.valid, shapes, strict=True)
    ]
    number = fn.numbers[0]
    if number is not None and number[0] != "keep":
        return [TileValue.integer(_number(fn, number, tiles, node))]
    arrays = _computed(fn, tiles, shapes, node)
    widths = [_width(fn, j, tiles, shape, bound) for j, shape in enumerate(shapes)]
    return [_finished(*made) for made in zip(arrays, valid, widths, strict=True)]


def _number(fn: Function, rule: Rule, tiles: Sequence[TileValue], node: Node) -> int:
    """The whole number that a rule makes."""
    kind, *rest = rule
    if kind == "constant":
        constant: int = rest[0]
        return constant
    if kind == "address":
        index, length, stride = rest
        return _write_address(tiles[index].value, tiles[length].value, stride, node)
    if kind in _WITH_CONSTANT:
        values = [tiles[rest[0]].value, rest[1]]
    else:
        values = [tiles[i].value for i in rest]
    made = int({**_WITH_CONSTANT, **_WITH_OPERANDS}[kind](*values))
    if not 0 <= made <= MAX_VALUE:
        node.fail(f"{fn} makes {made} of {' and '.join(map(str, values))}, {_IN_RANGE}")
    return made


_IN_RANGE = "whole numbers are from 0 to 2**63 - 1"
_WITH_CONSTANT: dict[str, Callable[..., int]] = {
    "equal": operator.eq,
    "plus": operator.add,
    "minus": operator.sub,
    "times": operator.mul,
    "divided": operator.floordiv,
}
_WITH_OPERANDS: dict[str, Callable[..., int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "max": max,
    "min": min,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "select": lambda flag, yes, no: yes if flag else no,
}


def _checked(
    fn: Function, tiles: Sequence[TileValue], node: Node
) -> tuple[dict[Any, int], list[tuple[int, int]]]:
    """Sizes by letter and sizes of the results, after checking that the operands fit."""
    if fn.shape.broadcast:
        sides = []
        for axis in ("rows", "cols"):
            sizes = {getattr(tile, axis) for tile in tiles} - {1}
            if len(sizes) > 1:
                node.fail(f"{_named(tiles)} cannot be broadcast")
            sides.append(sizes.pop() if sizes else 1)
        return {}, [(sides[0], sides[1])]
    sizes_of = [size for tile in tiles for size in (tile.rows, tile.cols)]
    bound: dict[Any, int] = {v: sizes_of[n] for v, n in fn.shape.sides.items()}
    for n, side, other in fn.shape.repeated:
        if sizes_of[n] != (_whole(side, bound) if other is None else sizes_of[other]):
            node.fail(f"{_named(tiles)} do not fit {fn}: {fn.shape.text}")
    for size, least in zip((tiles[0].rows, tiles[0].cols), fn.least, strict=True):
        if size < least:
            node.fail(f"{tiles[0]!r} is too small for {fn}")
    rows_and_cols = [
        [_whole(side, bound) if n is None else sizes_of[n] for n, side in made]
        for made in fn.shape.made_of
    ]
    return bound, [(rows, cols) for rows, cols in rows_and_cols]


def _named(tiles: Sequence[TileValue]) -> str:
    return " and ".join(repr(tile) for tile in tiles)


def _computed(
    fn: Function, tiles: Sequence[TileValue], shapes: Sequence[tuple[int, int]], node: Node
) -> list[Array]:
    if fn.values is None:
        node.fail(f"function {fn} has no values", "give st.function values=")
    arrays = [_without_padding(fn, i, tile).view() for i, tile in enumerate(tiles)]
    for array in arrays:
        array.flags.writeable = False  # Others may read the same tile.
    try:
        with np.errstate(all="ignore"):
            found = fn.values(tiles, *arrays) if fn.sized else fn.values(*arrays)
    except EvaluationError:
        raise
    except Exception as error:
        node.fail(f"values of {fn} raised {type(error).__name__} ({error}) for {_named(tiles)}")
    if fn.results == 1:
        found = (found,)
    if not isinstance(found, tuple) or len(found) != fn.results:
        node.fail(
            f"values of {fn} returned {type(found).__name__}, expected a tuple of {fn.results} "
            "arrays"
        )
    made = []
    for one, shape in zip(map(_numbers, found), shapes, strict=True):
        made.append(one)
        if one.dtype.kind not in "biuf":
            node.fail(f"values of {fn} returned {one.dtype}, expected real numbers")
        if one.shape != shape:
            node.fail(
                f"values of {fn} returned an array of shape {one.shape}, expected {shape} by "
                f"{fn.shape.text} for {_named(tiles)}"
            )
    return made


def _numbers(found: Any) -> Array:
    try:
        return np.asarray(found)
    except ValueError:  # Lists of different length.
        return np.asarray(None)


def _without_padding(fn: Function, i: int, tile: TileValue) -> Array:
    """The scalars of an operand; padding in reduced sides is neutral."""
    states = fn.shape.states
    if (tile.valid >= tile.rows and tile.width >= tile.cols) or i < states:
        return tile.data
    if fn.folded:
        return tile.unpadded(fn.padding[i])
    if fn.shape.broadcast:
        return tile.data
    kept = {v for result in fn.shape.results for side in result for v in side.variables()}
    rows, cols = (not kept.intersection(side.variables()) for side in fn.shape.operands[i])
    data = tile.data
    if (rows and tile.valid < tile.rows) or (cols and tile.width < tile.cols):
        data = data.copy()
        if rows:
            data[tile.valid :] = fn.padding[i]
        if cols:
            data[:, tile.width :] = fn.padding[i]
    return data


def _valid(rule: Rule, rows: int, tiles: Sequence[TileValue], node: Node) -> int:
    """Valid rows of a result of ``rows`` rows."""
    kind = rule[0]
    if kind == "rows":
        return rows
    if kind in ("first", "max", "sum"):
        listed: list[TileValue] = [tiles[i] for i in rule[1]]
        if kind == "sum":
            total = sum(tile.valid for tile in listed)
            if total > rows:
                node.fail(f"{total} valid rows in all do not fit a tile of {rows} rows")
            return total
        found = [tile.valid for tile in listed if tile.rows == rows] or [rows]
        return found[0] if kind == "first" else max(found)
    tile: TileValue = tiles[rule[1]]
    if kind == "slice":
        start: int = rule[2]
        return min(max(tile.valid - start, 0), rows)
    if kind == "value":
        if tile.value > rows:
            node.fail(f"{tile.value} valid rows do not fit a tile of {rows} rows")
        return tile.value
    x: TileValue = tiles[rule[2]]
    if kind == "packed":
        if 0 < x.valid < x.rows:
            node.fail(
                f"a tile with {x.valid} of {x.rows} valid rows cannot be packed, its padding would "
                "end up between rows",
                "drop the padding first",
            )
        return tile.valid + x.valid
    if tile.valid + x.rows > rows:
        node.fail(f"no room for another row: {tile.valid} of {tile.rows} rows are valid")
    return tile.valid + x.rows


def _width(
    fn: Function,
    j: int,
    tiles: Sequence[TileValue],
    shape: tuple[int, int],
    bound: dict[Any, int],
) -> int:
    """Columns of a result without padding."""
    states, cols = fn.shape.states, shape[1]
    if fn.shape.broadcast:
        if states:
            return cols
        return min([t.width for t in tiles if t.cols == cols] or [cols])
    side = fn.shape.results[j][1]
    if side.letter is None:
        # Of adjacent tiles only the last one ends in padding.
        for letter in reversed(side.variables()):
            if bound[letter]:
                return cols - (bound[letter] - _extent(fn, letter, tiles, bound[letter]))
        return cols
    return _extent(fn, side.letter, tiles, cols)


def _extent(fn: Function, letter: Any, tiles: Sequence[TileValue], size: int) -> int:
    """The extent of a side of operands without padding; elements take precedence over states."""
    for group in (range(fn.shape.states, fn.arity), range(fn.shape.states)):
        for axis in (1, 0):
            found = [
                tiles[i].width if axis else tiles[i].valid
                for i in group
                if fn.shape.operands[i][axis].letter == letter
            ]
            if found:
                return min(found)
    return size


def _finished(data: Array, valid: int, width: int) -> TileValue:
    """Put zeros into padding columns."""
    if width < data.shape[1]:
        data = data.copy()
        data[:, width:] = 0
    return TileValue(data, valid, width)


def _write_address(index: int, length: int, stride: int, node: Node) -> int:
    if length < 1:
        node.fail(f"a request of length {length} has no last tile", "lengths must be at least 1")
    return first_tile(index, length, stride, node) + length - 1


def first_tile(index: int, length: int, stride: int, node: Node) -> int:
    """Index of the first of the tiles of a request; fails when the last one has none."""
    if index * stride + length > MAX_VALUE:
        node.fail(
            f"the tiles of request {index}, of {stride} tiles each, pass tile 2**63 - 1",
            "check the index and the stride",
        )
    return index * stride
