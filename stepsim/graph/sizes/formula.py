"""Formulas of sizes: sums of products of symbols, rounded quotients, switches and maxima.

Programs have hundreds of them, each small, so they have their own representation: a dict of terms.
They are simplified as sympy simplifies when it makes an expression (equal terms and equal factors
are collected, a number is multiplied into a sum, products of sums are kept), so that
:meth:`Formula.sympy` is the expression that sympy itself would have made, and texts are identical.
sympy is imported when an expression is requested, never to build, compare, bind or print a size.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

from stepsim.deferred import deferred

if TYPE_CHECKING:
    import fractions

    import sympy
else:
    fractions = deferred("fractions")  # most programs have none

Number: TypeAlias = "int | fractions.Fraction"
Size: TypeAlias = "int | Formula"
"""An int or a formula over non-negative integer symbols."""

Factors: TypeAlias = "Formula | frozenset[tuple[Formula, int]]"
"""The factors of a term: one atom, or bases with their exponents."""

UNIT: frozenset[tuple[Formula, int]] = frozenset()
"""No factors: those of the constant term."""


def above(name: str) -> Any:
    """A module that depends on this one, imported on demand."""
    return importlib.import_module(f"stepsim.graph.sizes.{name}")


def is_expression(value: object) -> bool:
    """Whether ``value`` is an expression of sympy, which can only exist if sympy is imported."""
    made = sys.modules.get("sympy.core.expr")
    return made is not None and isinstance(value, made.Expr)


class Formula:
    """An immutable formula; sums, products, quotients and powers of formulas and ints are formulas
    again.

    It equals the corresponding sympy expression, can be combined with sympy expressions, and has
    their attributes and methods.
    """

    __slots__ = ("_expression", "_hash", "_symbols", "_text")

    _expression: sympy.Expr | None
    _hash: int | None
    _symbols: frozenset[Formula] | None
    _text: str | None

    def _settle(self, hashed: int | None) -> None:
        self._hash = hashed
        self._expression = self._symbols = self._text = None

    def sympy(self) -> sympy.Expr:
        """The corresponding expression of sympy."""
        if self._expression is None:
            self._expression = above("sympy_forms").expression_of(self)
        return self._expression

    _sympy_ = sympy

    if not TYPE_CHECKING:  # For type checkers, sizes have only the attributes defined here.

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            return getattr(self.sympy(), name)

    def terms(self) -> Iterable[tuple[Factors, Number]]:
        """The terms of the sum: distinct factors, and their coefficients."""
        return ((self, 1),)

    def powers(self) -> tuple[Number, Iterable[tuple[Formula, int]]]:
        """The factors of the product: a number, and bases with exponents."""
        return 1, ((self, 1),)

    @property
    def is_symbol(self) -> bool:
        return False

    @property
    def is_nonnegative(self) -> bool:
        """Whether it is known to be non-negative."""
        return True

    def symbols(self) -> frozenset[Formula]:
        """The symbols in it."""
        if self._symbols is None:
            self._symbols = frozenset().union(*(part.symbols() for part in self.parts()))
        return self._symbols

    def parts(self) -> Iterable[Formula]:
        """The formulas that it contains directly."""
        return ()

    def value(self, table: Mapping[Any, int]) -> Number:
        """The number for given values of all its symbols."""
        raise NotImplementedError

    def replaced(self, table: Mapping[Any, Size]) -> Size:
        """The formula with some formulas in it replaced by other sizes."""
        return table[self] if self in table else self._rebuilt(table)

    def _rebuilt(self, table: Mapping[Any, Size]) -> Size:
        return self

    def _same(self, other: Any) -> bool:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Formula):
            return type(self) is type(other) and self._same(other)
        if is_expression(other):
            return bool(self.sympy() == other)
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:  # Most sums are only intermediate and need no hash.
            self._hash = self._digest()
        return self._hash

    def _digest(self) -> int:
        raise NotImplementedError

    def __str__(self) -> str:
        if self._text is None:
            self._text = above("formula_text").written(self)
        return self._text

    __repr__ = __str__

    def __int__(self) -> int:
        if self.symbols():
            raise TypeError(f"{self} has no int value before a run")
        return int(self.value({}))

    def __add__(self, other: Any) -> Any:
        size = _operand(other)
        return NotImplemented if size is None else sum_of((self, size))

    def __mul__(self, other: Any) -> Any:
        size = _operand(other)
        return NotImplemented if size is None else multiplied((self, size))

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return multiplied((-1, self))

    def __sub__(self, other: Any) -> Any:
        size = _operand(other)
        return NotImplemented if size is None else sum_of((self, multiplied((-1, size))))

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def __truediv__(self, other: Any) -> Any:
        size = _operand(other)
        if isinstance(size, Formula):
            return multiplied((self, size**-1))
        return NotImplemented if size is None else multiplied((fractions.Fraction(1, size), self))

    def __rtruediv__(self, other: Any) -> Any:
        size = _operand(other)
        return NotImplemented if size is None else multiplied((size, self**-1))

    def __pow__(self, exponent: Any) -> Any:
        power = _operand(exponent)
        if not isinstance(power, int):
            return NotImplemented
        number, factors = self.powers()
        raised = fractions.Fraction(number) ** power if power < 0 else number**power
        return of_powers(raised, ((base, one * power) for base, one in factors))


def _operand(value: object) -> Size | None:
    if isinstance(value, int | Formula):
        return value
    return int(value) if isinstance(value, Integral) else None


class Sum(Formula):
    """Any formula that is not an atom: several terms, or a product of factors or numbers."""

    __slots__ = ("_terms",)

    _terms: Mapping[Factors, Number]

    def __init__(self, terms: Mapping[Factors, Number]) -> None:
        self._terms = terms
        self._settle(None)

    def terms(self) -> Iterable[tuple[Factors, Number]]:
        return self._terms.items()

    def powers(self) -> tuple[Number, Iterable[tuple[Formula, int]]]:
        if len(self._terms) > 1:
            return 1, ((self, 1),)
        ((factors, number),) = self._terms.items()
        return number, ((factors, 1),) if isinstance(factors, Formula) else factors

    @property
    def is_nonnegative(self) -> bool:
        return all(
            number >= 0 and all(base.is_nonnegative for base, _ in bases_of(factors))
            for factors, number in self._terms.items()
        )

    def parts(self) -> Iterable[Formula]:
        return (base for factors in self._terms for base, _ in bases_of(factors))

    def value(self, table: Mapping[Any, int]) -> Number:
        found: Number = 0
        for factors, number in self._terms.items():
            if isinstance(factors, Formula):
                found += number * factors.value(table)
            else:
                for base, exponent in factors:
                    one = base.value(table)
                    if exponent > 0:
                        number *= one**exponent
                    else:
                        number *= fractions.Fraction(1, one) ** -exponent
                found += number
        return found

    def _rebuilt(self, table: Mapping[Any, Size]) -> Size:
        if len(self._terms) > 1:
            return sum_of(
                replaced(of_powers(number, bases_of(factors)), table)
                for factors, number in self._terms.items()
            )
        number, factors = self.powers()
        made: list[Size | fractions.Fraction] = [number]
        for base, exponent in factors:
            power = of_powers(1, ((base, exponent),))
            if power in table:
                made.append(table[power])
                continue
            new = base.replaced(table)
            if isinstance(new, int) and exponent < 0:
                made.append(fractions.Fraction(new) ** exponent)
            else:
                made.append(new**exponent)
        return multiplied(made)

    def _digest(self) -> int:
        return hash(frozenset(self._terms.items()))

    def _same(self, other: Sum) -> bool:
        return self._terms == other._terms

    def __reduce__(self) -> Any:
        return Sum, (dict(self._terms),)


def replaced(size: Size, table: Mapping[Any, Size]) -> Size:
    """A size with some formulas in it replaced by other sizes."""
    return size.replaced(table) if isinstance(size, Formula) else size


def constant_of(size: Size) -> Number | None:
    """The value of a size, possibly a fraction; None if it has symbols."""
    if isinstance(size, int):
        return size
    return None if size.symbols() else size.value({})


def bases_of(factors: Factors) -> Iterable[tuple[Formula, int]]:
    """The bases of the factors of a term, with exponents."""
    return ((factors, 1),) if isinstance(factors, Formula) else factors


def sum_of(sizes: Iterable[Size | fractions.Fraction]) -> Size:
    """The sum in canonical form."""
    terms: dict[Factors, Number] = {}
    for size in sizes:
        if isinstance(size, Sum):
            for factors, number in size.terms():
                terms[factors] = terms.get(factors, 0) + number
        elif isinstance(size, Formula):
            terms[size] = terms.get(size, 0) + 1
        else:
            terms[UNIT] = terms.get(UNIT, 0) + size
    return _made({f: n if type(n) is int else _reduced(n) for f, n in terms.items() if n})


def _made(terms: Mapping[Factors, Number]) -> Size:
    """A size from non-zero terms."""
    if len(terms) <= 1:
        if not terms:
            return 0
        ((factors, number),) = terms.items()
        if isinstance(factors, Formula):
            return factors if number == 1 else Sum(terms)
        if not factors and isinstance(number, int):
            return number
    return Sum(terms)


def _reduced(number: Number) -> Number:
    return int(number) if number.denominator == 1 else number


def scaled(size: Formula, number: Number) -> Size:
    """A number times a formula."""
    if number == 1:
        return size
    if not number:
        return 0
    if isinstance(number, int) and not isinstance(size, Sum):
        return Sum({size: number})
    return _made({factors: _reduced(one * number) for factors, one in size.terms()})


def multiplied(sizes: Iterable[Size | fractions.Fraction]) -> Size:
    """The product."""
    number: Number = 1
    powers: dict[Formula, int] = {}
    for size in sizes:
        if not isinstance(size, Formula):
            number *= size
            continue
        times, factors = size.powers()
        number *= times
        for base, exponent in factors:
            powers[base] = powers.get(base, 0) + exponent
    return of_powers(number, powers.items())


def of_powers(number: Number, powers: Iterable[tuple[Formula, int]]) -> Size:
    """A number times bases to their exponents; no base occurs twice."""
    kept = [power for power in powers if power[1]]
    if len(kept) == 1 and kept[0][1] == 1:
        return scaled(kept[0][0], number)
    return _made({frozenset(kept): _reduced(number)}) if number else 0


def light(value: Any) -> Any:
    """A size in the internal form: expressions of sympy become formulas or ints."""
    if is_expression(value):
        return above("sympy_forms").formula_of(value)
    return value
