"""Functions of each scalar and a constant, and their FLOPs per scalar."""

from __future__ import annotations

import numpy as np

from stepsim.arguments import scalar, shown
from stepsim.errors import ArgError
from stepsim.graph.functions.function import Function
from stepsim.graph.functions.standard import PUBLISHED, SAME_AS_PUBLISHED, family, standard

__all__ = [
    "add_const",
    "clamp",
    "div_const",
    "floor_div_const",
    "full_like",
    "mul_const",
    "pow_",
    "sub_const",
]

_CONST = "The scalar costs nothing. Valid rows stay."


@family(1)
def add_const(value: float) -> Function:
    """Add a number to every scalar.

    A map of ``x`` to ``x + value``.

    Shape
    -----
    ``m n -> m n``; valid rows stay.

    Parameters
    ----------
    value : the number.

    Fires
    -----
    Once per element, ``ceil(FLOPs / compute_bw)`` cycles.

    FLOPs
    -----
    ``m*n`` per firing. As the public simulator of 2026 counts; the constant costs nothing.

    Raises
    ------
    ArgError : ``value`` is no number.

    Example
    -------
    >>> with st.Program("add_const", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[1, 2, 3]], "f4"), tile=(1, 3))
    ...     out = st.linear_store(x.map(st.fn.add_const(10)), "out")
    >>> print(run_functional(program).stored["out"])
    [[11. 12. 13.]]
    """
    c = np.float32(scalar("add_const: value", value))
    return standard(
        "add_const", "same", lambda x: x + c, f"``x + {value}``.", weight=1, text=_CONST,
        arguments=(value,),
    )  # fmt: skip


@family(1)
def sub_const(value: float) -> Function:
    """Subtract a number from every scalar.

    A map of ``x`` to ``x - value``.

    Shape
    -----
    ``m n -> m n``; valid rows stay.

    Parameters
    ----------
    value : the number.

    Fires
    -----
    Once per element, ``ceil(FLOPs / compute_bw)`` cycles.

    FLOPs
    -----
    ``m*n`` per firing. As the public simulator of 2026 counts; the constant costs nothing.

    Raises
    ------
    ArgError : ``value`` is no number.

    Example
    -------
    >>> with st.Program("sub_const", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[1, 2, 3]], "f4"), tile=(1, 3))
    ...     out = st.linear_store(x.map(st.fn.sub_const(1)), "out")
    >>> print(run_functional(program).stored["out"])
    [[0. 1. 2.]]
    """
    c = np.float32(scalar("sub_const: value", value))
    return standard(
        "sub_const", "same", lambda x: x - c, f"``x - {value}``.", weight=1, text=_CONST,
        arguments=(value,),
    )  # fmt: skip


@family(1)
def mul_const(value: float) -> Function:
    """Scale every scalar by a number.

    A map of ``x`` to ``x * value``, such as the scale of attention scores.

    Shape
    -----
    ``m n -> m n``; valid rows stay.

    Parameters
    ----------
    value : the number.

    Fires
    -----
    Once per element, ``ceil(FLOPs / compute_bw)`` cycles.

    FLOPs
    -----
    ``m*n`` per firing. As the public simulator of 2026 counts; the constant costs nothing.

    Raises
    ------
    ArgError : ``value`` is no number.

    Example
    -------
    >>> with st.Program("mul_const", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[1, 2, 3]], "f4"), tile=(1, 3))
    ...     out = st.linear_store(x.map(st.fn.mul_const(0.5)), "out")
    >>> print(run_functional(program).stored["out"])
    [[0.5 1. 1.5]]
    """
    c = np.float32(scalar("mul_const: value", value))
    return standard(
        "mul_const", "same", lambda x: x * c, f"``x * {value}``.", weight=1, text=_CONST,
        arguments=(value,),
    )  # fmt: skip


