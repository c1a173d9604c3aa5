"""Functions that higher-order operators apply to tiles: type rules, FLOPs and unit names.

Users reach them as ``st.fn``. FLOP counts are those of the STeP simulator: padded rows count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from stepsim.errors import ArgError, DimError, DTypeError
from stepsim.graph.dims import Dim, Namer, cardinality
from stepsim.graph.sizes import Size, product
from stepsim.graph.types import DType, ElementType, Tile, dtype_of

if TYPE_CHECKING:
    from stepsim.graph.stream import Stream

__all__ = [
    "Function",
    "Init",
    "add",
    "append_row",
    "cache_write_address",
    "div",
    "empty",
    "exp",
    "matmul",
    "matmul_t",
    "mul",
    "one",
    "pack_cols",
    "pack_rows",
    "row_sum",
    "set_offset",
    "signal",
    "silu",
    "zero",
]

U64_TILE = Tile(DType.u64, Dim(1), Dim(1))

Same = Callable[[Dim, Dim, str], None]
"""Checks two dims: (left, right, what they are); raises when they are not proved equal."""


@dataclass(frozen=True, slots=True)
class Init:
    """The state before the first element: ``kind`` is ``zero``, ``one`` or ``empty``."""

    kind: str
    rows: int
    cols: int
    dtype: DType | None = None

    def __str__(self) -> str:
        return f"{self.kind}({self.rows}x{self.cols})"


def zero(shape: tuple[int, int], dtype: DType | str | None = None) -> Init:
    """A tile of zeros."""
    return Init("zero", *shape, None if dtype is None else dtype_of(dtype))


def one(shape: tuple[int, int], dtype: DType | str | None = None) -> Init:
    """A tile of ones."""
    return Init("one", *shape, None if dtype is None else dtype_of(dtype))


def empty(shape: tuple[int, int], dtype: DType | str | None = None) -> Init:
    """A tile without rows or without columns; the first element fills it."""
    if 0 not in shape:
        raise ArgError(
            f"empty: one side must be 0, found {shape[0]}x{shape[1]}. Use zero() instead"
        )
    return Init("empty", *shape, None if dtype is None else dtype_of(dtype))


@dataclass(frozen=True)
class Function:
    """A named rule for tiles.

    Attributes
    ----------
    map_unit, accum_unit : unit spelling in a map and as an accumulation; None = not usable there.
    arity : operands in a map.
    constant_cycles : the cycle count ignores the compute bandwidth.
    sizes : rows and columns of the operands to rows, columns and FLOPs (with ``constant_cycles``:
        cycles) of the result, negative when they do not fit. From it come the type rule, the cost
        and, for a function that a package offers under the entry points ``stepsim.functions``, the
        engine's kernel; numba compiles it, so it works on integers alone.
    kernel : arrays of the operands to the array of the result (of state and element to the new
        state, in an accumulation), for functional runs. Matmuls, packs and functions of addresses
        need none.
    """

    name: str
    arity: int
    map_unit: str | None = None
    accum_unit: str | None = None
    transposed: bool = False
    constant_cycles: bool = False
    stride: int | None = None
    sizes: Callable[..., tuple[Size, Size, Size]] | None = field(default=None, repr=False)
    infer: Callable[[Sequence[ElementType], Same], Tile] | None = field(default=None, repr=False)
    cost: Callable[[Sequence[Tile], Tile], Size] | None = field(default=None, repr=False)
    kernel: Callable[..., Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.sizes is None:
            return
        put = object.__setattr__
        if self.map_unit is None:
            put(self, "map_unit", self.name)
        if self.infer is None:
            put(self, "infer", partial(_sized, sizes=self.sizes, name=self.name))
        if self.cost is None and not self.constant_cycles:
            put(self, "cost", partial(_sized_cost, sizes=self.sizes, name=self.name))

    def __str__(self) -> str:
        return self.name if self.stride is None else f"{self.name}({self.stride})"

    def result(self, types: Sequence[ElementType], same: Same) -> Tile:
        """Result type for operand types; DTypeError, DimError when they do not fit."""
        assert self.infer is not None
        return self.infer(types, same)

    def flops(self, types: Sequence[Tile], result: Tile) -> Size:
        """FLOPs per invocation."""
        return 0 if self.cost is None else self.cost(types, result)


def _tiles(name: str, types: Sequence[ElementType]) -> list[Tile]:
    tiles = [t for t in types if isinstance(t, Tile)]
    if len(tiles) != len(types):
        raise DTypeError(f"{name} works on tiles, found {', '.join(str(t) for t in types)}")
    return tiles


def _numbers(name: str, types: Sequence[ElementType]) -> list[Tile]:
    tiles = _tiles(name, types)
    if any(not t.dtype.is_arithmetic for t in tiles):
        found = ", ".join(str(t) for t in types)
        known = ", ".join(d.text for d in DType if d.is_arithmetic)
        raise DTypeError(f"{name} works on tiles of {known}, found {found}")
    return tiles


def _matmul(types: Sequence[ElementType], same: Same, *, transposed: bool) -> Tile:
    a, b = _numbers("matmul", types)
    inner, out = (b.cols, b.rows) if transposed else (b.rows, b.cols)
    if a.dtype is not b.dtype and b.dtype.bits >= a.dtype.bits:
        raise DTypeError(
            "matmul multiplies tiles of one scalar type, or by a second operand of a narrower one "
            f"that is converted to the first's, found {a} and {b}"
        )
    same(a.cols, inner, f"inner sizes of {a} and {b}{' transposed' if transposed else ''}")
    return Tile(a.dtype, a.rows, out)


def _broadcast(types: Sequence[ElementType], same: Same, *, name: str) -> Tile:
    a, b = _numbers(name, types)
    sides = []
    for left, right, what in ((a.rows, b.rows, "rows"), (a.cols, b.cols, "columns")):
        if not (left.is_one() or right.is_one()):
            same(left, right, f"{what} of {a} and {b}")
        sides.append(right if left.is_one() else left)
    return Tile(a.dtype, sides[0], sides[1])


def _unary(types: Sequence[ElementType], same: Same, *, name: str, cols: int | None = None) -> Tile:
    (a,) = _numbers(name, types)
    return a if cols is None else Tile(a.dtype, a.rows, Dim(cols))


def _set_offset(types: Sequence[ElementType], same: Same) -> Tile:
    a, b = _tiles("set_offset", types)
    if not b.is_address:
        raise DTypeError(f"set_offset takes the number of valid rows as a 1x1 u64 tile, found {b}")
    return a


def _append(types: Sequence[ElementType], same: Same) -> Tile:
    a, b = _numbers("append_row", types)
    same(a.cols, b.cols, f"columns of {a} and {b}")
    if not b.rows.is_one():
        raise DimError(f"append_row appends one row, found {b}")
    return a


def _address(types: Sequence[ElementType], same: Same) -> Tile:
    for tile in _tiles("cache_write_address", types):
        if not tile.is_address:
            raise DTypeError(f"cache_write_address takes two 1x1 u64 tiles, found {tile}")
    return U64_TILE


def _measured(tiles: Sequence[Tile], sizes: Callable[..., Any], name: str) -> tuple[Size, ...]:
    """Rows, columns and cost of a result, as ``sizes`` states them."""
    sides = [side.expr for tile in tiles for side in (tile.rows, tile.cols)]
    try:
        rows, cols, cost = sizes(*sides)
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"sizes of {name} does not work for {', '.join(map(str, tiles))} ({error}); it takes "
            "rows and columns of every operand and returns three numbers. Where sizes are symbols "
            "it cannot compare them; give the function infer= and cost= too"
        ) from error
    return rows, cols, cost


def _sized(
    types: Sequence[ElementType], same: Same, *, sizes: Callable[..., Any], name: str
) -> Tile:
    tiles = _numbers(name, types)
    rows, cols, _ = _measured(tiles, sizes, name)
    known = [side for tile in tiles for side in (tile.rows, tile.cols)]
    found = []
    for expr in (rows, cols):
        if isinstance(expr, int) and expr < 0:
            raise DimError(f"{name} does not fit {', '.join(map(str, tiles))}")
        side = next((dim for dim in known if dim.expr == expr), None)
        if side is None and any(dim.is_ragged for dim in known):
            raise DimError(f"{name} changes a ragged side; give the function infer=")
        found.append(Dim(expr) if side is None else side)
    return Tile(tiles[0].dtype, *found)


def _sized_cost(types: Sequence[Tile], out: Tile, *, sizes: Callable[..., Any], name: str) -> Size:
    return _measured(types, sizes, name)[2]


def _matmul_cost(types: Sequence[Tile], out: Tile) -> Size:
    return product((2, types[0].rows.expr, types[0].cols.expr, out.cols.expr))


def _per_scalar(types: Sequence[Tile], out: Tile, *, weight: int) -> Size:
    return product((weight, out.rows.expr, out.cols.expr))


def _row_sum_cost(types: Sequence[Tile], out: Tile) -> Size:
    return product((types[0].rows.expr, types[0].cols.expr))


def _silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def _row_sum(x: Any) -> Any:
    return x.sum(axis=1, keepdims=True)


_ONE = partial(_per_scalar, weight=1)

matmul = Function(
    "matmul", 2, "Matmul", "Matmul", infer=partial(_matmul, transposed=False), cost=_matmul_cost
)
matmul_t = Function(
    "matmul_t", 2, "Matmul", "Matmul", transposed=True,
    infer=partial(_matmul, transposed=True), cost=_matmul_cost,
)  # fmt: skip
mul = Function(
    "mul", 2, "Mul", "Mul", infer=partial(_broadcast, name="mul"), cost=_ONE, kernel=np.multiply
)
add = Function(
    "add", 2, "Add", "Add", infer=partial(_broadcast, name="add"), cost=_ONE, kernel=np.add
)
div = Function("div", 2, "Div", infer=partial(_broadcast, name="div"), cost=_ONE, kernel=np.divide)
silu = Function(
    "silu", 1, "Silu", infer=partial(_unary, name="silu"), cost=partial(_per_scalar, weight=8),
    kernel=_silu,
)  # fmt: skip
exp = Function(
    "exp", 1, "Exp", infer=partial(_unary, name="exp"), cost=partial(_per_scalar, weight=4),
    kernel=np.exp,
)  # fmt: skip
row_sum = Function(
    "row_sum", 1, "RowWiseSum", infer=partial(_unary, name="row_sum", cols=1), cost=_row_sum_cost,
    kernel=_row_sum,
)  # fmt: skip
set_offset = Function("set_offset", 2, "SetOffset", constant_cycles=True, infer=_set_offset)
append_row = Function("append_row", 2, "RowWiseAppend", constant_cycles=True, infer=_append)
pack_rows = Function("pack_rows", 1, accum_unit="RetileRow", constant_cycles=True)
pack_cols = Function("pack_cols", 1, accum_unit="RetileCol", constant_cycles=True)
signal = Function("signal", 1, accum_unit="SignalReqAllRead", constant_cycles=True)


def cache_write_address(stride: int) -> Function:
    """Map of (index, length) to the tile index ``index * stride + length``."""
    if isinstance(stride, bool) or not isinstance(stride, int) or stride < 1:
        raise ArgError(f"cache_write_address: stride is an int >= 1, found {stride!r}")
    return Function(
        "cache_write_address", 2, "CacheWriteAddrGen", constant_cycles=True, stride=stride,
        infer=_address,
    )  # fmt: skip


def accum_result(
    fn: Function, stream: Stream, rank: int, init: Init | None, namer: Namer, same: Same
) -> tuple[Tile, Init]:
    """Accumulator type and initial state when ``fn`` reduces ``rank`` inner dims of ``stream``."""
    element = stream.type
    reduced = stream.shape[len(stream.shape) - rank :]
    if fn.accum_unit == "SignalReqAllRead":
        return U64_TILE, init or zero((1, 1), DType.u64)
    (tile,) = _numbers(fn.name, (element,))
    if fn.accum_unit in ("RetileRow", "RetileCol"):
        rows = fn.accum_unit == "RetileRow"
        kept = tile.cols if rows else tile.rows
        fixed = _start(kept, 0)
        shape = (0, fixed) if rows else (fixed, 0)
        init = init or empty(shape)
        if (init.rows, init.cols) != shape:
            raise DTypeError(f"{fn.name} starts from empty({shape}), found {init}")
        side = _packed(tile.rows if rows else tile.cols, stream, reduced, namer)
        out = Tile(tile.dtype, side, kept) if rows else Tile(tile.dtype, kept, side)
        return out, init
    if init is None:
        make = one if fn.accum_unit == "Mul" else zero
        init = make((_start(tile.rows, 1), _start(tile.cols, 1)))
    state = Tile(init.dtype or tile.dtype, Dim(init.rows), Dim(init.cols))
    out = fn.result((state, tile), same)
    for side, held in ((out.rows, state.rows), (out.cols, state.cols)):
        if side.is_static and side != held:
            raise DTypeError(
                f"the state {init} cannot hold the result {out}; start from "
                f"zero(({out.rows}, {out.cols}))"
            )
    return out, init


def map_accum_init(out: Tile, init: Init | None) -> Init:
    """Checked or default initial state of a map-accumulate whose products have type ``out``."""
    if init is None:
        if out.rows.is_static and out.cols.is_static:
            return zero((int(out.rows), int(out.cols)))
        if not out.cols.is_static:
            raise DTypeError(f"a dynamic accumulator {out} needs a static number of columns")
        return empty((0, int(out.cols)))
    if init.cols != out.cols or (init.kind == "zero" and init.rows != out.rows):
        raise DTypeError(f"the initial state {init} does not fit the accumulator {out}")
    return init


def _start(side: Dim, dynamic: int) -> int:
    """Side of an initial state: that of the tile, or one that adapts when it is not known."""
    return int(side) if side.is_static else dynamic


def _packed(side: Dim, stream: Stream, reduced: Sequence[Dim], namer: Namer) -> Dim:
    """Tile side after packing: int, symbol or a ragged tile dim (absorbing rule)."""
    if not (side.is_ragged or any(d.is_ragged for d in reduced)):
        return Dim(product((side.expr, *(d.expr for d in reduced))))
    kept = stream.shape[: len(stream.shape) - len(reduced)]
    total: Size | None = None
    if not side.is_ragged:
        total = product((side.expr, cardinality(stream.shape)))
    return namer.ragged("r", f"rows packed from {stream!r}", total=total, span=cardinality(kept))


def is_dynamic(tile: Any) -> bool:
    """A tile with a side that is not an int."""
    return isinstance(tile, Tile) and not tile.is_static
