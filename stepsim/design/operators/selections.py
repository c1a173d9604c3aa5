"""Numbers that choose places of an axis in a run: expressions, and the check of their values."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.design.operators.expressions import Expr
from stepsim.design.operators.types import Op

CHOSEN: Final[Expr] = ("where", ("eq", ("arg", 0), ("arg", 1)), ("arg", 2), ("const", 0.0))
"""Of a number, a position and a value: the value where the number is the position, else 0."""


def rank_body(least: bool) -> Expr:
    """Whether another value (1) at its position (3) comes before one (0) at its own (2)."""
    own, other = ("arg", 0), ("arg", 1)
    return (
        "add", ("lt" if least else "gt", other, own),
        ("mul", ("eq", other, own), ("lt", ("arg", 3), ("arg", 2))),
    )  # fmt: skip


_RANKS: Final = (rank_body(least=False), rank_body(least=True))


def is_rank(op: Op | None) -> bool:
    """Whether an operator ranks values; ranks beyond those that are wanted choose nothing."""
    return op is not None and op.body in _RANKS


def check_chosen(op: Op, numbers: NDArray[Any], positions: NDArray[Any]) -> None:
    """Refuse numbers that are not positions.

    Parameters
    ----------
    numbers, positions : values of the first two operands.

    Raises
    ------
    CompileError : names the operator, the first such number and the positions.
    """
    wrong = ~np.isin(numbers, positions)
    if wrong.any():
        op.refuse(
            f"{numbers[wrong][0]:g} of '{op.inputs[0].tensor}' is not one of its positions, "
            f"{positions.min():g} to {positions.max():g}",
            "give values with which the model computes positions of the axis",
        )
