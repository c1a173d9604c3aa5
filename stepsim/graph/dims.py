"""Dims: sizes of streams and tiles, their kinds, and the arithmetic that keeps them canonical.

A dim is static-regular (an int), dynamic-regular (one unknown constant) or ragged (one value per
outer position). Arithmetic follows the absorbing rule (STeP paper, section 3.1): an expression with
a ragged operand is discarded in favor of a new ragged symbol.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, SupportsIndex, TypeAlias, cast

import sympy

from stepsim.arguments import is_whole, shown
from stepsim.errors import ArgError, KindError
from stepsim.graph.limits import COUNT, SIZE
from stepsim.graph.sizes import Size, ceil_div, plain, product, text

__all__ = [
    "Dim",
    "DimLike",
    "Kind",
    "Namer",
    "cardinality",
    "flatten_dims",
    "format_dims",
    "total_over",
]


class Kind(enum.IntEnum):
    """Kinds in order of strictness: an operator that accepts one accepts every smaller one."""

    SR = 0
    DR = 1
    RG = 2


class Namer:
    """Hands out unique symbols of one program and remembers where each came from."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}
        self.provenance: dict[sympy.Symbol, str] = {}

    def symbol(self, base: str, provenance: str) -> sympy.Symbol:
        """A new non-negative integer symbol called ``base``, or ``base_2``, ... when taken."""
        count = self._used.get(base, 0) + 1
        self._used[base] = count
        name = base if count == 1 else f"{base}_{count}"
        if count > 1 and name in self._used:
            return self.symbol(name, provenance)
        self._used.setdefault(name, 1)
        symbol = sympy.Symbol(name, integer=True, nonnegative=True)
        self.provenance[symbol] = provenance
        return symbol

    def ragged(
        self,
        base: str,
        provenance: str,
        *,
        total: Size | None = None,
        bound: Size | None = None,
        static: bool = False,
        parts: Sequence[Dim] = (),
        span: Size | None = None,
    ) -> Dim:
        """A new ragged dim; ``total`` and ``bound`` become symbols of their own when not known."""
        own = self.symbol(base, provenance)
        if total is None:
            total = self.symbol(f"{own}_total", f"sum of all sizes of ~{own}: {provenance}")
        if bound is None:
            bound = self.symbol(f"{own}_max", f"largest size of ~{own}: {provenance}")
        return Dim(own, Kind.RG, total, bound, static, self, tuple(parts), span)


