"""Functions that higher-order operators apply to tiles: their units and what these allow.

Users reach them as ``st.fn``. FLOP counts are those of the STeP simulator: padded rows count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import sympy

from stepsim.arguments import flag, is_whole, label_of, shown, text_of
from stepsim.errors import ArgError, DimError, DTypeError, StepError, did_you_mean
from stepsim.graph.dims import Dim
from stepsim.graph.function_rules import (
    Same,
    address_type,
    append_type,
    broadcast_type,
    matmul_cost,
    matmul_type,
    numbers_of,
    row_sum_cost,
    scalar_cost,
    set_offset_type,
    unary_type,
)
from stepsim.graph.limits import RESERVED
from stepsim.graph.sizes import Size, plain
from stepsim.graph.types import ElementType, Tile

__all__ = [
    "Function",
    "add",
    "append_row",
    "cache_write_address",
    "div",
    "exp",
    "matmul",
    "matmul_t",
    "mul",
    "pack_cols",
    "pack_rows",
    "row_sum",
    "set_offset",
    "signal",
    "silu",
]

_MAP_UNITS: dict[str, Function] = {}
_ACCUM_UNITS: dict[str, Function] = {}
"""The function that stands for each unit of the engine, by the spelling of the unit."""


@dataclass(frozen=True)
class Function:
    """A named rule for tiles.

    A function is timed as a unit of the engine (``map_unit``, ``accum_unit``), or as its own
    ``sizes`` say. Of a unit it has operands, type rule, FLOPs and cycles, so that symbolic and
    executed numbers are the same; only values may differ (``kernel``).

    Attributes
    ----------
    map_unit, accum_unit : unit spelling in a map and as an accumulation; None = not usable there.
        Both name one unit.
    arity : operands in a map, 1 or 2.
    transposed : the second operand of a matmul is transposed.
    constant_cycles : the cycle count ignores the compute bandwidth.
    stride : tiles from one index to the next, of functions of addresses.
    sizes : rows and columns of the operands to rows, columns and FLOPs (with ``constant_cycles``:
        cycles) of the result, negative when they do not fit. From it come the type rule, the cost
        and, for a function that a package offers under the entry points ``stepsim.functions``, the
        engine's kernel; numba compiles it, so it works on integers alone. Such a function has a
        name of its own and states neither ``infer`` nor ``cost``.
    infer, cost : type rule and FLOPs of the unit, which need not be given; no others are taken.
    kernel : arrays of the operands to the array of the result (of state and element to the new
        state, in an accumulation), for functional runs. Matmuls, packs and functions of addresses
        need none.

    Raises
    ------
    ArgError : neither unit nor ``sizes`` is given, there is no such unit, or an argument
        contradicts the unit or the ``sizes``.
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
        where = f"Function {shown(self.name)}"
        text_of(f"{where}: name", self.name)
        if not isinstance(self.arity, int) or self.arity is True or self.arity not in (1, 2):
            raise ArgError(f"{where}: arity must be 1 or 2, found {shown(self.arity)}")
        for field_name in ("sizes", "infer", "cost", "kernel"):
            given = getattr(self, field_name)
            if given is not None and not callable(given):
                raise ArgError(
                    f"{where}: {field_name} must be a function or None, found {shown(given)}"
                )
        for field_name in ("transposed", "constant_cycles"):
            flag(f"{where}: {field_name}", getattr(self, field_name))
        if self.stride is not None:
            RESERVED.checked(f"{where}: stride", self.stride)
        for field_name in ("map_unit", "accum_unit"):
            label_of(f"{where}: {field_name}", getattr(self, field_name))
        if self.sizes is not None:
            self._check_sized()
        elif self.map_unit is None and self.accum_unit is None:
            raise ArgError(
                f"{where}: it has no unit; give map_unit= or accum_unit=, or sizes= for a function "
                "of your own"
            )
        else:
            for place, units in (("map_unit", _MAP_UNITS), ("accum_unit", _ACCUM_UNITS)):
                self._timed_as(place, units)

    def _check_sized(self) -> None:
        """Refuse what a function that states its sizes would ignore."""
        where = f"Function {self.name!r}"
        if self.map_unit is None:
            object.__setattr__(self, "map_unit", self.name)
        for name in (self.name, self.map_unit):
            if name in _MAP_UNITS or name in _ACCUM_UNITS or name == "DynMatmul":
                raise ArgError(
                    f"{where}: '{name}' is a unit of the engine, which would run in place of "
                    "sizes=; choose another name, or leave sizes= out"
                )
        for name in ("accum_unit", "transposed", "stride", "infer", "cost"):
            if getattr(self, name) not in (None, False):
                raise ArgError(
                    f"{where}: {name}= has no effect on a function that states its sizes=; leave "
                    "it out"
                )

    def _timed_as(self, place: str, units: Mapping[str, Function]) -> None:
        """Check the function against the unit that it names, and take from it what is not given."""
        unit = getattr(self, place)
        if unit is None or not units:
            return
        where = f"Function {self.name!r}"
        if unit not in units:
            raise ArgError(
                f"{where}: {place} is {unit!r}, expected one of {', '.join(units)}"
                f"{did_you_mean(str(unit), units)} A function of another kind states its sizes="
            )
        own = units[unit]
        if None not in (self.map_unit, self.accum_unit) and self.map_unit != self.accum_unit:
            raise ArgError(
                f"{where}: map_unit {self.map_unit!r} and accum_unit {self.accum_unit!r} are two "
                "units; make one function for each"
            )
        if self.cost is not None and self.cost is not own.cost:
            raise ArgError(
                f"{where}: cost= does not reach the engine, which charges the FLOPs of unit "
                f"'{unit}'; symbolic and executed FLOPs would differ. Leave cost= out, or give "
                "sizes= instead of a unit, in a package that offers the function under the entry "
                "points 'stepsim.functions'"
            )
        if self.arity != own.arity:
            raise ArgError(
                f"{where}: arity is {self.arity}, but unit '{unit}' takes {own.arity} operands"
            )
        for name, usable in (
            ("transposed", unit == "Matmul"),
            ("constant_cycles", own.constant_cycles),
            ("stride", own.stride is not None),
            ("infer", own.infer is not None),
            ("kernel", own.kernel is not None or unit == "Matmul"),
        ):
            if getattr(self, name) and not usable:
                raise ArgError(f"{where}: {name}= has no effect on unit '{unit}'; leave it out")
        put = object.__setattr__
        put(self, "constant_cycles", own.constant_cycles)
        put(self, "cost", own.cost)
        if own.stride is not None and self.stride is None:
            raise ArgError(f"{where}: unit '{unit}' needs a stride")
        if self.infer is None and own.infer is not None:
            rule = matmul_t.infer if self.transposed else own.infer
            put(self, "infer", rule)

    def __str__(self) -> str:
        return self.name if self.stride is None else f"{self.name}({self.stride})"

    def result(self, types: Sequence[ElementType], same: Same) -> Tile:
        """Result type for operand types; DTypeError, DimError when they do not fit."""
        if self.sizes is not None:
            return _sized(types, sizes=self.sizes, name=self.name)
        unit = self.map_unit or self.accum_unit or ""
        own = matmul_t if self.transposed else _MAP_UNITS.get(unit) or _ACCUM_UNITS[unit]
        assert self.infer is not None
        assert own.infer is not None
        if self.infer == own.infer:
            return own.infer(types, same)
        made = own.infer(types, same)
        try:
            found = self.infer(types, same)
        except StepError:
            raise
        except Exception as error:
            raise DTypeError(
                f"infer= of {self.name} raised {type(error).__name__} ({error}); leave infer= out"
            ) from error
        if not isinstance(found, Tile) or found != made:
            raise DTypeError(
                f"infer= of {self.name} returns {shown(found)}, but unit '{unit}' makes {made}; "
                "leave infer= out"
            )
        return found

    def flops(self, types: Sequence[Tile], result: Tile) -> Size:
        """FLOPs per invocation."""
        if self.sizes is not None:
            each = _measured(types, self.sizes, self.name)[2]
            return 0 if self.constant_cycles else each
        return 0 if self.cost is None else self.cost(types, result)


