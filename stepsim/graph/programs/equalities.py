"""Equalities of dims in a program: proved from their sizes, or stated by the user."""

from __future__ import annotations

from collections.abc import Sequence

from stepsim.frozen import frozen
from stepsim.graph.sizes.dims import Dim, Kind
from stepsim.graph.sizes.formula import constant_of
from stepsim.graph.sizes.sizes import Size


@frozen
class Assumption:
    """An equality that the user stated; a run must check it."""

    text: str
    left: Dim
    right: Dim
    source: str


class Equalities:
    """The sizes of a program that are known to be equal.

    Attributes
    ----------
    stated : equalities stated by the user that do not follow from the rest.
    unified : replacements of sizes by equal ones, left to right.
    """

    def __init__(self) -> None:
        self.stated: list[Assumption] = []
        self.unified: dict[Size, Size] = {}

    def copy(self) -> Equalities:
        """A copy, for another program."""
        made = Equalities()
        made.stated, made.unified = list(self.stated), dict(self.unified)
        return made

    def state(self, text: str, left: Sequence[Dim], right: Sequence[Dim], source: str) -> None:
        """Unify dims pairwise."""
        for a, b in zip(left, right, strict=True):
            if self.compare(a, b):
                continue
            self.stated.append(Assumption(text, a, b, source))
            x, y = self._canon(a.size), self._canon(b.size)
            if isinstance(x, int) or (not isinstance(y, int) and not x.is_symbol and y.is_symbol):
                x, y = y, x
            if isinstance(y, int) or y.replaced({x: y}) == y:
                self.unified[x] = y
            # else one side is part of the other, and replacing it would never end: a run checks it

    def compare(self, a: Dim, b: Dim) -> bool | None:
        """True: proved equal, False: proved different, None: unknown."""
        x, y = self._canon(a.size), self._canon(b.size)
        if x == y:
            return True
        if isinstance(x, int) and isinstance(y, int):
            return False
        if Kind.RG in (a.kind, b.kind):
            return None
        gap = constant_of(x - y)
        if gap is None:
            return None
        return gap == 0

    def _canon(self, expr: Size) -> Size:
        while self.unified and not isinstance(expr, int):
            changed = expr.replaced(self.unified)
            if changed == expr:
                break
            expr = changed
        return expr