class Dim:
    """An immutable size: expression, kind and, for ragged dims, total and bound.

    Attributes
    ----------
    expr : int for static-regular dims, else a sympy expression; a ragged dim is its own symbol.
    kind : :class:`Kind`.
    total : sum of the sizes over all outer positions (ragged), else ``expr``.
    bound : largest size over all outer positions (ragged), else ``expr``.
    static : the sizes of a ragged dim are known before the run.
    parts : the dims this one was merged from, by input of an eager merge.
    span : number of stream elements that ``total`` sums over (ragged tile dims only).
    """

    __slots__ = ("_namer", "bound", "expr", "kind", "parts", "span", "static", "total")

    _namer: Namer | None
    expr: Size
    kind: Kind
    total: Size
    bound: Size
    static: bool
    parts: tuple[Dim, ...]
    span: Size | None

    def __init__(
        self,
        expr: Size,
        kind: Kind | None = None,
        total: Size | None = None,
        bound: Size | None = None,
        static: bool = False,
        namer: Namer | None = None,
        parts: tuple[Dim, ...] = (),
        span: Size | None = None,
    ) -> None:
        if type(expr) is not int:
            if not isinstance(expr, (int, sympy.Expr)) or isinstance(expr, bool):
                raise ArgError(f"a dim is an int or a sympy expression, not {shown(expr)}")
            expr = plain(expr)
        fixed = isinstance(expr, int)
        if isinstance(expr, int):
            if not 0 <= expr <= SIZE.high:
                raise ArgError(SIZE.refusal("a dim", expr))
        elif not _may_count(expr):
            raise ArgError(f"a dim cannot be {expr}: it is a whole number from 0")
        if kind is None:
            kind = Kind.SR if fixed else Kind.DR
        elif not isinstance(kind, Kind) or (kind is not Kind.DR and fixed is not (kind is Kind.SR)):
            raise ArgError(
                f"dim {expr}: kind must be "
                f"{'Kind.SR or Kind.DR, the size is known' if fixed else 'Kind.DR or Kind.RG'}, "
                f"found {shown(kind)}"
            )
        put = object.__setattr__
        put(self, "expr", expr)
        put(self, "kind", kind)
        put(self, "total", expr if total is None else plain(total))
        put(self, "bound", expr if bound is None else plain(bound))
        put(self, "static", static or kind is Kind.SR)
        put(self, "_namer", namer)
        put(self, "parts", parts)
        put(self, "span", span)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Dim is immutable; cannot set {name}")

    def __reduce__(self) -> tuple[type[Dim], tuple[object, ...]]:
        return Dim, (
            self.expr, self.kind, self.total, self.bound, self.static, self._namer, self.parts,
            self.span,
        )  # fmt: skip

    @classmethod
    def of(cls, value: DimLike) -> Dim:
        """A dim from a dim, an int or a sympy expression."""
        if isinstance(value, Dim):
            return value
        if is_whole(value):
            return cls(int(cast(SupportsIndex, value)))
        if not isinstance(value, sympy.Expr):
            raise ArgError(f"a dim is an int, a Dim or a sympy expression, not {shown(value)}")
        return cls(value)

    @property
    def is_static(self) -> bool:
        """True for a known int."""
        return self.kind is Kind.SR

    @property
    def is_ragged(self) -> bool:
        """Whether the size differs from one outer position to the next."""
        return self.kind is Kind.RG

    def is_one(self) -> bool:
        """Whether the size is the constant 1."""
        return bool(self.kind is Kind.SR and self.expr == 1)

    def __int__(self) -> int:
        if self.kind is not Kind.SR:
            raise KindError(
                f"dim {self} is {_KIND_TEXT[self.kind]}: it has no int value before a run"
            )
        return int(self.expr)

    __index__ = __int__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            return bool(self.expr == other.expr) and self.kind is other.kind
        if isinstance(other, (int, sympy.Expr)):
            return bool(self.expr == other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.expr)

    def __str__(self) -> str:
        return f"~{text(self.expr)}" if self.kind is Kind.RG else text(self.expr)

    def __repr__(self) -> str:
        return f"Dim({self}, {self.kind.name})"

    def __mul__(self, other: DimLike) -> Dim:
        return _combine(self, Dim.of(other), "mul")

    def __add__(self, other: DimLike) -> Dim:
        return _combine(self, Dim.of(other), "add")

    __rmul__ = __mul__
    __radd__ = __add__

    def repeated(self, times: Size | None, why: str) -> Dim:
        """The same sizes, each ``times`` times: a ragged dim's total grows, also in its parts.

        None: each its own number of times; the total is a new symbol, with the provenance ``why``.
        """
        if not self.is_ragged or times == 1:
            return self
        namer = _namer_of(self)
        total = (
            namer.symbol(f"{self.expr}_total", f"sum of all sizes of {self} in {why}")
            if times is None
            else product((self.total, times))
        )
        parts = tuple(part.repeated(times, why) for part in self.parts)
        return Dim(self.expr, self.kind, total, self.bound, self.static, namer, parts, self.span)

    def counted_anew(self, span: Size, why: str) -> Dim:
        """A ragged tile side in a stream of ``span`` elements with each size any number of times.

        The sum of its sizes is a new symbol, with the provenance ``why``.
        """
        if not self.is_ragged:
            return self
        namer = _namer_of(self)
        total = namer.symbol(f"{self.expr}_total", f"sum of all sizes of {self} in {why}")
        return Dim(self.expr, self.kind, total, self.bound, self.static, namer, (), span)

    def ceil_div(self, chunk: int) -> Dim:
        """``ceil(self / chunk)``; ragged dims get a new symbol whose total is unknown."""
        if not COUNT.holds(chunk):
            raise ArgError(
                f"cannot divide dim {self} by {shown(chunk)}: the divisor must be at least 1, an "
                "int"
            )
        if chunk == 1:
            return self
        if self.is_ragged:
            return _namer_of(self).ragged(
                f"{self.expr}_c{chunk}",
                f"ceil of {self} / {chunk}",
                bound=ceil_div(self.bound, chunk),
                static=self.static,
            )
        return Dim(ceil_div(self.expr, chunk))


