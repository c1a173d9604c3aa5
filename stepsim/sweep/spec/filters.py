"""Conditions on columns as text: ``tile in (16, 32) and channels <= 32``.

A small part of Python's expressions: names, numbers, quoted texts, lists of these, ``+ - * /``,
comparisons, ``in``, ``and``, ``or``, ``not``. Nothing is called, and nothing is looked up outside
the given values, so a condition from any source is safe.

Compared values must have the same type, which is checked before anything is evaluated. Logic has
three values as in SQL: an expression that depends on a missing value is unknown, and so is its
``not``.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from stepsim.errors import ArgError, did_you_mean
from stepsim.sweep.spec.filter_types import (
    EQUALITY,
    MEMBERSHIP,
    Kinds,
    Types,
    dotted,
    is_none,
    kind_of,
    part_of,
)

_MOST_CHARACTERS = 2000
_MOST_DEPTH = 50
_NAMES_SHOWN = 12

_ORDERED: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_NEGATED = (ast.NotEq, ast.NotIn)
_COMPARED = (*_ORDERED, *EQUALITY, *MEMBERSHIP)
_CALCULATE: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True)
class Condition:
    """A condition that was parsed and checked.

    Attributes
    ----------
    text : the condition as it was written.
    names : the names in it, in the order of the text.
    """

    text: str
    names: tuple[str, ...]
    _tree: ast.expr
    _full: Mapping[str, str] = field(default_factory=dict)

    def resolved(self, known: Mapping[str, Kinds]) -> Condition:
        """The same with the full names of ``known``, see :func:`find_name`, checked against the
        kinds of their values.

        Raises
        ------
        ArgError
            A name is unknown or ambiguous, or values of different types are compared.
        """
        where = f"condition '{self.text}', in which a text is quoted"
        full = {name: find_name(name, known, where) for name in self.names}
        Types(self.text, {name: known[own] for name, own in full.items()}).check(self._tree)
        return Condition(self.text, tuple(full.values()), self._tree, full)

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether it is known to be true for these values by full name; raises like `truth`."""
        return self.truth(values) is True

    def truth(self, values: Mapping[str, Any]) -> bool | None:
        """Whether it is true for these values by full name; None if that is not known.

        Raises
        ------
        ArgError
            It calculates with a value that is not a number, or its value is not true or false.
        """
        return self._truth(self._tree, values)

    def _value(self, node: ast.expr, values: Mapping[str, Any]) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name() | ast.Attribute():
                name = dotted(node)
                return values[self._full.get(name, name)]
            case ast.BoolOp():
                return self._joined(node, values)
            case ast.UnaryOp(op=ast.Not()):
                outcome = self._truth(node.operand, values)
                return None if outcome is None else not outcome
            case ast.UnaryOp():
                return self._calculated(node, operator.mul, (-1, self._value(node.operand, values)))
            case ast.BinOp():
                pair = self._value(node.left, values), self._value(node.right, values)
                return self._calculated(node, _CALCULATE[type(node.op)], pair)
            case ast.Compare():
                return self._compared(node, values)
        raise AssertionError(node)  # `parse_condition` lets nothing else through

    def _truth(self, node: ast.expr, values: Mapping[str, Any]) -> bool | None:
        found = self._value(node, values)
        if found is None or isinstance(found, bool):
            return found
        raise ArgError(
            f"condition '{self.text}': the value of '{part_of(self.text, node)}' is {found!r}, "
            "expected true or false; compare it with something"
        )

    def _joined(self, node: ast.BoolOp, values: Mapping[str, Any]) -> bool | None:
        decides = isinstance(node.op, ast.Or)
        found: bool | None = not decides
        for one in node.values:
            outcome = self._truth(one, values)
            if outcome is decides:
                return decides
            found = None if outcome is None else found
        return found

    def _calculated(
        self, node: ast.expr, what: Callable[[Any, Any], Any], pair: tuple[Any, Any]
    ) -> Any:
        """The value; None (unknown) if an operand is missing or the result is not finite."""
        if None in pair:
            return None
        for one in pair:
            if kind_of(one) != "number":
                raise ArgError(
                    f"condition '{self.text}': '{part_of(self.text, node)}' calculates with "
                    f"{one!r}, expected numbers"
                )
        try:
            found = what(*pair)
            return found if math.isfinite(found) else None
        except (ZeroDivisionError, OverflowError):
            return None

    def _compared(self, node: ast.Compare, values: Mapping[str, Any]) -> bool | None:
        found: bool | None = True
        sides = [node.left, *node.comparators]
        for how, one, other in zip(node.ops, sides, sides[1:], strict=False):
            left = self._value(one, values)
            if isinstance(how, MEMBERSHIP):
                assert isinstance(other, ast.Tuple | ast.List)  # `Types` lets nothing else through
                each = [self._equal(one, left, o, self._value(o, values)) for o in other.elts]
                outcome = True if True in each else None if None in each else False
            elif isinstance(how, EQUALITY):
                outcome = self._equal(one, left, other, self._value(other, values))
            else:
                outcome = _in_order(how, left, self._value(other, values))
            if isinstance(how, _NEGATED) and outcome is not None:
                outcome = not outcome
            if outcome is False:
                return False
            found = None if outcome is None else found
        return found

    def _equal(self, one: ast.expr, left: Any, other: ast.expr, right: Any) -> bool | None:
        if is_none(one) or is_none(other):
            return left is None and right is None
        if left is None or right is None:
            return None
        return kind_of(left) == kind_of(right) and bool(left == right)


