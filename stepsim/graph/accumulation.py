"""Accumulations: states before the first element, and types of states and results.

Users reach :func:`zero`, :func:`one` and :func:`empty` as ``st.fn``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepsim.arguments import shown
from stepsim.errors import ArgError, DTypeError
from stepsim.graph.dims import Dim, Namer, cardinality
from stepsim.graph.function_rules import U64_TILE, Same, numbers_of
from stepsim.graph.limits import SIDE
from stepsim.graph.sizes import Size, product
from stepsim.graph.types import DType, Tile, dtype_of

if TYPE_CHECKING:
    from stepsim.graph.functions import Function
    from stepsim.graph.stream import Stream

__all__ = ["Init", "accum_result", "empty", "is_dynamic", "map_accum_init", "one", "zero"]


@dataclass(frozen=True, slots=True)
class Init:
    """The state before the first element: ``kind`` is ``zero``, ``one`` or ``empty``."""

    kind: str
    rows: int
    cols: int
    dtype: DType | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in ("zero", "one", "empty"):
            raise ArgError(f"Init: kind must be zero, one or empty, found {shown(self.kind)}")
        for name in ("rows", "cols"):
            object.__setattr__(self, name, SIDE.checked(f"Init: {name}", getattr(self, name)))
        if self.dtype is not None and not isinstance(self.dtype, DType):
            raise DTypeError(f"Init: dtype must be a DType or None, found {shown(self.dtype)}")

    def __str__(self) -> str:
        return f"{self.kind}({self.rows}x{self.cols})"


def _state(kind: str, shape: object, dtype: DType | str | None) -> Init:
    rows, cols = SIDE.pair(f"{kind}: shape", shape)
    return Init(kind, rows, cols, None if dtype is None else dtype_of(dtype))


def zero(shape: tuple[int, int], dtype: DType | str | None = None) -> Init:
    """A tile of zeros; ArgError when ``shape`` is not rows and columns."""
    return _state("zero", shape, dtype)


def one(shape: tuple[int, int], dtype: DType | str | None = None) -> Init:
    """A tile of ones; ArgError when ``shape`` is not rows and columns."""
    return _state("one", shape, dtype)


def empty(shape: tuple[int, int], dtype: DType | str | None = None) -> Init:
    """A tile without rows or without columns; the first element fills it."""
    made = _state("empty", shape, dtype)
    if made.rows and made.cols:
        raise ArgError(
            f"empty: one side must be 0, found {made.rows}x{made.cols}. Use zero() instead"
        )
    return made


def accum_result(
    fn: Function, stream: Stream, rank: int, init: Init | None, namer: Namer, same: Same
) -> tuple[Tile, Init]:
    """Accumulator type and initial state when ``fn`` reduces ``rank`` inner dims of ``stream``."""
    element = stream.type
    reduced = stream.shape[len(stream.shape) - rank :]
    if fn.accum_unit == "SignalReqAllRead":
        return U64_TILE, init or zero((1, 1), DType.u64)
    (tile,) = numbers_of(fn.name, (element,))
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
