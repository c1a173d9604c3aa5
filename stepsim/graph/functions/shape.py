"""Shapes of functions: ``"m k, k n -> m n"``, operands and results by letters."""

from __future__ import annotations

import re
from functools import cached_property

from stepsim.arguments import text_of
from stepsim.errors import ArgError
from stepsim.frozen import frozen
from stepsim.graph.functions.polynomial import ZERO, Polynomial

Sides = tuple[Polynomial, Polynomial]
"""Rows and columns, in letters."""

_LETTER = re.compile(r"[A-Za-z_]\w*\Z")
_HINT = "; write rows and columns of each tile, as in 'm k, k n -> m n'"
_BROADCAST = re.compile(r"broadcast( [1-9][0-9]?)?\Z")


@frozen(slots=False)
class Shape:
    """Sides of operands and results.

    Attributes
    ----------
    text : as users write it.
    operands : sides of the states, then of the elements.
    results : sides of the results.
    states : how many operands are states; with them there are as many results.
    broadcast : operands of any sides that are equal or 1; ``m`` and ``n`` are those of the result.
    """

    text: str
    operands: tuple[Sides, ...]
    results: tuple[Sides, ...]
    states: int = 0
    broadcast: bool = False

    @cached_property
    def sides(self) -> dict[str, int]:
        """The side that each letter stands for: of the first element that has it, else a state."""
        if self.broadcast:
            return {"m": 2 * len(self.operands), "n": 2 * len(self.operands) + 1}
        found: dict[str, int] = {}
        count = len(self.operands)
        for i in (*range(self.states, count), *range(self.states)):
            for j, side in enumerate(self.operands[i]):
                if side.letter is not None:
                    found.setdefault(side.letter, 2 * i + j)
        return found

    @cached_property
    def repeated(self) -> tuple[tuple[int, Polynomial, int | None], ...]:
        """Sides of operands that must equal another one: number, side, number of the other.

        None instead of the other where the side is more than a letter.
        """
        sides = self.sides
        found = []
        for i, tile in enumerate(self.operands):
            for j, side in enumerate(tile):
                other = None if side.letter is None else sides[side.letter]
                if other != 2 * i + j:
                    found.append((2 * i + j, side, other))
        return tuple(found)

    @cached_property
    def made_of(self) -> tuple[tuple[tuple[int | None, Polynomial], ...], ...]:
        """Sides of each result, with the number of the operands' side that it is, or None."""
        sides = self.sides
        return tuple(
            tuple((None if side.letter is None else sides[side.letter], side) for side in result)
            for result in self.results
        )

    @property
    def letters(self) -> tuple[str, ...]:
        return tuple(self.sides)

    @classmethod
    def parse(cls, where: str, text: object) -> Shape:
        """The shape that a user states.

        Raises
        ------
        ArgError : it cannot be read, or contradicts itself.
        """
        where = f"{where}: shape"
        given = text_of(where, text).strip()
        if given == "same":
            given = "m n -> m n"
        if _BROADCAST.match(given):
            return broadcast(int(given.partition(" ")[2] or 2))
        left, arrow, right = given.partition("->")
        if not arrow or "->" in right:
            raise ArgError(
                f"{where} is {given!r}, expected 'operands -> results', 'same' or 'broadcast'"
                f"{_HINT}"
            )
        before, semicolon, after = left.partition(";")
        if ";" in after or ";" in right:
            raise ArgError(f"{where} {given!r} has two ';', which ends the states of an operand")
        states = _tiles(where, before) if semicolon else ()
        elements = _tiles(where, after if semicolon else left)
        made = cls(given, (*states, *elements), _tiles(where, right), len(states))
        made._check(where)
        return made

    def _check(self, where: str) -> None:
        for tile in (*self.operands, *self.results):
            for side in tile:
                for letter in side.variables():
                    if letter not in self.sides:
                        raise ArgError(
                            f"{where} {self.text!r}: no operand has a side that is {letter} alone, "
                            "so that its size would not be known"
                        )
        if self.states and self.results != self.operands[: self.states]:
            raise ArgError(
                f"{where} {self.text!r}: states and results differ; an accumulation makes as many "
                "results as it has states, of the same shapes"
            )
        if self.states == len(self.operands):
            raise ArgError(f"{where} {self.text!r} has no element after the ';'")


def broadcast(operands: int, states: int = 0) -> Shape:
    """Tiles of any sides that are equal or 1; ``m`` and ``n`` are the result's."""
    text = "broadcast" if operands == 2 else f"broadcast {operands}"
    sides = (Polynomial.of("m"), Polynomial.of("n"))
    return Shape(text, (sides,) * operands, (sides,), states, broadcast=True)


def _tiles(where: str, text: str) -> tuple[Sides, ...]:
    tiles = []
    for tile in text.split(","):
        sides = tile.split()
        if len(sides) != 2:
            what = f"'{tile.strip()}'" if tile.strip() else "nothing"
            raise ArgError(f"{where} has {what} where a tile should be{_HINT}")
        tiles.append((side_of(where, sides[0]), side_of(where, sides[1])))
    return tuple(tiles)


def side_of(where: str, text: str, *, products: bool = False) -> Polynomial:
    """A sum of letters and numbers, such as ``a+b``, ``2*h`` or ``1``; of products if they may be.

    Raises
    ------
    ArgError : it is not such a sum.
    """
    total = ZERO
    for term in text.split("+"):
        number, letters = 1, []
        for factor in term.split("*"):
            if factor.isascii() and factor.isdigit():
                number *= int(factor)
            elif _LETTER.match(factor):
                letters.append(factor)
            else:
                raise ArgError(
                    f"{where}: cannot read the side {text!r}; a side is a letter, a number from 0 "
                    "or a sum of them such as a+b or 2*h"
                )
        if len(letters) > 1 and not products:
            raise ArgError(
                f"{where}: the side {text!r} is a product of letters; a side can be a sum of "
                "letters and numbers"
            )
        if number >= 2**31:
            raise ArgError(f"{where}: the side {text!r} is too large, tiles have up to 2**31 - 1")
        total += Polynomial.of(*letters, times=number)
    return total