def _in_order(how: ast.cmpop, left: Any, right: Any) -> bool | None:
    # On an axis with numbers and words, as tile with 'dynamic', words have no order.
    kind = kind_of(left)
    if kind != kind_of(right) or kind not in ("number", "text"):
        return None
    return _ORDERED[type(how)](left, right)


def parse_condition(text: str) -> Condition:
    """Read a condition.

    Raises
    ------
    ArgError
        The text is not a condition; the message has the part that is not understood.
    """
    tree = _parsed(text)
    names: dict[str, None] = {}
    _check(text, tree, names, 0)
    Types(text, {}).check(tree)
    return Condition(text, tuple(names), tree)


def find_name(name: str, known: Iterable[str], where: str) -> str:
    """The full name: itself, or the only one that ends with it, as ``channels`` for
    ``machine.hbm.channels``.

    Raises
    ------
    ArgError
        No name ends with it, or several do.
    """
    every = list(dict.fromkeys(known))
    found = names_ending_with(name, every)
    if len(found) == 1:
        return found[0]
    if found:
        raise ArgError(f"{where}: '{name}' may be {' or '.join(found)}; write the full name")
    hint = did_you_mean(name, every)
    if hint == "." and every:
        some = ", ".join(every[:_NAMES_SHOWN]) + (", ..." if len(every) > _NAMES_SHOWN else "")
        hint = f"; known are {some}"
    raise ArgError(f"{where}: unknown name '{name}'{hint}")


def names_ending_with(name: str, known: Iterable[str]) -> list[str]:
    """The full names that ``name`` may be short for, see :func:`find_name`; itself if it is one."""
    every = list(dict.fromkeys(known))
    if name in every:
        return [name]
    # Both `hbm.channels` and `hbm_channels` are short for `machine.hbm.channels`.
    ending = "_" + name.replace(".", "_")
    endings = [full for full in every if full.replace(".", "_").endswith(ending)]
    return [full for full in endings if full.endswith(f".{name}")] or endings


def _parsed(text: str) -> ast.expr:
    if len(text) > _MOST_CHARACTERS:
        raise ArgError(
            f"condition of {len(text):,} characters, expected at most {_MOST_CHARACTERS:,}"
        )
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        place = f" at character {error.offset}" if isinstance(error, SyntaxError) else ""
        raise ArgError(
            f"condition '{text}': cannot be read{place}; expected comparisons as in "
            "tile in (16, 32) and channels <= 32"
        ) from None


def _check(text: str, node: ast.AST, names: dict[str, None], depth: int) -> None:
    """Refuse unknown expressions, and collect the names."""
    if depth > _MOST_DEPTH:
        raise ArgError(
            f"condition '{text:.200}': '{part_of(text, node)}' is not understood, since it is "
            f"nested more than {_MOST_DEPTH} deep; write it shorter"
        )
    inner: list[ast.expr] = []
    known = True
    match node:
        case ast.Constant(value=int() | float() as value):
            if not _is_finite(value):
                raise ArgError(
                    f"condition '{text}': '{part_of(text, node)}' is too large, expected "
                    "numbers up to 1e308"
                )
        case ast.Constant(value=str() | None):
            pass
        case ast.Name() | ast.Attribute() if dotted(node):
            names[dotted(node)] = None
        case ast.Tuple() | ast.List():
            inner = node.elts
        case ast.BoolOp():
            inner = node.values
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            inner = [node.operand]
        case ast.BinOp() if type(node.op) in _CALCULATE:
            inner = [node.left, node.right]
        case ast.Compare() if all(isinstance(how, _COMPARED) for how in node.ops):
            inner = [node.left, *node.comparators]
        case _:
            known = False
    if not known:
        raise ArgError(
            f"condition '{text}': '{part_of(text, node)}' is not understood; expected names, "
            "numbers, quoted texts, lists, + - * /, comparisons, in, and, or, not"
        )
    for one in inner:
        _check(text, one, names, depth + 1)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