@family(1)
def div_const(value: float) -> Function:
    """Divide every scalar by a number.

    A map of ``x`` to ``x / value``.

    Shape
    -----
    ``m n -> m n``; valid rows stay.

    Parameters
    ----------
    value : the number, not 0.

    Fires
    -----
    Once per element, ``ceil(FLOPs / compute_bw)`` cycles.

    FLOPs
    -----
    ``m*n`` per firing. A choice of stepsim, as nothing is published: as div.

    Raises
    ------
    ArgError : ``value`` is no number, or 0.

    Example
    -------
    >>> with st.Program("div_const", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[1, 2, 3]], "f4"), tile=(1, 3))
    ...     out = st.linear_store(x.map(st.fn.div_const(2)), "out")
    >>> print(run_functional(program).stored["out"])
    [[0.5 1. 1.5]]
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
    """Divide every scalar by a number and round down.

    A map of ``x`` to ``floor(x / value)``.

    Shape
    -----
    ``m n -> m n``; valid rows stay.

    Parameters
    ----------
    value : the number, not 0.

    Fires
    -----
    Once per element, ``ceil(FLOPs / compute_bw)`` cycles.

    FLOPs
    -----
    ``2*m*n`` per firing. As the public simulator of 2026 counts; the constant costs nothing.

    Raises
    ------
    ArgError : ``value`` is no number, or 0.

    Example
    -------
    >>> with st.Program("floor_div_const", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[1, 2, 3]], "f4"), tile=(1, 3))
    ...     out = st.linear_store(x.map(st.fn.floor_div_const(2)), "out")
    >>> print(run_functional(program).stored["out"])
    [[0. 1. 1.]]
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
    """Raise every scalar to a power.

    A map of ``x`` to ``x ** exponent``.

    Shape
    -----
    ``m n -> m n``; valid rows stay.

    Parameters
    ----------
    exponent : the number.

    Fires
    -----
    Once per element, ``ceil(FLOPs / compute_bw)`` cycles.

    FLOPs
    -----
    ``4*m*n`` per firing. As the public simulator of 2026 counts; the constant costs nothing.

    Raises
    ------
    ArgError : ``exponent`` is no number.

    Example
    -------
    >>> with st.Program("pow", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[1, 2, 3]], "f4"), tile=(1, 3))
    ...     out = st.linear_store(x.map(st.fn.pow(3)), "out")
    >>> print(run_functional(program).stored["out"])
    [[ 1.  8. 27.]]
    """
    c = np.float32(scalar("pow: exponent", exponent))
    return standard(
        "pow", "same", lambda x: x**c, f"``x ** {exponent}``.", weight=4, arguments=(exponent,)
    )


@family(0, 1)
def clamp(low: float, high: float) -> Function:
    """Limit every scalar to a range.

    A map of ``x`` to ``min(max(x, low), high)``.

    Shape
    -----
    ``m n -> m n``; valid rows stay.

    Parameters
    ----------
    low : least result.
    high : largest result.

    Fires
    -----
    Once per element, ``ceil(FLOPs / compute_bw)`` cycles.

    FLOPs
    -----
    ``2*m*n`` per firing. As the public simulator of 2026 counts; the constant costs nothing.

    Raises
    ------
    ArgError : a bound is no number, or ``low`` is above ``high``.

    Example
    -------
    >>> with st.Program("clamp", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[-1, 1, 3]], "f4"), tile=(1, 3))
    ...     out = st.linear_store(x.map(st.fn.clamp(0, 2)), "out")
    >>> print(run_functional(program).stored["out"])
    [[0. 1. 2.]]
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
    """Make tiles of the same size, all of one number.

    A map of a tile to one of the same size, all of ``value``.

    Shape
    -----
    ``m n -> m n``; valid rows stay.

    Parameters
    ----------
    value : the number.

    Fires
    -----
    Once per element, ``ceil(FLOPs / compute_bw)`` cycles.

    FLOPs
    -----
    ``m*n`` per firing. As the public simulator of 2026 counts.

    Raises
    ------
    ArgError : ``value`` is no number.

    Example
    -------
    >>> with st.Program("full_like", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[1, 2, 3]], "f4"), tile=(1, 3))
    ...     out = st.linear_store(x.map(st.fn.full_like(7)), "out")
    >>> print(run_functional(program).stored["out"])
    [[7. 7. 7.]]
    """
    c = np.float32(scalar("full_like: value", value))
    return standard(
        "full_like", "same", lambda x: np.full_like(x, c), f"A tile of {value} of the same size.",
        weight=1, arguments=(value,), flops=PUBLISHED,
    )  # fmt: skip
