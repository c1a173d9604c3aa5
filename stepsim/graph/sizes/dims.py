"""Dims: sizes of streams and tiles, their kinds, and the arithmetic that keeps them canonical.

A dim is static-regular (an int), dynamic-regular (one unknown constant) or ragged (one value per
outer position). Arithmetic follows the absorbing rule (STeP paper, section 3.1): an expression with
a ragged operand is discarded in favor of a new ragged symbol.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, SupportsIndex, TypeAlias, cast

from stepsim.arguments import is_whole, shown
from stepsim.errors import ArgError, KindError
from stepsim.graph.sizes.atoms import Symbol
from stepsim.graph.sizes.formula import Formula, is_expression, multiplied
from stepsim.graph.sizes.limits import COUNT, SIZE
from stepsim.graph.sizes.sizes import (
    Expression,
    Size,
    at_least_one,
    ceil_div,
    divided,
    expression,
    fraction,
    may_count,
    plain,
    primitive,
    product,
    text,
)

if TYPE_CHECKING:
    import sympy


class Kind(enum.IntEnum):
    """Kinds in order of strictness: an operator that accepts one accepts every smaller one."""

    SR = 0
    DR = 1
    RG = 2


NamerState = tuple[dict[str, int], dict[Size, str]]
"""Names in use, and the origin of each symbol."""


class Namer:
    """Creates unique symbols of one program and remembers the origin of each."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}
        self.provenance: dict[Size, str] = {}

    def copy(self) -> Namer:
        """A copy that knows the same names, and from then on creates its own."""
        made = Namer()
        made.restore(self.state())
        return made

    def state(self) -> NamerState:
        """The current state, for :meth:`restore`."""
        return dict(self._used), dict(self.provenance)

    def restore(self, state: NamerState) -> None:
        """Forget symbols created since."""
        self._used, self.provenance = dict(state[0]), dict(state[1])

    def symbol(self, base: str, provenance: str) -> Symbol:
        """A new non-negative integer symbol called ``base``, or ``base_2``, ... if taken."""
        count = self._used.get(base, 0) + 1
        self._used[base] = count
        name = base if count == 1 else f"{base}_{count}"
        if count > 1 and name in self._used:
            return self.symbol(name, provenance)
        self._used.setdefault(name, 1)
        symbol = Symbol(name)
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
        """A new ragged dim; ``total`` and ``bound`` become new symbols if not known."""
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
    expr : int for static-regular dims, otherwise a sympy expression; a ragged dim is its own
        symbol.
    kind : :class:`Kind`.
    total : sum of the sizes over all outer positions (ragged), otherwise ``expr``.
    bound : largest size over all outer positions (ragged), otherwise ``expr``.
    static : whether the sizes of a ragged dim are known before the run.
    parts : the dims this one was merged from, by input of an eager merge.
    span : number of stream elements that ``total`` sums over (ragged tile dims only).
    size, sum, most, over : ``expr``, ``total``, ``bound`` and ``span`` as formulas, which are
        used internally.
    """

    __slots__ = ("_namer", "kind", "most", "over", "parts", "size", "static", "sum")

    _namer: Namer | None
    size: Size
    kind: Kind
    sum: Size
    most: Size
    static: bool
    parts: tuple[Dim, ...]
    over: Size | None

    def __init__(
        self,
        expr: Size | sympy.Expr,
        kind: Kind | None = None,
        total: Size | sympy.Expr | None = None,
        bound: Size | sympy.Expr | None = None,
        static: bool = False,
        namer: Namer | None = None,
        parts: tuple[Dim, ...] = (),
        span: Size | sympy.Expr | None = None,
    ) -> None:
        if type(expr) is int:
            size: Size = expr
        elif isinstance(expr, Formula | int) and not isinstance(expr, bool):
            size = expr
        elif is_expression(expr):
            size = plain(expr)
        else:
            raise ArgError(f"a dim is an int or a sympy expression, not {shown(expr)}")
        fixed = isinstance(size, int)
        if isinstance(size, int):
            if not 0 <= size <= SIZE.high:
                raise ArgError(SIZE.refusal("a dim", size))
        elif not may_count(size):
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
        put(self, "size", size)
        put(self, "kind", kind)
        put(self, "sum", size if total is None else plain(total))
        put(self, "most", size if bound is None else plain(bound))
        put(self, "static", static or kind is Kind.SR)
        put(self, "_namer", namer)
        put(self, "parts", parts)
        put(self, "over", None if span is None else plain(span))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Dim is immutable; cannot set {name}")

    def __reduce__(self) -> tuple[type[Dim], tuple[object, ...]]:
        return Dim, (
            self.size, self.kind, self.sum, self.most, self.static, self._namer, self.parts,
            self.over,
        )  # fmt: skip

    @property
    def expr(self) -> Expression:
        """The size: an int for static-regular dims, otherwise a sympy expression."""
        return expression(self.size)

    @property
    def total(self) -> Expression:
        """Sum of the sizes over all outer positions of a ragged dim, otherwise the size."""
        return expression(self.sum)

    @property
    def bound(self) -> Expression:
        """Largest size over all outer positions of a ragged dim, otherwise the size."""
        return expression(self.most)

    @property
    def span(self) -> Expression | None:
        """Number of stream elements that ``total`` sums over, for ragged tile dims."""
        return None if self.over is None else expression(self.over)

    @classmethod
    def of(cls, value: DimLike) -> Dim:
        """A dim from a dim, an int or a sympy expression."""
        if isinstance(value, Dim):
            return value
        if is_whole(value):
            return cls(int(cast(SupportsIndex, value)))
        if not (isinstance(value, Formula) or is_expression(value)):
            raise ArgError(f"a dim is an int, a Dim or a sympy expression, not {shown(value)}")
        return cls(cast(Size, value))

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
        return bool(self.kind is Kind.SR and self.size == 1)

    def __int__(self) -> int:
        if self.kind is not Kind.SR:
            raise KindError(
                f"dim {self} is {_KIND_TEXT[self.kind]}: it has no int value before a run"
            )
        return int(self.size)

    __index__ = __int__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            if other is self:
                return True
            return bool(self.size == other.size) and self.kind is other.kind
        if isinstance(other, int | Formula) or is_expression(other):
            return bool(self.size == other)
        return NotImplemented

    def __hash__(self) -> int:
        # Equal to an expression of sympy, so the hash must be the same.
        alike = isinstance(self.size, int | Symbol)
        return hash(self.size if alike else self.expr)

    def __str__(self) -> str:
        return f"~{text(self.size)}" if self.kind is Kind.RG else text(self.size)

    def __repr__(self) -> str:
        return f"Dim({self}, {self.kind.name})"

    def __mul__(self, other: DimLike) -> Dim:
        return _combine(self, Dim.of(other), "mul")

    def __add__(self, other: DimLike) -> Dim:
        return _combine(self, Dim.of(other), "add")

    __rmul__ = __mul__
    __radd__ = __add__

    def repeated(self, times: Size | None, why: str) -> Dim:
        """The same sizes, each repeated ``times`` times: the total of a ragged dim grows, also in
        its parts.

        None: a different number for each; the total is a new symbol, with the provenance ``why``.
        """
        if not self.is_ragged or times == 1:
            return self
        namer = namer_of(self)
        total = (
            namer.symbol(f"{self.size}_total", f"sum of all sizes of {self} in {why}")
            if times is None
            else product((self.sum, times))
        )
        parts = tuple(part.repeated(times, why) for part in self.parts)
        return Dim(self.size, self.kind, total, self.most, self.static, namer, parts, self.over)

    def counted_anew(self, span: Size, why: str) -> Dim:
        """A ragged tile side in a stream of ``span`` elements that repeats each size any number of
        times.

        The sum of its sizes is a new symbol, with the provenance ``why``.
        """
        if not self.is_ragged:
            return self
        namer = namer_of(self)
        total = namer.symbol(f"{self.size}_total", f"sum of all sizes of {self} in {why}")
        return Dim(self.size, self.kind, total, self.most, self.static, namer, (), span)

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
            return namer_of(self).ragged(
                f"{self.size}_c{chunk}",
                f"ceil of {self} / {chunk}",
                bound=ceil_div(self.most, chunk),
                static=self.static,
            )
        return Dim(ceil_div(self.size, chunk))


DimLike: TypeAlias = "Dim | Size | sympy.Expr | SupportsIndex"
"""A Dim, an int (of numpy too) or a sympy expression."""

_KIND_TEXT = {
    Kind.SR: "static-regular",
    Kind.DR: "dynamic-regular",
    Kind.RG: "ragged",
}


def namer_of(*dims: Dim) -> Namer:
    for dim in dims:
        if dim._namer is not None:
            return dim._namer
    raise KindError("a ragged dim that belongs to no program cannot be used in arithmetic")


@lru_cache(maxsize=4096)
def fixed(size: int) -> Dim:
    """The dim of a known size. Dims are immutable, so one object is shared."""
    return Dim(size)


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
        return Dim(product((a.size, b.size)) if op == "mul" else a.size + b.size)
    bound = product((a.most, b.most)) if op == "mul" else a.most + b.most
    total: Size | None = None
    if op == "mul" and not (a.is_ragged and b.is_ragged):
        total = product((a.sum, b.sum))
    elif op == "add" and a.is_ragged and b.is_ragged:
        total = a.sum + b.sum
    return namer_of(a, b).ragged(
        "d", f"absorbed: {a} {'*' if op == 'mul' else '+'} {b}", total=total, bound=bound,
        static=a.static and b.static,
    )  # fmt: skip


def total_over(side: Dim, count: Size | Expression) -> Size:
    """Sum of a tile side over ``count`` elements of a stream.

    A ragged side knows its sum over ``span`` elements; a stream with a multiple of them repeats
    each equally often.
    """
    count = plain(count)
    if not side.is_ragged:
        return product((side.size, count))
    if side.over is None or side.over == count:
        return side.sum
    if isinstance(side.over, int) or isinstance(count, int):
        return _quotient(side.sum * count, side.over)
    (a, x), (b, y) = primitive(count), primitive(side.over)
    return multiplied((side.sum, a / b)) if x == y else _quotient(side.sum * count, side.over)


def _quotient(a: Size, b: Size) -> Size:
    """``a / b``; 0 where both are 0."""
    top, bottom = fraction(divided(a, max(1, b) if isinstance(b, int) else b))
    return divided(top, bottom if isinstance(bottom, int) else at_least_one(bottom))
