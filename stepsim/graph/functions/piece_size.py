"""Sizes of the pieces that a stream function cuts from a tile, in letters: ``ceil(rows/4)``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from stepsim.errors import ArgError, did_you_mean
from stepsim.frozen import frozen
from stepsim.graph.functions.polynomial import ZERO, Polynomial
from stepsim.graph.functions.shape import side_of
from stepsim.graph.sizes.sizes import Size, ceil_div, divided

PIECE_WORDS = ("rows", "cols", "valid", "length")
_LETTERS = {"m": "rows", "n": "cols"}
_CEILING = re.compile(r"ceil\((.+)/([0-9]{1,10})\)")
_QUOTIENT = re.compile(r"(.+)/([0-9]{1,10})")


@frozen
class PieceSize:
    """A polynomial in the words of :data:`PIECE_WORDS`, divided by a number and rounded up.

    ``exact``: the number divides it.
    """

    top: Polynomial
    divisor: int = 1
    exact: bool = False

    def at(self, values: Mapping[str, Size]) -> Size:
        top = self.top.at(values)
        if self.exact and not isinstance(top, int):
            return divided(top, self.divisor)
        return ceil_div(top, self.divisor)

    def __str__(self) -> str:
        terms = []
        for number, words in self.top.terms:
            factors = [str(number)] if number != 1 or not words else []
            terms.append("*".join([*factors, *words]))
        top = " + ".join(terms) or "0"
        if self.divisor == 1:
            return top
        inner = f"({top})" if len(terms) > 1 else top
        return f"{inner}/{self.divisor}" if self.exact else f"ceil({inner}/{self.divisor})"


def size_in_words(what: str, text: str, words: Sequence[str]) -> int | str:
    """A size as a user writes it, in its one spelling: an int, a word or a formula of words.

    Raises
    ------
    ArgError : it cannot be read, has other words or is not a size of this kind.
    """
    size = _parsed(what, text, words)
    constant = size.top.constant
    if constant is None:
        return str(size)
    if size.exact and constant % size.divisor:
        raise ArgError(f"{what} holds {text!r}, which is not a whole number; write ceil({text})")
    return -(-constant // size.divisor)


@lru_cache
def piece_size(text: str) -> PieceSize:
    """The size that :func:`size_in_words` has spelled."""
    return _parsed("a size of pieces", text, PIECE_WORDS)


def _parsed(what: str, text: str, words: Sequence[str]) -> PieceSize:
    given = text.replace(" ", "")
    for sign, why in (
        ("-", "without differences, which could be below 0 for small tiles"),
        ("//", "and what a floor leaves would be lost; write ceil(m/4), or m/4 where 4 divides m"),
        ("**", "in products, such as m*m"),
        ("max(", "without choices, of which no sum over tiles is known"),
        ("min(", "without choices, of which no sum over tiles is known"),
    ):
        if sign in given:
            raise ArgError(
                f"{what} holds {text!r}: a size is a sum of products of sides, {why}; it may be "
                "divided by a number"
            )
    divisor, exact = 1, False
    if found := _CEILING.fullmatch(given):
        given, divisor = found[1], int(found[2])
    elif found := _QUOTIENT.fullmatch(given):
        given, divisor, exact = found[1], int(found[2]), True
    if given.startswith("(") and given.endswith(")"):
        given = given[1:-1]
    if divisor == 0 or divisor >= 2**31:
        raise ArgError(f"{what} holds {text!r}: the divisor must be from 1 to 2**31 - 1")
    if "/" in given or "(" in given:
        raise ArgError(
            f"{what} holds {text!r}: only the whole size can be divided, by a number, as in m/2 or "
            "ceil((m+n)/4); sums of rounded parts and division by a side are not polynomials"
        )
    top = ZERO
    for number, letters in side_of(what, given, products=True).terms:
        for letter in letters:
            if _LETTERS.get(letter, letter) not in words:
                known = ", ".join(map(repr, words))
                raise ArgError(
                    f"{what} holds {text!r}, expected an int or one of {known}, or a formula of "
                    f"them such as 2*m or ceil(m/4), where m is 'rows' and n 'cols'"
                    f"{did_you_mean(letter, words)}"
                )
        top += Polynomial.of(*sorted(_LETTERS.get(x, x) for x in letters), times=number)
    if all(number % divisor == 0 for number, _ in top.terms):
        top = Polynomial(tuple((number // divisor, words) for number, words in top.terms))
        divisor, exact = 1, False
    return PieceSize(top, divisor, exact)
