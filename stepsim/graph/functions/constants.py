"""Functions of each scalar and a constant, and their FLOPs per scalar."""

from __future__ import annotations

import numpy as np

from stepsim.arguments import scalar, shown
from stepsim.errors import ArgError
from stepsim.graph.functions.function import Function
from stepsim.graph.functions.standard import PUBLISHED, SAME_AS_PUBLISHED, family, standard

_CONST = "The scalar costs nothing. Valid rows stay."


@family(1)
def add_const(value: float) -> Function:
    """``x + value`` for every scalar.

    Parameters
    ----------
    value : the number.
    """
    c = np.float32(scalar("add_const: value", value))
    return standard(
        "add_const", "same", lambda x: x + c, f"``x + {value}``.", weight=1, text=_CONST,
        arguments=(value,),
    )  # fmt: skip


@family(1)
def sub_const(value: float) -> Function:
    """``x - value`` for every scalar.

    Parameters
    ----------
    value : the number.
    """
    c = np.float32(scalar("sub_const: value", value))
    return standard(
        "sub_const", "same", lambda x: x - c, f"``x - {value}``.", weight=1, text=_CONST,
        arguments=(value,),
    )  # fmt: skip


@family(1)
def mul_const(value: float) -> Function:
    """``x * value`` for every scalar, such as the scale of attention scores.

    Parameters
    ----------
    value : the number.
    """
    c = np.float32(scalar("mul_const: value", value))
    return standard(
        "mul_const", "same", lambda x: x * c, f"``x * {value}``.", weight=1, text=_CONST,
        arguments=(value,),
    )  # fmt: skip


@family(1)
def div_const(value: float) -> Function:
    """``x / value`` for every scalar.

    Parameters
    ----------
    value : the number, not 0.
    """
    c = np.float32(scalar("div_const: value", value))
    if c == 0:
        raise ArgError(f"div_const takes a number other than 0 in f32, found {shown(value)}")
    return standard(
        "div_const", "same", lambda x: x / c, f"``x / {value}``.", weight=1, text=_CONST,
        arguments=(value,), flops=f"{SAME_AS_PUBLISHED}: as div.",
    )  # fmt: skip


@family(1)
def floor_div_const(value: float) -> Function:
    """``floor(x / value)`` for every scalar.

    Parameters
    ----------
    value : the number, not 0.
    """
    c = np.float32(scalar("floor_div_const: value", value))
    if c == 0:
        raise ArgError(f"floor_div_const takes a number other than 0 in f32, found {shown(value)}")
    return standard(
        "floor_div_const", "same", lambda x: np.floor(x / c), f"``floor(x / {value})``.", weight=2,
        text=_CONST, arguments=(value,),
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
        "full_like", "same", lambda x: np.full_like(x, c), f"A tile of {value} of the same size.",
        weight=1, arguments=(value,), flops=PUBLISHED,
    )  # fmt: skip
