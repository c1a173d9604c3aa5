"""Short forms of long formulas and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepsim.deferred import deferred
from stepsim.graph.sizes.formula import light
from stepsim.graph.sizes.sizes import Expression, Size

if TYPE_CHECKING:
    import sympy
else:
    sympy = deferred("sympy")

_FEWEST = 3


def fold_sum(formula: Size | Expression) -> str:
    """Write a sum with terms that differ only in their symbol as one ``sum``.

    ``2*n0 + 2*n1 + 2*n2 + 7`` becomes ``sum(2*n for n in n0..n2) + 7``.
    """
    size: Size = light(formula)
    if isinstance(size, int) or len(tuple(size.terms())) == 1:
        return str(size)

    stand_in = sympy.Symbol("n", integer=True, nonnegative=True)
    groups: dict[sympy.Expr, list[tuple[sympy.Symbol, sympy.Expr]]] = {}
    rest: list[str] = []
    for term in sympy.Add.make_args(size.sympy()):
        symbols = term.free_symbols
        if len(symbols) == 1:
            (symbol,) = symbols
            groups.setdefault(term.xreplace({symbol: stand_in}), []).append((symbol, term))
        else:
            rest.append(str(term))
    parts = []
    for pattern, members in groups.items():
        if len(members) < _FEWEST:
            parts += [str(term) for _, term in members]
        else:
            names = sorted((str(symbol) for symbol, _ in members), key=_natural)
            parts.append(f"sum({pattern} for n in {_span(names)})")
    return " + ".join([*sorted(parts), *rest])


def shorten(text: str, width: int) -> str:
    """``text`` in at most ``width`` columns; with an ellipsis for omitted text."""
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _natural(name: str) -> tuple[str, int]:
    digits = name[len(name.rstrip("0123456789")) :]
    return name.removesuffix(digits), int(digits or 0)


def _span(names: list[str]) -> str:
    """``n0..n7`` if the names are consecutive, otherwise all of them."""
    keys = [_natural(name) for name in names]
    stem, first = keys[0]
    if keys == [(stem, first + offset) for offset in range(len(names))]:
        return f"{names[0]}..{names[-1]}"
    return ", ".join(names)
