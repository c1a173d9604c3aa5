"""Sizes: ints and sympy expressions over non-negative integer symbols, in one canonical form.

Ceiling division and "1 if n > 0 else 0" have one spelling each, so structural equality decides
almost every shape question and sympy's numeric equality is never needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeAlias

import sympy

__all__ = ["Active", "CeilDiv", "Size", "active", "ceil_div", "plain", "product", "text"]

Size: TypeAlias = int | sympy.Expr
"""An int or a sympy expression over non-negative integer symbols."""

_REMEMBERED = 1 << 14
"""The experts of a layer have the same few sizes in every operator, and sympy is slow."""


class _Count(sympy.Function):
    """A function whose values are non-negative integers."""

    def _eval_is_integer(self) -> bool:
        return True

    def _eval_is_nonnegative(self) -> bool:
        return True


class CeilDiv(_Count):
    """``ceil(a / b)`` for non-negative integers; the only spelling of it in this package."""

    nargs = 2

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        if b == 1:
            return a
        if a.is_Integer and b.is_Integer:
            return sympy.Integer(-(-int(a) // int(b)))
        return None

    def _sympystr(self, printer: Any) -> str:
        a, b = self.args
        text = printer._print(a)
        return f"ceil({text}/{b})" if a.is_Atom else f"ceil(({text})/{b})"


class Active(_Count):
    """``Min(1, n)``: 1 if n > 0 else 0."""

    nargs = 1

    @classmethod
    def eval(cls, n: Any) -> Any:
        if n.is_Integer:
            return sympy.Integer(int(int(n) > 0))
        if isinstance(n, cls):
            return n
        return None

    def _sympystr(self, printer: Any) -> str:
        return f"Min(1, {printer._print(self.args[0])})"


def plain(value: Size) -> Size:
    """sympy integers become ints, so that static sizes never touch sympy."""
    if isinstance(value, int):
        return value
    return int(value) if value.is_Integer else value


@lru_cache(maxsize=_REMEMBERED, typed=True)
def text(size: Size) -> str:
    """``str(size)``."""
    return str(size)


def ceil_div(a: Size, b: int) -> Size:
    """``ceil(a / b)`` in canonical form."""
    if b == 1:
        return a
    return -(-a // b) if isinstance(a, int) else CeilDiv(a, b)


def active(n: Size) -> Size:
    """``Min(1, n)`` in canonical form: constants drop out, products become products."""
    if isinstance(n, int):
        return int(n > 0)
    if isinstance(n, Active):
        return n
    if isinstance(n, CeilDiv):
        # What is dealt to the last of several outputs, ceil((n - 2)/3), may count down below 0.
        return active(n.args[0]) if n.args[0].is_nonnegative else Active(n)
    if n.is_Mul:
        found = {active(plain(f)) for f in n.args}
        return 0 if 0 in found else product(f for f in found if f != 1)
    if n.is_Integer:
        return int(int(n) > 0)
    return Active(n)


def product(sizes: Iterable[Size]) -> Size:
    """Product in canonical form: ``Min(1, n)`` next to a factor that is 0 with n disappears."""
    number = 1
    factors: list[sympy.Expr] = []
    for size in sizes:
        if isinstance(size, int):
            number *= size
        else:
            factors.append(size)
    if number == 0 or not factors:
        return number
    if len(factors) == 1 and number == 1:
        return factors[0]
    return _symbolic_product(number, tuple(factors))


@lru_cache(maxsize=_REMEMBERED)
def _symbolic_product(number: int, factors: tuple[sympy.Expr, ...]) -> Size:
    if len(factors) == 1:
        return number * factors[0]
    flat = [arg for f in factors for arg in sympy.Mul.make_args(f)]
    switches = [f for f in flat if isinstance(f, Active)]
    if switches:
        rest = [f for f in flat if not isinstance(f, Active)]
        zeros = {*rest, *(f.args[0] for f in rest if isinstance(f, CeilDiv))}
        kept = {s for s in switches if s.args[0] not in zeros}
        flat = [*rest, *sorted(kept, key=str)]
    return plain(sympy.Mul(number, *flat))
