"""Formulas as text, as sympy prints its expressions: the same order of terms, the same signs.

Fingerprints, listings and messages contain such texts, so they must not depend on the library.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from stepsim.graph.sizes.atoms import Active, CeilDiv, Largest, Opaque, Symbol
from stepsim.graph.sizes.formula import UNIT, Factors, Formula, Number, Size, bases_of

if TYPE_CHECKING:
    from fractions import Fraction

# The sort key of sympy: the class of an expression, then its arguments, exponent and number.
_NUMBER = (1, 0, "Number")
_ONE = (_NUMBER, (0, ()), (), 1)


def written(formula: Formula) -> str:
    """The text of a formula."""
    if not _is_own(formula):
        return str(formula.sympy())
    if isinstance(formula, Symbol):
        return formula.name
    if isinstance(formula, CeilDiv):
        top = str(formula.top)
        inner = top if isinstance(formula.top, Symbol) else f"({top})"
        return f"ceil({inner}/{formula.divisor})"
    if isinstance(formula, Active):
        return f"Min(1, {formula.of})"
    if isinstance(formula, Largest):
        return f"Max({', '.join(str(size) for size in sorted(formula.sizes, key=_key))})"
    texts = [_product(number, bases_of(factors)) for factors, number in _ordered(formula)]
    first, *rest = texts
    signs = (f" - {text[1:]}" if text.startswith("-") else f" + {text}" for text in rest)
    return first + "".join(signs)


def _is_own(formula: Formula) -> bool:
    """Whether sympy would sort it by this key; unevaluated constants rank differently."""
    if isinstance(formula, Opaque) or (isinstance(formula, Largest) and not formula.symbols()):
        return False
    return all(_is_own(part) for part in formula.parts())


def _ordered(formula: Formula) -> list[tuple[Factors, Number]]:
    """Terms by the exponents of all bases, the largest of the first base first."""
    terms = list(formula.terms())
    if len(terms) < 2:
        return terms
    if len(terms) == 2:
        terms.sort(key=lambda term: term[0] != UNIT)
        (none, constant), (factors, number) = terms
        if none == UNIT and constant > 0 > number and len(tuple(bases_of(factors))) == 1:
            return terms
    bases = sorted({base for factors, _ in terms for base, _ in bases_of(factors)}, key=_key)
    place = {base: i for i, base in enumerate(bases)}

    last = len(bases)

    def rank(term: tuple[Factors, Number]) -> list[tuple[int, int]]:
        # Sorting by lists of all exponents, negated, is equivalent to this without the zeros: a
        # positive exponent comes before terms without this base, a negative one after them.
        found = sorted((place[base], -exponent) for base, exponent in bases_of(term[0]))
        return [*((i if e < 0 else 2 * last - i, e) for i, e in found), (last, 0)]

    return sorted(terms, key=rank)


def _product(number: Number, powers: Iterable[tuple[Formula, int]]) -> str:
    """A term: the number, then its factors, then its divisor."""
    powers = sorted(powers, key=lambda power: _power_key(*power))
    sign, size = ("-", -number) if number < 0 else ("", number)
    if size == 1 and len(powers) == 1 and powers[0][1] < 0:
        ((base, exponent),) = powers
        alone = f"1/{_factor(base, 1)}" if exponent == -1 else f"{_base(base)}**({exponent})"
        if not sign:
            return alone
    above = [str(size.numerator)] if size.numerator != 1 else []
    above += [_factor(base, exponent) for base, exponent in powers if exponent > 0]
    below = [str(size.denominator)] if size.denominator != 1 else []
    below += [_factor(base, -exponent) for base, exponent in powers if exponent < 0]
    text = sign + ("*".join(above) or "1")
    if not below:
        return text
    return f"{text}/{below[0]}" if len(below) == 1 else f"{text}/({'*'.join(below)})"


def _factor(base: Formula, exponent: int) -> str:
    return _base(base) if exponent == 1 else f"{_base(base)}**{exponent}"


def _base(base: Formula) -> str:
    return f"({base})" if len(tuple(base.terms())) > 1 else str(base)


def _number_key(number: Number | int) -> Any:
    return _NUMBER, (0, ()), (), number


def _key(size: Size | Fraction) -> Any:
    if not isinstance(size, Formula):
        return _number_key(size)
    terms = _ordered(size)
    if len(terms) > 1:
        return (3, 1, "Add"), (len(terms), tuple(_term_key(n, f) for f, n in terms)), _ONE, 1
    return _term_key(terms[0][1], terms[0][0])


def _term_key(number: Number, factors: Factors) -> Any:
    powers = tuple(bases_of(factors))
    if not powers:
        return _number_key(number)
    if len(powers) == 1:
        return (*_power_key(*powers[0])[:3], number)
    keys = sorted(_power_key(*power) for power in powers)
    return (3, 0, "Mul"), (len(keys), tuple(keys)), _ONE, number


def _power_key(base: Formula, exponent: int) -> Any:
    if len(tuple(base.terms())) > 1:
        kind, arguments = _key(base)[:2]
    else:
        kind, arguments = _atom_key(base)
    return kind, arguments, _number_key(exponent), 1


def _atom_key(atom: Formula) -> Any:
    if isinstance(atom, Symbol):
        return (2, 0, "Symbol"), (1, (atom.name,))
    if isinstance(atom, CeilDiv):
        return (4, 10000, "CeilDiv"), (2, (_key(atom.top), _number_key(atom.divisor)))
    if isinstance(atom, Active):
        return (4, 10000, "Active"), (1, (_key(atom.of),))
    assert isinstance(atom, Largest)
    keys = tuple(map(_key, sorted(atom.sizes, key=_key)))
    return (5, 0, "Max"), (len(keys), keys)