def _measured(tiles: Sequence[Tile], sizes: Callable[..., Any], name: str) -> list[Size]:
    """Rows, columns and cost of a result, as ``sizes`` states them."""
    sides = [side.expr for tile in tiles for side in (tile.rows, tile.cols)]
    try:
        rows, cols, cost = sizes(*sides)
    except Exception as error:
        raise DTypeError(
            f"sizes of {name} does not work for {', '.join(map(str, tiles))} "
            f"({type(error).__name__}: {error}); it takes rows and columns of every operand and "
            "returns three numbers. Sides may be symbols, of which it can ask == but not < or >"
        ) from error
    found: list[Size] = []
    for what, size in (("rows", rows), ("columns", cols), ("cost", cost)):
        if not (is_whole(size) or isinstance(size, sympy.Expr)):
            raise DTypeError(
                f"sizes of {name} returns {shown(size)} as {what} for "
                f"{', '.join(map(str, tiles))}, expected an int"
            )
        found.append(int(size) if is_whole(size) else plain(size))
    if any(isinstance(size, int) and size < 0 for size in found):
        raise DimError(f"{name} does not fit {', '.join(map(str, tiles))}")
    return found


def _sized(types: Sequence[ElementType], *, sizes: Callable[..., Any], name: str) -> Tile:
    tiles = numbers_of(name, types)
    known = [side for tile in tiles for side in (tile.rows, tile.cols)]
    found = []
    for expr in _measured(tiles, sizes, name)[:2]:
        side = next((dim for dim in known if dim.expr == expr), None)
        if side is None and any(dim.is_ragged for dim in known):
            raise DimError(
                f"{name} changes a ragged side of {', '.join(map(str, tiles))}; sizes= can only "
                "keep it"
            )
        found.append(Dim(expr) if side is None else side)
    return Tile(tiles[0].dtype, *found)


