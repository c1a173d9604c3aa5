"""Affine maps from the loops of a stream to the position of a token in its tensor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import SupportsIndex

from stepsim.errors import ITensorError

Position = str | int | Mapping[str, int]
"""A position along one data dim: a loop's name or an expression such as ``"2*i + k + 3"``, a
constant, or the coefficient of each loop by name."""

_TERM = re.compile(
    r"(?P<sign>[+-]?)\s*(?:(?P<number>\d+)(?:\s*\*\s*(?P<loop>[^\W\d]\w*))?|(?P<name>[^\W\d]\w*))\s*"
)


@dataclass(frozen=True)
class AffineMap:
    """``results[i] = (coefficients, constant)``: the offset along data dim ``i``.

    Parameters
    ----------
    results
        For every data dim one coefficient per loop, outermost first, and a constant; the offset is
        ``constant + sum(coefficient * value of the loop)``.
    num_dims
        Number of loops.
    num_symbols
        Number of declared symbols. An itensor has none: its order is known at compile time.

    Raises
    ------
    ITensorError
        The number of coefficients of a result differs from the number of loops.
    """

    results: tuple[tuple[tuple[int, ...], int], ...]
    num_dims: int
    num_symbols: int = 0

    def __post_init__(self) -> None:
        results = tuple(
            (integers("coefficients of the map", coefficients), integers("constants", [const])[0])
            for coefficients, const in self.results
        )
        object.__setattr__(self, "results", results)
        for i, (coefficients, _) in enumerate(results):
            if len(coefficients) != self.num_dims:
                raise ITensorError(
                    f"affine map: result {i} has {len(coefficients)} coefficients, but the map has "
                    f"{self.num_dims} loops; give one coefficient per loop, 0 where a loop does "
                    "not move the token"
                )

    def __str__(self) -> str:
        loops = [f"d{p}" for p in range(self.num_dims)]
        symbols = f"[{','.join(f's{i}' for i in range(self.num_symbols))}]" * bool(self.num_symbols)
        return f"({','.join(loops)}){symbols}->({','.join(self.offset_texts(loops))})"

    def offset_texts(self, loops: Sequence[str]) -> list[str]:
        """The results written with the given names of loops."""
        return [_sum(coefficients, const, loops) for coefficients, const in self.results]


def integers(what: str, values: Iterable[object]) -> tuple[int, ...]:
    """Plain ints from any sequence of integers.

    Raises
    ------
    ITensorError
        A value is not an integer.
    """
    found = []
    for value in values:
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            raise ITensorError(f"{what}: expected integers, found {value!r}")
        found.append(value.__index__())
    return tuple(found)


def terms_of(position: Position) -> tuple[dict[str, int], int]:
    """Coefficient of each loop by name, and the constant, of a position along a data dim.

    Raises
    ------
    ITensorError
        The text is not a sum of loops, multiples of loops and integers.
    """
    if isinstance(position, Mapping):
        names = list(position)
        return dict(zip(names, integers("coefficients", position.values()), strict=True)), 0
    if not isinstance(position, str):
        return {}, integers("offset", [position])[0]
    terms: dict[str, int] = {}
    const = at = 0
    text = position.strip()
    while at < len(text) or not text:
        found = _TERM.match(text, at)
        if not found or (at and not found["sign"]):
            raise ITensorError(
                f"offset {position!r}: expected a sum such as 'i', '2*i + k' or 'i + 3' at "
                f"{text[at:]!r}"
            )
        sign = -1 if found["sign"] == "-" else 1
        name = found["loop"] or found["name"]
        size = sign * int(found["number"] or 1)
        if name:
            terms[name] = terms.get(name, 0) + size
        else:
            const += size
        at = found.end()
    return terms, const


def _sum(coefficients: Sequence[int], const: int, loops: Sequence[str]) -> str:
    """In the notation of compilers: 'd0 + 2*d1 - d2', or the constant alone."""
    parts = []
    for coefficient, loop in zip(coefficients, loops, strict=True):
        if coefficient:
            size = loop if abs(coefficient) == 1 else f"{abs(coefficient)}*{loop}"
            parts.append(("-" if coefficient < 0 else "+", size))
    if const or not parts:
        parts.append(("-" if const < 0 else "+", str(abs(const))))
    first, *rest = parts
    text = ("-" if first[0] == "-" else "") + first[1]
    return text + "".join(f" {sign} {size}" for sign, size in rest)
