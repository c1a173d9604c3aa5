"""Polynomials with whole coefficients: what functions of tiles cost, and the sides they make."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from stepsim.arguments import is_whole, shown
from stepsim.deferred import deferred
from stepsim.errors import ArgError
from stepsim.frozen import frozen
from stepsim.graph.sizes.atoms import Symbol
from stepsim.graph.sizes.formula import Formula, Number, Sum, bases_of, is_expression
from stepsim.graph.sizes.sizes import Size, product, sum_of

if TYPE_CHECKING:
    import sympy
else:
    sympy = deferred("sympy")

Cost: TypeAlias = "int | sympy.Expr | Callable[..., Any]"
"""A polynomial as users write it: a number, an expression, or a function of the letters."""


@frozen
class Polynomial:
    """A sum of terms: each a coefficient and the variables it multiplies, repeated for powers.

    Variables are letters of a shape, or sides of operands and results by number.
    """

    terms: tuple[tuple[int, tuple[Any, ...]], ...] = ()

    @classmethod
    def of(cls, *variables: Any, times: int = 1) -> Polynomial:
        """The product of some variables and a number; without variables a constant."""
        return cls(((times, variables),)) if times else ZERO

    def __add__(self, other: Polynomial) -> Polynomial:
        sums: dict[tuple[Any, ...], int] = {}
        for number, variables in (*self.terms, *other.terms):
            sums[variables] = sums.get(variables, 0) + number
        return Polynomial(tuple((n, v) for v, n in sums.items() if n))

    def scaled(self, times: int) -> Polynomial:
        return Polynomial(tuple((n * times, v) for n, v in self.terms)) if times else ZERO

    def __bool__(self) -> bool:
        return bool(self.terms)

    @property
    def letter(self) -> Any:
        """The variable that this is, or None when it is more."""
        if len(self.terms) == 1 and self.terms[0][0] == 1 and len(self.terms[0][1]) == 1:
            return self.terms[0][1][0]
        return None

    @property
    def constant(self) -> int | None:
        """The number that this is, or None."""
        if not self.terms:
            return 0
        return self.terms[0][0] if len(self.terms) == 1 and not self.terms[0][1] else None

    def variables(self) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(v for _, variables in self.terms for v in variables))

    def at(self, values: Mapping[Any, Size] | Sequence[Size]) -> Size:
        """The value for sizes of the variables."""
        return sum_of(
            product((number, *(values[v] for v in variables))) for number, variables in self.terms
        )

    def renamed(self, names: Mapping[Any, Any]) -> Polynomial:
        return Polynomial(tuple((n, tuple(names[v] for v in vs)) for n, vs in self.terms))

    def listed(self) -> list[list[Any]]:
        """As a record holds it."""
        return [[number, list(variables)] for number, variables in self.terms]

    def __str__(self) -> str:
        parts = []
        for number, variables in self.terms:
            factors = [str(number)] if number != 1 or not variables else []
            for one in dict.fromkeys(variables):
                power = variables.count(one)
                factors.append(f"{one}" if power == 1 else f"{one}**{power}")
            parts.append("*".join(factors))
        return " + ".join(parts) or "0"


ZERO = Polynomial()

MAX_NUMBER = 2**62
MAX_DEGREE = 16
"""Sides that a term may multiply: counts are below 2**62, so that more have no use."""


def cost_of(where: str, cost: object, letters: Sequence[str]) -> Polynomial:
    """The polynomial that a user means by a number, an expression or a function of the letters.

    Raises
    ------
    ArgError : it is not a polynomial of the letters with whole coefficients from 0.
    """
    if is_whole(cost):
        if int(cost) < 0:  # type: ignore[call-overload]
            raise ArgError(f"{where} must not be negative, found {shown(cost)}")
        if int(cost) >= MAX_NUMBER:  # type: ignore[call-overload]
            raise ArgError(_too_large(where, int(cost)))  # type: ignore[call-overload]
        return Polynomial.of(times=int(cost))  # type: ignore[call-overload]
    known = ", ".join(letters) or "none"
    if callable(cost) and not _is_basic(cost):
        names = _parameters(where, cost, letters, known)
        made: object = None
        # What formulas cannot do sympy may, and it finds the words if not.
        with contextlib.suppress(Exception):
            made = cost(*map(Symbol, names))
        if is_whole(made):
            return cost_of(where, made, letters)
        if (found := _multiplied_out(made, names)) is not None:
            return found
        cost = _called(where, cost, names)
        if is_whole(cost):
            return cost_of(where, cost, letters)
    if not is_expression(cost):
        raise ArgError(
            f"{where} must be an int, a sympy expression or a function of the letters of the shape "
            f"({known}), found {shown(cost)}"
        )
    return _of_expression(where, cost, letters, known)


def _of_expression(where: str, cost: Any, letters: Sequence[str], known: str) -> Polynomial:
    for symbol in sorted(cost.free_symbols, key=str):
        if str(symbol) not in letters:
            raise ArgError(f"{where}: the shape has no letter {symbol}; it has {known}")
    # A letter is its name: symbols of other assumptions mean the same side.
    letter = {symbol: sympy.Symbol(str(symbol)) for symbol in cost.free_symbols}
    cost = cost.xreplace(letter)
    symbols = sorted(cost.free_symbols, key=str)
    if not cost.is_polynomial(*symbols):
        raise ArgError(
            f"{where}: {cost} is not a polynomial of the sides, so that symbolic and executed "
            "numbers could not be the same; write sums of products, such as 5*m*n + 3*m, an upper "
            "bound if need be"
        )
    if not symbols:
        return _terms(where, cost, {(): cost})
    # Multiplied out only then: more could take forever and counts nothing.
    if (degree := _degree(cost)) > MAX_DEGREE:
        raise ArgError(
            f"{where}: a product of {shown(int(degree))} sides, expected at most {MAX_DEGREE}"
        )
    poly = sympy.Poly(cost, *symbols)
    return _terms(
        where,
        cost,
        {
            tuple(str(s) for s, power in zip(symbols, powers, strict=True) for _ in range(power)): n
            for powers, n in poly.terms()
        },
    )


def _degree(cost: Any) -> Any:
    """Most sides that a term of a polynomial multiplies, at least before terms cancel."""
    if cost.is_Symbol:
        return 1
    parts = [_degree(part) for part in cost.args]
    if cost.is_Pow:
        return parts[0] * cost.args[1]
    return sum(parts) if cost.is_Mul else max(parts, default=0)


def _terms(where: str, cost: sympy.Expr, terms: Mapping[tuple[str, ...], Any]) -> Polynomial:
    for number in terms.values():
        if not number.is_Integer:
            raise ArgError(f"{where}: {cost} has the coefficient {number}, expected whole numbers")
        if number < 0:
            raise ArgError(
                f"{where}: {cost} has the negative coefficient {number}, and could be below 0 for "
                "small tiles; leave the term out or count an upper bound"
            )
        if number >= MAX_NUMBER:
            raise ArgError(_too_large(where, int(number)))
    return Polynomial(tuple((int(n), variables) for variables, n in terms.items() if n != 0))


def _too_large(where: str, number: int) -> str:
    return f"{where}: the coefficient {shown(number)} is too large, expected below 2**62"


def _is_basic(cost: object) -> bool:
    """Whether it is an object of sympy, of which some can be called."""
    made = sys.modules.get("sympy.core.basic")
    return made is not None and isinstance(cost, made.Basic)


def _multiplied_out(made: object, names: Sequence[str]) -> Polynomial | None:
    """The polynomial that a formula of letters is; None for all that sympy has to judge."""
    letters = [Symbol(name) for name in sorted(names)]
    if not isinstance(made, Formula) or _most(made, letters) > MAX_DEGREE:
        return None
    rows = sorted(_expanded(made, letters).items(), reverse=True)
    if not all(isinstance(number, int) and 0 < number < MAX_NUMBER for _, number in rows):
        return None
    return Polynomial(
        tuple(
            (
                int(number),
                tuple(x.name for x, n in zip(letters, row, strict=True) for _ in range(n)),
            )
            for row, number in rows
        )
    )


def _most(made: Formula, letters: Sequence[Symbol]) -> int:
    """Most letters that a term multiplies; for anything but a polynomial, more than is allowed."""
    return max(
        sum(
            MAX_DEGREE + 1 if power < 0 or not isinstance(base, Sum | Symbol)
            else power * (_most(base, letters) if isinstance(base, Sum) else 1)
            for base, power in bases_of(factors)
        )
        for factors, _ in made.terms()
    )  # fmt: skip


def _expanded(made: Formula, letters: Sequence[Symbol]) -> dict[tuple[int, ...], Number]:
    """Powers of the letters to the number of their product."""
    none = (0,) * len(letters)
    found: dict[tuple[int, ...], Number] = {}
    for factors, number in made.terms():
        rows = {none: number}
        for base, power in bases_of(factors):
            at = letters.index(base) if isinstance(base, Symbol) else None
            one = _expanded(base, letters) if at is None else _unit(at, len(letters))
            for _ in range(power):
                rows = _times(rows, one)
        for row, n in rows.items():
            found[row] = found.get(row, 0) + n
    return {row: n for row, n in found.items() if n}


def _unit(at: int, count: int) -> dict[tuple[int, ...], Number]:
    return {tuple(int(i == at) for i in range(count)): 1}


def _times(
    a: Mapping[tuple[int, ...], Number], b: Mapping[tuple[int, ...], Number]
) -> dict[tuple[int, ...], Number]:
    found: dict[tuple[int, ...], Number] = {}
    for x, n in a.items():
        for y, m in b.items():
            row = tuple(map(int.__add__, x, y))
            found[row] = found.get(row, 0) + n * m
    return found


def _parameters(
    where: str, cost: Callable[..., Any], letters: Sequence[str], known: str
) -> list[str]:
    """The letters that a function of letters takes."""
    try:
        names = list(inspect.signature(cost).parameters)
    except (TypeError, ValueError):
        raise ArgError(
            f"{where}: the parameters of {shown(cost)} are not known; write a lambda of the letters"
        ) from None
    for name in names:
        if name not in letters:
            raise ArgError(f"{where}: the shape has no letter {name}; it has {known}")
    return names


def _called(where: str, cost: Callable[..., Any], names: Sequence[str]) -> Any:
    """What a function of letters says for symbols of sympy."""
    symbols = [sympy.Symbol(name, integer=True, nonnegative=True) for name in names]
    try:
        return cost(*symbols)
    except Exception as error:
        raise ArgError(
            f"{where} is not a polynomial: the function raised {type(error).__name__} for symbols. "
            "It may only add and multiply, without rounding, choosing or functions of numpy and "
            "math"
        ) from error