def _silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def _row_sum(x: Any) -> Any:
    return x.sum(axis=1, keepdims=True)


_ONE = partial(scalar_cost, weight=1)

matmul = Function(
    "matmul", 2, "Matmul", "Matmul", infer=partial(matmul_type, transposed=False), cost=matmul_cost
)
matmul_t = Function(
    "matmul_t", 2, "Matmul", "Matmul", transposed=True,
    infer=partial(matmul_type, transposed=True), cost=matmul_cost,
)  # fmt: skip
mul = Function(
    "mul", 2, "Mul", "Mul", infer=partial(broadcast_type, name="mul"), cost=_ONE, kernel=np.multiply
)
add = Function(
    "add", 2, "Add", "Add", infer=partial(broadcast_type, name="add"), cost=_ONE, kernel=np.add
)
div = Function(
    "div", 2, "Div", infer=partial(broadcast_type, name="div"), cost=_ONE, kernel=np.divide
)
silu = Function(
    "silu", 1, "Silu", infer=partial(unary_type, name="silu"), cost=partial(scalar_cost, weight=8),
    kernel=_silu,
)  # fmt: skip
exp = Function(
    "exp", 1, "Exp", infer=partial(unary_type, name="exp"), cost=partial(scalar_cost, weight=4),
    kernel=np.exp,
)  # fmt: skip
row_sum = Function(
    "row_sum", 1, "RowWiseSum", infer=partial(unary_type, name="row_sum", cols=1),
    cost=row_sum_cost, kernel=_row_sum,
)  # fmt: skip
set_offset = Function("set_offset", 2, "SetOffset", constant_cycles=True, infer=set_offset_type)
append_row = Function("append_row", 2, "RowWiseAppend", constant_cycles=True, infer=append_type)
pack_rows = Function("pack_rows", 1, accum_unit="RetileRow", constant_cycles=True)
pack_cols = Function("pack_cols", 1, accum_unit="RetileCol", constant_cycles=True)
signal = Function("signal", 1, accum_unit="SignalReqAllRead", constant_cycles=True)


def cache_write_address(stride: int) -> Function:
    """Map of (index, length) to the index of the last tile of a request.

    Request ``index`` has ``stride`` tiles reserved, of which it uses ``length`` (at least 1): the
    tile is ``index * stride + length - 1``, the last that :func:`cache_read_addresses` reads.

    Raises
    ------
    ArgError : ``stride`` is no int from 1.
    """
    return Function(
        "cache_write_address", 2, "CacheWriteAddrGen", constant_cycles=True,
        stride=RESERVED.checked("cache_write_address: stride", stride), infer=address_type,
    )  # fmt: skip


_STANDARD = (
    matmul, mul, add, div, silu, exp, row_sum, set_offset, append_row, cache_write_address(1),
    pack_rows, pack_cols, signal,
)  # fmt: skip
_MAP_UNITS.update({f.map_unit: f for f in _STANDARD if f.map_unit is not None})
_ACCUM_UNITS.update({f.accum_unit: f for f in _STANDARD if f.accum_unit is not None})
