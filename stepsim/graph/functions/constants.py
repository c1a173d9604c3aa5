"""Functions of each scalar and a constant, and their FLOPs per scalar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stepsim.arguments import scalar, shown
from stepsim.errors import ArgError
from stepsim.graph.functions.function import Function
from stepsim.graph.functions.standard import PUBLISHED, SAME_AS_PUBLISHED, WHOLE, family, standard
from stepsim.graph.sizes.limits import NUMBER


def _with(
    name: str, value: float, values: Callable[[Any, Any], Any], formula: str, divides: bool = False,
    integers: str = "", **more: Any,
) -> Function:  # fmt: skip
    """A function of each scalar and a constant, by its ``values``; the formula is for its text.

    ``integers`` is the rule by which it is a function of whole numbers too, if the constant is one.
    """
    c = np.float32(scalar(f"{name}: value", value))
    if c == 0 and divides:
        raise ArgError(f"{name} takes a number other than 0 in f32, found {shown(value)}")
    text, rule = "The scalar costs nothing. Valid rows stay.", None
    if integers and float(value).is_integer() and NUMBER.holds(int(value)):
        text, rule = f"{text} {WHOLE}", (integers, 0, int(value))
    return standard(
        name, "same", lambda x: values(x, c), f"``{formula}``.", text=text, arguments=(value,),
        integers=rule, **more,
    )  # fmt: skip


@family(1)
def add_const(value: float) -> Function:
    """``x + value`` for every scalar.

    Parameters
    ----------
    value : the number.
    """
    return _with("add_const", value, np.add, f"x + {shown(value, str)}", integers="plus", weight=1)


@family(1)
def sub_const(value: float) -> Function:
    """``x - value`` for every scalar.

    Parameters
    ----------
    value : the number.
    """
    return _with(
        "sub_const", value, np.subtract, f"x - {shown(value, str)}", integers="minus", weight=1
    )


@family(1)
def mul_const(value: float) -> Function:
    """``x * value`` for every scalar, such as the scale of attention scores.

    Parameters
    ----------
    value : the number.
    """
    return _with(
        "mul_const", value, np.multiply, f"x * {shown(value, str)}", integers="times", weight=1
    )


@family(1)
def div_const(value: float) -> Function:
    """``x / value`` for every scalar.

    Parameters
    ----------
    value : the number, not 0.
    """
    flops = f"{SAME_AS_PUBLISHED}: as div."
    return _with(
        "div_const", value, np.divide, f"x / {shown(value, str)}", True, weight=1, flops=flops
    )


@family(1)
def floor_div_const(value: float) -> Function:
    """``floor(x / value)`` for every scalar.

    Parameters
    ----------
    value : the number, not 0.
    """
    return _with(
        "floor_div_const", value, lambda x, c: np.floor(x / c),
        f"floor(x / {shown(value, str)})", True, "divided", weight=2,
    )  # fmt: skip


@family(2)
def pow_(exponent: float) -> Function:
    """``x ** exponent`` for every scalar.

    Parameters
    ----------
    exponent : the number.
    """
    c = np.float32(scalar("pow: exponent", exponent))
    return standard(
        "pow", "same", lambda x: x**c, f"``x ** {exponent}``.", weight=4, arguments=(exponent,)
    )


@family(0, 1)
def clamp(low: float, high: float) -> Function:
    """``min(max(x, low), high)`` for every scalar.

    Parameters
    ----------
    low : least result.
    high : largest result.
    """
    a, b = scalar("clamp: low", low), scalar("clamp: high", high)
    if not a <= b:
        raise ArgError(f"clamp takes low <= high, found {shown(low)} and {shown(high)}")
    return standard(
        "clamp", "same", lambda x: np.clip(x, a, b), f"``min(max(x, {low}), {high})``.", weight=2,
        arguments=(low, high),
    )  # fmt: skip


@family(0)
def full_like(value: float) -> Function:
    """A tile of the same size, all of one number.

    Parameters
    ----------
    value : the number.
    """
    c = np.float32(scalar("full_like: value", value))
    return standard(
        "full_like", "same", lambda x: np.full_like(x, c),
        f"A tile of {shown(value, str)} of the same size.",
        weight=1, arguments=(value,), flops=PUBLISHED,
    )  # fmt: skip
