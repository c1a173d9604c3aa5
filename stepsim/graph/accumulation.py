"""Accumulations: states before the first element, and types of states and results.

Users reach :func:`zero`, :func:`one`, :func:`full`, :func:`neg_infinity` and :func:`empty` as
``st.fn``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from stepsim.arguments import counted, is_number, scalar, shown
from stepsim.errors import ArgError, DTypeError
from stepsim.frozen import frozen
from stepsim.graph.functions.function import Function
from stepsim.graph.functions.inference import Setting, evaluated, result_types, state_of
from stepsim.graph.sizes.dims import Dim, Namer, fixed
from stepsim.graph.sizes.limits import SIDE
from stepsim.graph.sizes.shapes import cardinality
from stepsim.graph.sizes.sizes import Size, product
from stepsim.graph.types import DType, Tile, dtype_of

if TYPE_CHECKING:
    from stepsim.graph.stream import Stream

_KINDS = {"zero": 0.0, "one": 1.0, "empty": 0.0, "neg_infinity": -math.inf}


@frozen
class Init:
    """The state before the first element, filled with ``value``.

    ``kind`` is ``zero``, ``one``, ``full``, ``neg_infinity`` or ``empty``; a state without rows or
    columns takes its size from the first element.
    """

    kind: str
    rows: int
    cols: int
    dtype: DType | None = None
    value: float | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        if not isinstance(self.kind, str) or self.kind not in (*_KINDS, "full"):
            known = ", ".join(_KINDS)
            raise ArgError(f"Init: kind must be one of {known}, full, found {shown(self.kind)}")
        for name in ("rows", "cols"):
            put(self, name, SIDE.checked(f"Init: {name}", getattr(self, name)))
        if self.dtype is not None and not isinstance(self.dtype, DType):
            raise DTypeError(f"Init: dtype must be a DType or None, found {shown(self.dtype)}")
        if self.kind != "full":
            if self.value is not None and not (
                is_number(self.value) and self.value == _KINDS[self.kind]
            ):
                raise ArgError(
                    f"Init: value goes with full, not with {self.kind}, found {shown(self.value)}"
                )
            put(self, "value", _KINDS[self.kind])
        else:
            put(self, "value", scalar("Init: value", self.value))

    @property
    def is_empty(self) -> bool:
        """Without rows or columns."""
        return self.rows == 0 or self.cols == 0

    def __str__(self) -> str:
        value = f", {self.value}" if self.kind == "full" else ""
        return f"{self.kind}({self.rows}x{self.cols}{value})"


Inits = Init | Sequence[Init]
"""A state, or one for each result of a function."""


def _state(kind: str, shape: object, dtype: DType | str | None, value: float | None = None) -> Init:
    rows, cols = SIDE.pair(f"{kind}: shape", shape)
    return Init(kind, rows, cols, None if dtype is None else dtype_of(dtype), value)


def zero(shape: tuple[int, int], dtype: DType | str | None = None) -> Init:
    """An initial state of zeros, for sums.

    Shape
    -----
    ``Tile[shape]`` of ``dtype``.

    Parameters
    ----------
    shape : rows and columns.
    dtype : scalar type; by default that of the state.

    Raises
    ------
    ArgError : ``shape`` is not a pair of sizes.

    Example
    -------
    >>> with st.Program("reduce", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[2, 4, 3]], "f4"), tile=(1, 1))
    ...     y = x.accum(st.fn.add, rank=1, init=st.fn.zero((1, 1)))
    ...     out = st.linear_store(y, "out")
    >>> print(run_functional(program).stored["out"])
    [[9.]]
    """
    return _state("zero", shape, dtype)


def one(shape: tuple[int, int], dtype: DType | str | None = None) -> Init:
    """An initial state of ones, for products.

    Shape
    -----
    ``Tile[shape]`` of ``dtype``.

    Parameters
    ----------
    shape : rows and columns.
    dtype : scalar type; by default that of the state.

    Raises
    ------
    ArgError : ``shape`` is not a pair of sizes.

    Example
    -------
    >>> with st.Program("reduce", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[2, 4, 3]], "f4"), tile=(1, 1))
    ...     y = x.accum(st.fn.mul, rank=1, init=st.fn.one((1, 1)))
    ...     out = st.linear_store(y, "out")
    >>> print(run_functional(program).stored["out"])
    [[24.]]
    """
    return _state("one", shape, dtype)


def full(shape: tuple[int, int], value: float, dtype: DType | str | None = None) -> Init:
    """An initial state filled with one number.

    Shape
    -----
    ``Tile[shape]`` of ``dtype``.

    Parameters
    ----------
    shape : rows and columns.
    value : the number.
    dtype : scalar type; by default that of the state.

    Raises
    ------
    ArgError : ``shape`` is not a pair of sizes, or ``value`` is not a number.

    Example
    -------
    >>> with st.Program("reduce", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[2, 4, 3]], "f4"), tile=(1, 1))
    ...     y = x.accum(st.fn.add, rank=1, init=st.fn.full((1, 1), 100))
    ...     out = st.linear_store(y, "out")
    >>> print(run_functional(program).stored["out"])
    [[109.]]
    """
    return _state("full", shape, dtype, scalar("full: value", value))


def neg_infinity(shape: tuple[int, int], dtype: DType | str | None = None) -> Init:
    """An initial state of minus infinities, for maxima.

    Shape
    -----
    ``Tile[shape]`` of ``dtype``.

    Parameters
    ----------
    shape : rows and columns.
    dtype : scalar type; by default that of the state.

    Raises
    ------
    ArgError : ``shape`` is not a pair of sizes.

    Example
    -------
    >>> with st.Program("reduce", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[2, 4, 3]], "f4"), tile=(1, 1))
    ...     y = x.accum(st.fn.max, rank=1, init=st.fn.neg_infinity((1, 1)))
    ...     out = st.linear_store(y, "out")
    >>> print(run_functional(program).stored["out"])
    [[4.]]
    """
    return _state("neg_infinity", shape, dtype)


def empty(shape: tuple[int, int], dtype: DType | str | None = None) -> Init:
    """An initial state without rows or columns, which takes its size from the first element.

    Shape
    -----
    ``Tile[shape]`` of ``dtype``.

    Parameters
    ----------
    shape : rows and columns.
    dtype : scalar type; by default that of the state.

    Raises
    ------
    ArgError : ``shape`` is not a pair of sizes of which one is 0.

    Example
    -------
    >>> with st.Program("reduce", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[2, 4, 3]], "f4"), tile=(1, 1))
    ...     y = x.accum(st.fn.pack_rows, rank=1, init=st.fn.empty((0, 1)))
    ...     out = st.linear_store(y, "out")
    >>> print(run_functional(program).stored["out"].ravel())
    [2. 4. 3.]
    """
    made = _state("empty", shape, dtype)
    if made.rows and made.cols:
        raise ArgError(
            f"empty: one side must be 0, found {made.rows}x{made.cols}. Use zero() instead"
        )
    return made


def inits_of(fn: Function, init: object, start_known: bool) -> tuple[Init, ...] | None:
    """The initial states given by a user, one for each result; ArgError for anything else.

    ``start_known`` says whether None means the default of the function. User functions
    have no known default: zeros would be wrong for a maximum or a product.
    """
    if init is None:
        if not start_known:
            raise ArgError(_no_start(fn))
        return None
    given = tuple(init) if isinstance(init, list | tuple) else (init,)
    for one_init in given:
        if not isinstance(one_init, Init):
            raise ArgError(
                "init must be a state of st.fn.zero, one, full, neg_infinity or empty, or a tuple "
                f"of them, found {shown(init)}"
            )
    if len(given) != fn.shape.states:
        raise ArgError(
            f"init has {counted(len(given), 'state')}, '{fn}' has "
            f"{fn.shape.states}: {fn.shape.text}"
        )
    return given


def _no_start(fn: Function) -> str:
    count = fn.shape.states
    if count > 1:
        need = f"'{fn}' has its own states: pass init=(...), one for each of {count} states"
    else:
        need = f"'{fn}' has no default initial state: pass init="
    return f"{need}, such as st.fn.zero((rows, cols))"


def accum_result(
    fn: Function,
    elements: Sequence[Tile],
    stream: Stream,
    rank: int,
    given: tuple[Init, ...] | None,
    setting: Setting,
) -> tuple[tuple[Tile, ...], tuple[Init, ...]]:
    """Types of the results and the initial states when ``fn`` reduces ``rank`` inner dims."""
    if fn.packs is not None:
        out, start = _packing(fn, elements[0], stream, rank, given, setting.namer)
        return (out,), (start,)
    inits, states = [], []
    for i in range(fn.shape.states):
        own = None if given is None else given[i]
        init, state = _start(fn, i, elements, own, setting)
        inits.append(init)
        states.append(state)
    outs = result_types(fn, (*states, *elements), setting)
    for out, state, init in zip(outs, states, inits, strict=True):
        if out.is_address and init.value != 0:
            raise ArgError(
                f"'{fn}' counts from 0, so it cannot start from {init}; add the number to the "
                "results with st.fn.add_const"
            )
        for side, held in ((out.rows, state.rows), (out.cols, state.cols)):
            if side.is_static and side != held and not init.is_empty:
                raise DTypeError(
                    f"the state {init} cannot hold the result {out}; start from "
                    f"zero(({out.rows}, {out.cols}))"
                )
        if init.dtype is not None and init.dtype is not out.dtype:
            raise DTypeError(
                f"the state is {init.dtype}, the products are {out}; leave out the dtype of init "
                "(sums are kept in f32 and rounded once), or cast the elements"
            )
    return outs, tuple(inits)


def _start(
    fn: Function, i: int, elements: Sequence[Tile], init: Init | None, setting: Setting
) -> tuple[Init, Tile]:
    """State ``i``, given or by default, and its type."""
    states = fn.shape.states
    dtype = fn.dtypes[i]
    if not isinstance(dtype, DType):
        dtype = elements[dtype - states].dtype if dtype >= states else _own(fn, i, elements)
        if init is not None and init.dtype is not None and fn.dtypes[i] == i:
            dtype = init.dtype
    if fn.shape.broadcast:
        # A state of one row or column is the operand that is broadcast.
        first = elements[0]
        if len(elements) > 1:
            one = Tile(first.dtype, Dim(1), Dim(1))
            (first,) = result_types(fn, (one, *elements), setting)
        wanted = [first.rows, first.cols]
        adapts, least = True, 1
    else:
        found = [evaluated(fn, side, elements, setting) for side in fn.shape.operands[i]]
        adapts, least = None not in found, 0
        wanted = [side or Dim(0) for side in found]
    if init is None:
        sides = [int(side) if side.is_static else least for side in wanted]
        init = _default(fn, sides, not all(sides))
    if init.is_empty and not adapts:
        raise DTypeError(
            f"the state {init} cannot take its sides from an element of {fn.shape.text}; start "
            "from zero() of a size"
        )
    if init.is_empty:
        held = [Dim(1), Dim(1)] if fn.shape.broadcast else wanted
        for side, number in zip(wanted, (init.rows, init.cols), strict=True):
            if number and side.is_static and side != number:
                raise DTypeError(
                    f"the initial state {init} does not fit: {state_of(fn, i)} of '{fn}' is "
                    f"{Tile(dtype, *wanted)}"
                )
    else:
        held = [fixed(init.rows), fixed(init.cols)]
        if adapts and not fn.shape.broadcast:
            for side, own in zip(wanted, held, strict=True):
                if side != own:
                    raise DTypeError(
                        f"the initial state {init} does not fit: {state_of(fn, i)} of '{fn}' is "
                        f"{Tile(dtype, *wanted)}"
                    )
    return init, Tile(dtype, *held)


def _own(fn: Function, i: int, elements: Sequence[Tile]) -> DType:
    """The default scalar type of a state: the first type of the elements that it can have."""
    if fn.kinds[i] != "number":
        return elements[0].dtype
    return next((tile.dtype for tile in elements if tile.dtype.is_arithmetic), DType.f32)


def _default(fn: Function, sides: list[int], is_empty: bool) -> Init:
    return _usual(fn.start, *sides, is_empty)


@lru_cache(maxsize=1024)
def _usual(start: float, rows: int, cols: int, is_empty: bool) -> Init:
    if is_empty:
        return Init("empty", rows, cols)
    for kind, value in _KINDS.items():
        if value == start and kind != "empty":
            return Init(kind, rows, cols)
    return Init("full", rows, cols, None, start)


def _packing(
    fn: Function,
    tile: Tile,
    stream: Stream,
    rank: int,
    given: tuple[Init, ...] | None,
    namer: Namer,
) -> tuple[Tile, Init]:
    rows = fn.packs == "rows"
    reduced = stream.shape[len(stream.shape) - rank :]
    kept = tile.cols if rows else tile.rows
    fixed = int(kept) if kept.is_static else 0
    shape = (0, fixed) if rows else (fixed, 0)
    init = empty(shape) if given is None else given[0]
    if init.kind != "empty" or (init.rows, init.cols) != shape:
        raise DTypeError(f"'{fn}' starts from empty({shape}), found {init}")
    if init.dtype is not None and init.dtype is not tile.dtype:
        raise DTypeError(
            f"'{fn}' packs tiles of {tile.dtype}, found init of {init.dtype}; leave out the dtype "
            "of init, or cast the elements"
        )
    side = _packed(tile.rows if rows else tile.cols, stream, reduced, namer)
    return Tile(tile.dtype, side, kept) if rows else Tile(tile.dtype, kept, side), init


def _packed(side: Dim, stream: Stream, reduced: Sequence[Dim], namer: Namer) -> Dim:
    """Tile side after packing: int, symbol or a ragged tile dim (absorbing rule)."""
    if not (side.is_ragged or any(d.is_ragged for d in reduced)):
        return Dim(product((side.size, *(d.size for d in reduced))))
    kept = stream.shape[: len(stream.shape) - len(reduced)]
    total: Size | None = None
    bound: Size | None = None
    if not side.is_ragged:
        total = product((side.size, cardinality(stream.shape)))
        if len(reduced) == 1:
            bound = product((side.size, reduced[0].most))
    return namer.ragged(
        "r", f"rows packed from {stream!r}", total=total, bound=bound, span=cardinality(kept)
    )