@lru_cache(maxsize=1 << 14)
def _may_count(expr: Any) -> bool:
    """False for an expression that is known not to be a whole number from 0; sympy is slow."""
    return not (expr.is_Number or expr.is_integer is False or expr.is_negative)


DimLike: TypeAlias = Dim | Size | SupportsIndex
"""A Dim, an int (of numpy too) or a sympy expression."""

_KIND_TEXT = {
    Kind.SR: "static-regular",
    Kind.DR: "dynamic-regular",
    Kind.RG: "ragged",
}


def _namer_of(*dims: Dim) -> Namer:
    for dim in dims:
        if dim._namer is not None:
            return dim._namer
    raise KindError("a ragged dim that belongs to no program cannot enter arithmetic")


def _combine(a: Dim, b: Dim, op: str) -> Dim:
    if op == "mul":
        if a.is_one():
            return b
        if b.is_one():
            return a
        if a == 0 or b == 0:
            return Dim(0)
    if op == "add":
        if a == 0:
            return b
        if b == 0:
            return a
    if not (a.is_ragged or b.is_ragged):
        return Dim(product((a.expr, b.expr)) if op == "mul" else a.expr + b.expr)
    bound = product((a.bound, b.bound)) if op == "mul" else a.bound + b.bound
    total: Size | None = None
    if op == "mul" and not (a.is_ragged and b.is_ragged):
        total = product((a.total, b.total))
    elif op == "add" and a.is_ragged and b.is_ragged:
        total = a.total + b.total
    return _namer_of(a, b).ragged(
        "d", f"absorbed: {a} {'*' if op == 'mul' else '+'} {b}", total=total, bound=bound,
        static=a.static and b.static,
    )  # fmt: skip


def cardinality(shape: Sequence[Dim]) -> Size:
    """Number of elements of a stream: total of the innermost ragged dim times the dims below it."""
    for position in range(len(shape) - 1, -1, -1):
        if shape[position].is_ragged:
            below = (d.expr for d in shape[position + 1 :])
            return product((shape[position].total, *below))
    return product(d.expr for d in shape)


def total_over(side: Dim, count: Size) -> Size:
    """Sum of a tile side over ``count`` elements of a stream.

    A ragged side knows its sum over ``span`` elements; a stream with a multiple of them repeats
    each as often.
    """
    if not side.is_ragged:
        return product((side.expr, count))
    if side.span is None or side.span == count:
        return side.total
    if isinstance(side.span, int) or isinstance(count, int):
        return _quotient(side.total * count, side.span)
    (a, x), (b, y) = count.primitive(), side.span.primitive()
    return side.total * a / b if x == y else _quotient(side.total * count, side.span)


def _quotient(a: Size, b: Size) -> Size:
    """``a / b``, never a float; 0 where both are 0."""
    top, bottom = (sympy.sympify(a) / b).as_numer_denom()
    return plain(top / sympy.Max(1, bottom) if bottom.free_symbols else top / bottom)


def flatten_dims(dims: Sequence[Dim], *, outermost: bool, why: str) -> Dim:
    """The dim that replaces ``dims`` (outermost first). ``outermost``: nothing lies above them.

    With ragged operands the result is a new ragged dim whose total is exact, or, when it has no
    outer position left, the dynamic-regular total itself.
    """
    keep = [d for d in dims if not d.is_one()]
    if len(keep) == 1 and not (outermost and keep[0].is_ragged):
        return keep[0]
    if not any(d.is_ragged for d in dims):
        return Dim(product(d.expr for d in dims))
    total = cardinality(dims)
    if outermost:
        return Dim(total, Kind.DR)
    return _namer_of(*dims).ragged(
        "d", why, total=total, bound=math.prod(d.bound for d in dims),
        static=all(d.static for d in dims),
    )  # fmt: skip


def format_dims(dims: Sequence[Dim]) -> str:
    """``[n0, ~len, 4]``."""
    return "[" + ", ".join(str(d) for d in dims) + "]"
