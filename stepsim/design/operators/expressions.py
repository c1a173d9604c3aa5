"""Expressions of generic operators: nested tuples of functions that ``st.fn`` has.

``("arg", i)`` is the value of input ``i``, ``("const", c)`` a number, and ``(name, *operands)`` a
function of scalars by its name in ``st.fn``. Names, arity, FLOPs and values are those of the table
of functions, so that nothing is said a second time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepsim.errors import CompileError, did_you_mean
from stepsim.graph import Function
from stepsim.graph.functions import elementwise
from stepsim.shown import shown

Expr = tuple[Any, ...]
"""``("arg", 0)``, ``("const", 1.0)`` or ``("add", left, right)``."""

_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=",
}  # fmt: skip


FUNCTIONS: Mapping[str, Function] = {
    fn.name: fn for fn in vars(elementwise).values() if isinstance(fn, Function)
}
"""Functions of scalars that expressions can have, by name."""


def function_of(name: str) -> Function:
    """The function of a name.

    Raises
    ------
    CompileError : ``st.fn`` has none of scalars.
    """
    fn = FUNCTIONS.get(name)
    if fn is None:
        raise CompileError(
            f"'{name}' is not a scalar function of st.fn"
            + did_you_mean(name, ("arg", "const", *FUNCTIONS))
        )
    return fn


def check_expression(body: object, inputs: int) -> None:
    """Refuse what is not an expression of so many inputs.

    Raises
    ------
    CompileError : a function is unknown or has another number of operands, or an input is missing.
    """
    if not isinstance(body, tuple) or not body or not isinstance(body[0], str):
        raise CompileError(f"expected a tuple that starts with a name, found {shown(body)}")
    head, *rest = body
    if head == "arg":
        if len(rest) != 1 or type(rest[0]) is not int or not 0 <= rest[0] < inputs:
            raise CompileError(f"expected ('arg', i) with i below {inputs}, found {shown(body)}")
        return
    if head == "const":
        if len(rest) != 1 or type(rest[0]) is not float or math.isnan(rest[0]):
            raise CompileError(f"expected ('const', number) with a float, found {shown(body)}")
        return
    arity = function_of(head).arity
    if len(rest) != arity:
        raise CompileError(f"{head} takes {arity} operands, found {len(rest)} in {body!r}")
    for operand in rest:
        check_expression(operand, inputs)


def arguments_of(body: Expr) -> tuple[int, ...]:
    """Numbers of the inputs that an expression reads, each once, in order of appearance."""
    if body[0] == "arg":
        return (body[1],)
    if body[0] == "const":
        return ()
    return tuple(dict.fromkeys(i for operand in body[1:] for i in arguments_of(operand)))


def times_read(body: Expr, number: int) -> int:
    """How often an expression has an input."""
    if body[0] in ("arg", "const"):
        return int(body == ("arg", number))
    return sum(times_read(operand, number) for operand in body[1:])


def substituted(body: Expr, inputs: Mapping[int, Expr]) -> Expr:
    """The expression with other expressions in place of inputs."""
    if body[0] == "arg":
        return inputs.get(body[1], body)
    if body[0] == "const":
        return body
    return (body[0], *(substituted(operand, inputs) for operand in body[1:]))


def flops_of_expression(body: Expr) -> int:
    """FLOPs of one evaluation: the sum of the weights that ``st.fn`` gives its functions."""
    if body[0] in ("arg", "const"):
        return 0
    weight = int(function_of(body[0]).flops.at({"m": 1, "n": 1}))
    return weight + sum(flops_of_expression(operand) for operand in body[1:])


def value_of(body: Expr, inputs: Sequence[Any], number: Callable[[float], Any]) -> Any:
    """The expression for arrays that broadcast; ``number`` makes a scalar of their type."""
    if body[0] == "arg":
        return inputs[body[1]]
    if body[0] == "const":
        return number(body[1])
    operands = [value_of(operand, inputs, number) for operand in body[1:]]
    values = function_of(body[0]).values
    assert values is not None  # all standard functions have values
    return values(*operands)


def products_of(body: Expr) -> tuple[float, tuple[int, ...]] | None:
    """The constant and the inputs whose product the expression is; None if it is not a product."""
    if body[0] == "arg":
        return 1.0, (body[1],)
    if body[0] == "const":
        return body[1], ()
    if body[0] != "mul":
        return None
    left, right = products_of(body[1]), products_of(body[2])
    if left is None or right is None:
        return None
    return left[0] * right[0], (*left[1], *right[1])


def expression_text(body: Expr, inputs: Sequence[str]) -> str:
    """The expression as a formula of the texts of its inputs."""
    head, *rest = body
    if head == "arg":
        return inputs[rest[0]]
    if head == "const":
        return f"{rest[0]:g}"
    texts = [expression_text(operand, inputs) for operand in rest]
    if head not in _SIGNS:
        return f"{head}({', '.join(texts)})"
    shown = [
        f"({text})" if operand[0] in _SIGNS else text
        for text, operand in zip(texts, rest, strict=True)
    ]
    return f" {_SIGNS[head]} ".join(shown)
