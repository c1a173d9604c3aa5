"""Formulas of many alike terms, written short."""

from __future__ import annotations

from typing import Any

__all__ = ["fold_sum"]

_FEWEST = 3


def fold_sum(formula: Any) -> str:
    """Write a sympy sum with terms that differ only in their symbol as one ``sum``.

    ``2*n0 + 2*n1 + 2*n2 + 7`` becomes ``sum(2*n for n in n0..n2) + 7``.
    """
    import sympy

    formula = sympy.sympify(formula)
    stand_in = sympy.Symbol("n", integer=True, nonnegative=True)
    groups: dict[Any, list[Any]] = {}
    rest: list[str] = []
    for term in sympy.Add.make_args(formula):
        symbols = sorted(term.free_symbols, key=str)
        if len(symbols) == 1:
            pattern = term.xreplace({symbols[0]: stand_in})
            groups.setdefault(pattern, []).append((symbols[0], term))
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


def _natural(name: str) -> tuple[str, int]:
    digits = name[len(name.rstrip("0123456789")) :]
    return name.removesuffix(digits), int(digits or 0)


def _span(names: list[str]) -> str:
    """``n0..n7`` if the names are consecutive, else all of them."""
    keys = [_natural(name) for name in names]
    stem, first = keys[0]
    if keys == [(stem, first + offset) for offset in range(len(names))]:
        return f"{names[0]}..{names[-1]}"
    return ", ".join(names)
