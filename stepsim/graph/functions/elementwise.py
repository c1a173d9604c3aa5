"""Functions that work on each scalar by itself, and their FLOPs per scalar."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import scalar, shown
from stepsim.errors import ArgError
from stepsim.graph.functions.function import Function
from stepsim.graph.functions.standard import PUBLISHED, SAME_AS_PUBLISHED, family, standard
from stepsim.graph.types import DType

__all__ = [
    "abs_", "add", "add_const", "clamp", "div", "div_const", "eq", "exp", "floor_div_const",
    "full_like", "ge", "gelu", "gelu_tanh", "gt", "le", "log", "lt", "max_", "min_", "mul",
    "mul_const", "ne", "neg", "pow2", "pow_", "reciprocal", "relu", "rsqrt", "sigmoid", "silu",
    "softplus", "sqrt", "square", "sub", "sub_const", "tanh", "where",
]  # fmt: skip

Array = NDArray[np.float32]

_OWN = f"{SAME_AS_PUBLISHED}: "
_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    # The exponent is never positive, so that large scalars do not overflow.
    small = np.exp(-np.abs(x))
    result: Array = np.where(x >= 0, 1 / (1 + small), small / (1 + small))
    return result


def _silu(x: Array) -> Array:
    result: Array = x / (1 + np.exp(-x))
    return result


def _gelu(x: Array) -> Array:
    result: Array = (0.5 * x * (1 + _erf(x / math.sqrt(2)))).astype(np.float32)
    return result


def _gelu_tanh(x: Array) -> Array:
    result: Array = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return result


def _softplus(x: Array) -> Array:
    result: Array = np.logaddexp(0, x)
    return result


def _where(flags: Array, yes: Array, no: Array) -> Array:
    result: Array = np.where(flags != 0, yes, no)
    return result


silu = standard("silu", "same", _silu, "``x / (1 + exp(-x))``.", weight=8)
exp = standard("exp", "same", np.exp, "``e ** x``.", weight=4)
pow2 = standard("pow2", "same", np.exp2, "``2 ** x``.", weight=4)
tanh = standard("tanh", "same", np.tanh, "Hyperbolic tangent.", weight=4)
rsqrt = standard("rsqrt", "same", lambda x: 1 / np.sqrt(x), "``1 / sqrt(x)``.", weight=4)
sigmoid = standard("sigmoid", "same", _sigmoid, "``1 / (1 + exp(-x))``.", weight=7)
square = standard("square", "same", np.square, "``x * x``.", weight=1)
sqrt = standard(
    "sqrt", "same", np.sqrt, "Square root.", weight=4, flops=f"{_OWN}as rsqrt.",
)  # fmt: skip
log = standard("log", "same", np.log, "Natural logarithm.", weight=4, flops=f"{_OWN}as exp.")
reciprocal = standard(
    "reciprocal", "same", lambda x: 1 / x, "``1 / x``.", weight=1, flops=f"{_OWN}as div."
)
neg = standard("neg", "same", np.negative, "``-x``.", weight=1, flops=f"{_OWN}as mul.")
abs_ = standard("abs", "same", np.abs, "Absolute value.", weight=1, flops=f"{_OWN}as mul.")
relu = standard(
    "relu", "same", lambda x: np.maximum(x, 0), "``max(x, 0)``.", weight=1, flops=f"{_OWN}as max."
)
gelu = standard(
    "gelu", "same", _gelu, "``x / 2 * (1 + erf(x / sqrt(2)))``, GELU in its exact form.", weight=8,
    flops=f"{_OWN}4 for erf, as exp, and 4 for the rest; that is what silu counts.",
)  # fmt: skip
gelu_tanh = standard(
    "gelu_tanh", "same", _gelu_tanh,
    "``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))``, GELU by tanh.", weight=12,
    flops=f"{_OWN}4 for tanh and 8 sums and products.",
)  # fmt: skip
softplus = standard(
    "softplus", "same", _softplus, "``log(1 + exp(x))``.", weight=9,
    flops=f"{_OWN}4 for exp, 4 for log, 1 for the sum.",
)  # fmt: skip

_FOLDS = "In an accumulation or a scan the state is the first operand"

add = standard(
    "add", "broadcast", np.add, "``x + y``.", weight=1, text=f"{_FOLDS}, zero by default.",
)  # fmt: skip
sub = standard(
    "sub", "broadcast", np.subtract, "``x - y``.", weight=1, text=f"{_FOLDS}, zero by default."
)
mul = standard(
    "mul", "broadcast", np.multiply, "``x * y``.", weight=1, start=1.0, padding=(1.0, 1.0),
    text=f"{_FOLDS}, one by default.",
)  # fmt: skip
div = standard(
    "div", "broadcast", np.divide, "``x / y``.", weight=1, start=1.0, padding=(1.0, 1.0),
    text=f"{_FOLDS}, one by default.",
)  # fmt: skip
max_ = standard(
    "max", "broadcast", np.maximum, "The larger of two scalars.", weight=1, start=-math.inf,
    padding=(-math.inf,) * 2, text=f"{_FOLDS}, minus infinity by default.",
)  # fmt: skip
min_ = standard(
    "min", "broadcast", np.minimum, "The smaller of two scalars.", weight=1, start=math.inf,
    padding=(math.inf,) * 2, text=f"{_FOLDS}, infinity by default.", flops=f"{_OWN}as max.",
)  # fmt: skip


def _comparison(name: str, compared: np.ufunc, sign: str) -> Function:
    return standard(
        name, "broadcast", compared, f"Flags of ``x {sign} y``.", weight=1, dtype=DType.bool_,
        text="The result is a tile of bools, of one byte each, for ``st.fn.where``.",
        flops="As the public simulator of 2026 counts a comparison with a constant.",
    )  # fmt: skip


eq = _comparison("eq", np.equal, "==")
ne = _comparison("ne", np.not_equal, "!=")
lt = _comparison("lt", np.less, "<")
le = _comparison("le", np.less_equal, "<=")
gt = _comparison("gt", np.greater, ">")
ge = _comparison("ge", np.greater_equal, ">=")
where = standard(
    "where", "broadcast 3", _where, "``y`` where the flags ``x`` are true, else ``z``.", weight=1,
    kinds=("flag", "number", "number"), dtype=1, flops=f"{_OWN}as a comparison.",
    text="Flags are bools or numbers; 0 is false.",
)  # fmt: skip


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
        arguments=(value,), flops=f"{_OWN}as div.",
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
