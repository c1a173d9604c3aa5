"""The atoms of formulas: symbols, rounded quotients, switches, maxima and expressions of sympy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from stepsim.graph.sizes.formula import Formula, Number, Size, above, constant_of, light, replaced

if TYPE_CHECKING:
    import sympy

# The assumptions that sympy derives for Symbol(name, integer=True, nonnegative=True), in the order
# in which it hashes them: tables can be looked up by a symbol in either form.
_ASSUMED = (
    ("algebraic", True), ("commutative", True), ("complex", True), ("extended_negative", False),
    ("extended_nonnegative", True), ("extended_real", True), ("finite", True), ("hermitian", True),
    ("imaginary", False), ("infinite", False), ("integer", True), ("irrational", False),
    ("negative", False), ("noninteger", False), ("nonnegative", True), ("rational", True),
    ("real", True), ("transcendental", False),
)  # fmt: skip


class Symbol(Formula):
    """An unknown non-negative integer."""

    __slots__ = ("name",)

    name: str

    def __init__(self, name: str) -> None:
        self.name = name
        self._settle(hash(("Symbol", name, *_ASSUMED)))

    @property
    def is_symbol(self) -> bool:
        return True

    def symbols(self) -> frozenset[Formula]:
        return frozenset((self,))

    def value(self, table: Mapping[Any, int]) -> Number:
        return table[self]

    def _same(self, other: Symbol) -> bool:
        return self.name == other.name

    def __reduce__(self) -> Any:
        return Symbol, (self.name,)


class CeilDiv(Formula):
    """``ceil(top / divisor)``; its only representation in this package."""

    __slots__ = ("divisor", "top")

    top: Formula
    divisor: int

    def __init__(self, top: Any, divisor: int) -> None:
        self.top, self.divisor = light(top), divisor
        self._settle(hash(("CeilDiv", self.top, divisor)))

    def parts(self) -> Iterable[Formula]:
        return (self.top,)

    def value(self, table: Mapping[Any, int]) -> Number:
        return -(-self.top.value(table) // self.divisor)

    def _rebuilt(self, table: Mapping[Any, Size]) -> Size:
        top = self.top.replaced(table)
        number = constant_of(top)
        return CeilDiv(top, self.divisor) if number is None else -(-number // self.divisor)

    def _same(self, other: CeilDiv) -> bool:
        return self.divisor == other.divisor and self.top == other.top

    def __reduce__(self) -> Any:
        return CeilDiv, (self.top, self.divisor)


class Active(Formula):
    """``Min(1, of)``: 1 if ``of`` > 0 else 0."""

    __slots__ = ("of",)

    of: Formula

    def __init__(self, of: Any) -> None:
        self.of = light(of)
        self._settle(hash(("Active", self.of)))

    def parts(self) -> Iterable[Formula]:
        return (self.of,)

    def value(self, table: Mapping[Any, int]) -> Number:
        return int(self.of.value(table) > 0)

    def _rebuilt(self, table: Mapping[Any, Size]) -> Size:
        of = self.of.replaced(table)
        number = constant_of(of)
        if number is not None:
            return int(number > 0)
        return of if isinstance(of, Active) else Active(of)

    def _same(self, other: Active) -> bool:
        return self.of == other.of

    def __reduce__(self) -> Any:
        return Active, (self.of,)


class Largest(Formula):
    """The largest of some sizes, which are compared only once all of them are known."""

    __slots__ = ("sizes",)

    sizes: frozenset[Size]

    def __init__(self, sizes: Iterable[Size]) -> None:
        self.sizes = frozenset(sizes)
        self._settle(hash(("Max", self.sizes)))

    @property
    def is_nonnegative(self) -> bool:
        return any(s >= 0 if isinstance(s, int) else s.is_nonnegative for s in self.sizes)

    def parts(self) -> Iterable[Formula]:
        return (size for size in self.sizes if not isinstance(size, int))

    def value(self, table: Mapping[Any, int]) -> Number:
        return max(s if isinstance(s, int) else s.value(table) for s in self.sizes)

    def _rebuilt(self, table: Mapping[Any, Size]) -> Size:
        return _folded(replaced(size, table) for size in self.sizes)

    def _same(self, other: Largest) -> bool:
        return self.sizes == other.sizes

    def __reduce__(self) -> Any:
        return Largest, (tuple(self.sizes),)


def _folded(sizes: Iterable[Size]) -> Size:
    """The maximum as sympy simplifies it: numbers are compared, nested maxima merged."""
    numbers: dict[Number, Size] = {}
    open_: set[Size] = set()
    for size in sizes:
        for one in size.sizes if isinstance(size, Largest) else (size,):
            number = constant_of(one)
            if number is None:
                open_.add(one)
            else:
                numbers[number] = one
    if numbers:
        open_.add(numbers[max(numbers)])
    return next(iter(open_)) if len(open_) == 1 else Largest(open_)


class Opaque(Formula):
    """An expression of sympy that formulas cannot represent."""

    __slots__ = ("expression",)

    expression: Any

    def __init__(self, expression: sympy.Expr) -> None:
        self.expression = expression
        self._settle(hash(expression))
        self._expression = expression

    @property
    def is_symbol(self) -> bool:
        return bool(self.expression.is_Symbol)

    @property
    def is_nonnegative(self) -> bool:
        return bool(self.expression.is_nonnegative)

    def parts(self) -> Iterable[Formula]:
        return (light(s) for s in self.expression.free_symbols)

    def symbols(self) -> frozenset[Formula]:
        return frozenset((self,)) if self.is_symbol else super().symbols()

    def value(self, table: Mapping[Any, int]) -> Number:
        if self.is_symbol:
            return table[self]
        known = {s: table[s] for s in self.symbols()}
        return above("sympy_forms").value_of(self.expression, known)  # type: ignore[no-any-return]

    def _rebuilt(self, table: Mapping[Any, Size]) -> Size:
        found: Size = above("sympy_forms").replaced_in(self.expression, table)
        return found

    def _same(self, other: Opaque) -> bool:
        return bool(self.expression == other.expression)

    def __reduce__(self) -> Any:
        return Opaque, (self.expression,)
