"""Types of the parts of a condition, checked before the condition is evaluated."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from stepsim.errors import ArgError

Kind = Literal["number", "text", "boolean", "list", "mapping"]
Kinds = frozenset[Kind]
"""The kinds of the values of a column; empty if unknown."""

EQUALITY = (ast.Eq, ast.NotEq)
MEMBERSHIP = (ast.In, ast.NotIn)
_NUMBER: Kinds = frozenset({"number"})
_TEXT: Kinds = frozenset({"text"})
_BOOLEAN: Kinds = frozenset({"boolean"})


def kinds_of(values: Iterable[Any]) -> Kinds:
    """The kinds of some values; None has no kind."""
    return frozenset(kind for value in values if (kind := kind_of(value)) is not None)


def kind_of(value: Any) -> Kind | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    return "mapping" if isinstance(value, Mapping) else "list"


class Types:
    """Refuses expressions that are invalid for all values of their columns.

    ``columns`` has kinds by name, as written in the text. An empty set is unknown, and fits
    everything.
    """

    def __init__(self, text: str, columns: Mapping[str, Kinds]) -> None:
        self._text = text
        self._columns = columns

    def check(self, node: ast.expr) -> None:
        """The whole expression must be true or false."""
        self._truth(node)

    def _truth(self, node: ast.expr) -> None:
        kinds = self._of(node)
        if is_none(node) or (kinds and kinds != _BOOLEAN):
            raise self._error(node, f"is {_named(kinds)}, expected true or false; compare it")

    def _of(self, node: ast.expr) -> Kinds:
        match node:
            case ast.Constant():
                return kinds_of([node.value])
            case ast.Name() | ast.Attribute():
                return self._columns.get(dotted(node), frozenset())
            case ast.BoolOp():
                for one in node.values:
                    self._truth(one)
                return _BOOLEAN
            case ast.UnaryOp(op=ast.Not()):
                self._truth(node.operand)
                return _BOOLEAN
            case ast.UnaryOp():
                return self._number(node, [node.operand])
            case ast.BinOp():
                return self._number(node, [node.left, node.right])
            case ast.Compare():
                sides = [node.left, *node.comparators]
                for how, one, other in zip(node.ops, sides, sides[1:], strict=False):
                    self._pair(node, how, one, other)
                return _BOOLEAN
        raise self._error(node, "is a list, which is valid only to the right of in")

    def _number(self, node: ast.expr, operands: list[ast.expr]) -> Kinds:
        for one in operands:
            kinds = self._of(one)
            if is_none(one) or (kinds and kinds != _NUMBER):
                part = part_of(self._text, one)
                raise self._error(
                    node, f"calculates with {part}, which is {_named(kinds)}, expected numbers"
                )
        return _NUMBER

    def _pair(self, node: ast.expr, how: ast.cmpop, one: ast.expr, other: ast.expr) -> None:
        if isinstance(how, MEMBERSHIP):
            if not isinstance(other, ast.Tuple | ast.List):
                raise self._error(node, "needs a list after in, as in (8, 16)")
            for each in other.elts:
                self._pair(node, ast.Eq(), one, each)
            return
        a, b = self._of(one), self._of(other)
        if isinstance(how, EQUALITY):
            alike = bool(a & b & (_NUMBER | _TEXT | _BOOLEAN)) or is_none(one) or is_none(other)
            # For a column with numbers and words, a number in quotes is not one of the words.
            quoted = _quotes_number(one, b) or _quotes_number(other, a)
        else:
            alike = ("number" in a and "number" in b) or a == b == _TEXT
            quoted = False
            if not a or not b:  # an unknown kind may be ordered
                alike = bool((a | b) & (_NUMBER | _TEXT)) or not (a | b)
                alike = alike and not is_none(one) and not is_none(other)
        if quoted or not (alike or (isinstance(how, EQUALITY) and not (a and b))):
            sides = [
                f"{part_of(self._text, side)} is {_named(kinds)}"
                for side, kinds in ((one, a), (other, b))
            ]
            advice = "write numbers without quotes and texts in them"
            if not (a | b) <= _NUMBER | _TEXT | _BOOLEAN:
                advice = "numbers, texts and true or false can be compared"
            raise self._error(node, f"compares different types: {' and '.join(sides)}; {advice}")

    def _error(self, node: ast.expr, problem: str) -> ArgError:
        return ArgError(f"condition '{self._text}': '{part_of(self._text, node)}' {problem}")


def _named(kinds: Kinds) -> str:
    words = {
        "number": "a number", "text": "a text", "boolean": "true or false", "list": "a list",
        "mapping": "a mapping",
    }  # fmt: skip
    return " or ".join(word for kind, word in words.items() if kind in kinds) or "nothing"


def _quotes_number(node: ast.expr, other: Kinds) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    try:
        float(node.value)
    except ValueError:
        return False
    return "number" in other


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def part_of(text: str, node: ast.AST) -> str:
    """How a part of a condition was written; `ast.unparse` would fail on one that is deep."""
    return f"{ast.get_source_segment(text.strip(), node) or text:.60}"


def dotted(node: ast.AST) -> str:
    """``machine.hbm.channels`` for names with dots; empty for anything else."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
