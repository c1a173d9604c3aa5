"""Sizes: ints and formulas over non-negative integer symbols, in one canonical form.

Ceiling division and "1 if n > 0 else 0" have one representation each, so structural equality
decides almost every question about shapes, and numeric equality is never needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from stepsim.deferred import deferred
from stepsim.graph.sizes.atoms import Active as Active, CeilDiv as CeilDiv, Largest, Opaque, Symbol
from stepsim.graph.sizes.formula import (
    UNIT,
    Formula,
    Size as Size,
    Sum,
    bases_of,
    light,
    multiplied,
    of_powers,
    scaled,
    sum_of as sum_of,
)

if TYPE_CHECKING:
    import fractions

    import sympy

    from stepsim.graph.sizes import sympy_forms
else:
    fractions = deferred("fractions")
    sympy_forms = deferred("stepsim.graph.sizes.sympy_forms")


Expression: TypeAlias = "int | sympy.Expr"
"""A size as returned to users."""

_MANY = 1 << 30
_REMEMBERED = 1 << 14
"""Most cached sizes; the experts of a layer have the same few sizes in every operator."""


def plain(value: Any) -> Size:
    """A size in any form as an int or a formula."""
    if isinstance(value, int | Formula):
        return value
    return light(value)  # type: ignore[no-any-return]


def expression(size: Size) -> Expression:
    """A size as returned to users: an int or an expression of sympy."""
    return size if isinstance(size, int) else size.sympy()


@lru_cache(maxsize=_REMEMBERED, typed=True)
def text(size: Size) -> str:
    """``str(size)``."""
    return str(size)


def ceil_div(a: Size, b: int) -> Size:
    """``ceil(a / b)`` in canonical form."""
    if b == 1:
        return a
    return -(-a // b) if isinstance(a, int) else _rounded(a, b)


_rounded = lru_cache(maxsize=_REMEMBERED, typed=True)(CeilDiv)


@lru_cache(maxsize=_REMEMBERED, typed=True)
def active(n: Size) -> Size:
    """``Min(1, n)`` in canonical form: constants are dropped, and a product is split into a product
    of switches."""
    if isinstance(n, int):
        return int(n > 0)
    if isinstance(n, Active):
        return n
    if isinstance(n, CeilDiv):
        # The share of the last of several outputs, ceil((n - 2)/3), may have a negative numerator.
        return active(n.top) if n.top.is_nonnegative else Active(n)
    number, factors = n.powers()
    powers = dict(factors)
    if powers == {n: 1}:
        return Active(n)
    if number <= 0:
        return 0
    return product(
        active(base) if exponent == 1 else Active(of_powers(1, ((base, exponent),)))
        for base, exponent in powers.items()
    )


def product(sizes: Iterable[Size]) -> Size:
    """Product in canonical form: ``Min(1, n)`` is dropped next to a factor that is 0 whenever n
    is."""
    number = 1
    formulas: list[Formula] = []
    for size in sizes:
        if type(size) is int:
            number *= size
        elif isinstance(size, Formula):
            formulas.append(size)
        elif isinstance(made := plain(size), Formula):
            formulas.append(made)
        else:
            number *= made
    if not formulas:
        return number
    if len(formulas) == 1:
        return scaled(formulas[0], number)
    made = _joined(tuple(formulas))
    return number * made if isinstance(made, int) else scaled(made, number)


@lru_cache(maxsize=_REMEMBERED)
def _joined(formulas: tuple[Formula, ...]) -> Size:
    made = multiplied(formulas)
    if isinstance(made, int):
        return made
    number, factors = made.powers()
    powers = dict(factors)
    switches = [base for base in powers if isinstance(base, Active)]
    if not switches or (len(powers) == 1 and powers[switches[0]] == 1):
        return made
    zeros = {base.top if isinstance(base, CeilDiv) else base for base in powers}
    zeros |= powers.keys()
    for switch in switches:
        if switch.of in zeros:
            del powers[switch]
        else:
            powers[switch] = 1
    return of_powers(number, powers.items())


def divided(a: Size, b: Size) -> Size:
    """``a / b``, exactly."""
    return multiplied((a, fractions.Fraction(1, b) if isinstance(b, int) else b**-1))


def largest(sizes: Iterable[Size]) -> Size:
    """The unevaluated maximum: comparing symbols cannot decide it."""
    found = frozenset(sizes)
    if len(found) == 1:
        return next(iter(found))
    return Largest(found)


def at_least_one(size: Formula) -> Size:
    """``Max(1, size)``."""
    sizes = size.sizes if isinstance(size, Largest) else frozenset((size,))
    open_ = {s for s in sizes if isinstance(s, Formula)}
    if any(_is_positive(s) for s in open_):
        return size
    return Largest({*open_, max(1, *(s for s in sizes if isinstance(s, int)), 1)})


def _is_positive(size: Formula) -> bool:
    """Whether it is known to be 1 or more."""
    rest: Any = size - 1
    return bool(rest.is_nonnegative)


def may_count(size: Formula) -> bool:
    """False for a formula that is known not to be a whole number from 0."""
    if type(size) is Symbol:
        return True
    if any(isinstance(part, Opaque) for part in (size, *size.parts())):
        made: Any = size.sympy()
        return not (made.is_Number or made.is_integer is False or made.is_negative)
    terms = dict(size.terms())
    constant = terms.pop(UNIT, 0)
    if not isinstance(constant, int) and all(
        isinstance(number, int) and all(exponent > 0 for _, exponent in bases_of(factors))
        for factors, number in terms.items()
    ):
        return False
    if constant >= 0 or not terms:
        return constant >= 0
    below: Any = sum_of((constant, multiplied((-1, size))))
    return not below.is_nonnegative


def primitive(size: Formula) -> tuple[fractions.Fraction, Size]:
    """The largest positive number that divides all terms, and the quotient."""
    numbers = [fractions.Fraction(number) for _, number in size.terms()]
    lowest = math.lcm(*(n.denominator for n in numbers))
    shared = fractions.Fraction(math.gcd(*(int(n * lowest) for n in numbers)), lowest)
    return shared, multiplied((1 / shared, size))


def fraction(size: Size) -> tuple[Size, Size]:
    """Numerator and denominator, both without quotients."""
    if isinstance(size, int):
        return size, 1
    terms = dict(size.terms())
    powers = [power for factors in terms for power in bases_of(factors)]
    if any(isinstance(base, Sum | Opaque) or (exponent < 0 and len(terms) > 1)
           for base, exponent in powers):  # fmt: skip
        over, under = size.sympy().as_numer_denom()
        return plain(over), plain(under)
    lowest = math.lcm(*(number.denominator for number in terms.values()))
    below = {base: -exponent for base, exponent in powers if exponent < 0}
    bottom = of_powers(lowest, below.items())
    return multiplied((size, bottom)), bottom


def degree(size: Formula, symbol: Size) -> int:
    """The highest power of a symbol in a formula; infinite if it is rounded or compared."""
    if any(isinstance(base, Sum) for factors, _ in size.terms() for base, _ in bases_of(factors)):
        return sympy_forms.degree_of(size, symbol)
    return max(
        sum(
            exponent if base == symbol else _MANY
            for base, exponent in bases_of(factors)
            if symbol in base.symbols()
        )
        for factors, _ in size.terms()
    )
