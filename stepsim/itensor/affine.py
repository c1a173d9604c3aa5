"""Affine maps from the loops of a stream to the position of a token in its tensor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral

from stepsim.errors import ITensorError
from stepsim.shown import shown
from stepsim.typed import typed, typed_fields

_LARGEST = 1 << 62
"""Of a size or a coefficient; offsets are of 64 bits."""

Position = str | int | Mapping[str, int]
"""A position along one data dim: a loop's name or an expression such as ``"2*i + k + 3"``, a
constant, or the coefficient of each loop by name."""

_TERM = re.compile(
    r"(?P<sign>[+-]?)\s*(?:(?P<number>\d+)(?:\s*\*\s*(?P<loop>[^\W\d]\w*))?|(?P<name>[^\W\d]\w*))\s*"
)


@typed_fields
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

    @typed
    def offset_texts(self, loops: Sequence[str]) -> list[str]:
        """The results written with the given names of loops.

        Raises
        ------
        ITensorError
            There are more or fewer names than loops.
        """
        if len(loops) != self.num_dims:
            raise ITensorError(
                f"the map has {self.num_dims} loops, found {len(loops)} names; name each of them"
            )
        return [_sum(coefficients, const, loops) for coefficients, const in self.results]


def integers(what: str, values: Iterable[object]) -> tuple[int, ...]:
    """Plain ints from any sequence of integers.

    Raises
    ------
    ITensorError
        A value is not an integer.
    """
    return tuple(_integer(what, value) for value in listed(what, values))


def integers_or_none(what: str, values: Iterable[object]) -> None:
    """Check a sequence whose integers are not all known."""
    for value in listed(what, values):
        if value is not None:
            _integer(what, value)


def listed(what: str, values: Iterable[object]) -> Iterable[object]:
    """The values, if they are a list."""
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise ITensorError(f"{what}: expected a list of integers, found {shown(values)}")
    return values


def _integer(what: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ITensorError(f"{what}: expected integers, found {shown(value)}")
    found = int(value)
    if abs(found) > _LARGEST:
        raise ITensorError(f"{what}: expected integers up to 2**62, found {shown(value)}")
    return found


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
