"""Formulas as expressions of sympy, and back. Importing this module imports sympy."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sympy

from stepsim.graph.sizes import atoms
from stepsim.graph.sizes.atoms import Largest, Opaque, Symbol
from stepsim.graph.sizes.formula import Formula, Number, Size, bases_of, multiplied, sum_of


class _Count(sympy.Function):
    """A function whose values are non-negative integers."""

    def _eval_is_integer(self) -> bool:
        return True

    def _eval_is_nonnegative(self) -> bool:
        return True


class CeilDiv(_Count):
    """``ceil(a / b)`` for non-negative integers."""

    nargs = 2

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        if b == 1:
            return a
        if a.is_Rational and b.is_Integer:
            return sympy.Integer(-(-int(a.p) // int(a.q * b)))
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
        if n.is_Rational:
            return sympy.Integer(int(int(n.p) > 0))
        if isinstance(n, cls):
            return n
        return None

    def _sympystr(self, printer: Any) -> str:
        return f"Min(1, {printer._print(self.args[0])})"


def symbol(name: str) -> sympy.Symbol:
    """The symbol of a formula in sympy."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


def shown(size: Size) -> sympy.Expr:
    """A size as an expression, ints as well."""
    return sympy.Integer(size) if isinstance(size, int) else size.sympy()


def expression_of(formula: Formula) -> sympy.Expr:
    """The expression of a formula."""
    if isinstance(formula, Symbol):
        return symbol(formula.name)
    if isinstance(formula, atoms.CeilDiv):
        return CeilDiv(formula.top.sympy(), sympy.Integer(formula.divisor))
    if isinstance(formula, atoms.Active):
        return Active(formula.of.sympy())
    if isinstance(formula, Largest):
        # Unevaluated, as comparing symbols pairwise is inconclusive and takes seconds for many
        # sizes.
        return sympy.Max(*map(shown, formula.sizes), evaluate=False)
    return sympy.Add(
        *(
            sympy.Mul(
                sympy.Integer(number.numerator) / number.denominator,
                *(sympy.Pow(base.sympy(), exponent) for base, exponent in bases_of(factors)),
            )
            for factors, number in formula.terms()
        )
    )


@lru_cache(maxsize=1 << 14)
def formula_of(expression: Any) -> Size:
    """The formula of an expression; an int if it is a number."""
    if expression.is_Rational:
        number = Fraction(int(expression.p), int(expression.q))
        return sum_of((number,))
    if expression.is_Symbol:
        plain = expression == symbol(expression.name)
        return Symbol(expression.name) if plain else Opaque(expression)
    if expression.is_Add:
        return sum_of(map(formula_of, expression.args))
    if expression.is_Mul:
        return multiplied(map(formula_of, expression.args))
    if expression.is_Pow and expression.exp.is_Integer and not expression.base.is_number:
        base: Any = formula_of(expression.base)
        return base ** int(expression.exp)  # type: ignore[no-any-return]
    if isinstance(expression, CeilDiv) and expression.args[1].is_Integer:
        top = formula_of(expression.args[0])
        return atoms.CeilDiv(top, int(expression.args[1]))
    if isinstance(expression, Active):
        return atoms.Active(formula_of(expression.args[0]))
    if isinstance(expression, sympy.Max):
        return Largest(map(formula_of, expression.args))
    return Opaque(expression)


def value_of(expression: Any, table: Mapping[Formula, int]) -> Number:
    """The number of an expression for values of all its symbols."""
    found = expression.xreplace({s.sympy(): sympy.Integer(n) for s, n in table.items()})
    if not found.is_Rational:
        found = sympy.simplify(found)
    if found.is_Rational:
        return Fraction(int(found.p), int(found.q))
    return int(found)


def replaced_in(expression: Any, table: Mapping[Any, Size]) -> Size:
    """An expression with some expressions in it replaced by other sizes."""
    rule = {key.sympy(): shown(new) for key, new in table.items()}
    return formula_of(expression.xreplace(rule))


def degree_of(size: Formula, symbol: Size) -> int:
    """The highest power of a symbol in a polynomial that is not expanded."""
    return sympy.Poly(size.sympy(), shown(symbol)).degree()
