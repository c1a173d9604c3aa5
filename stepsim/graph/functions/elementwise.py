"""Functions that work on each scalar by itself, and their FLOPs per scalar."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stepsim.graph.functions.function import Function, Rule
from stepsim.graph.functions.standard import SAME_AS_PUBLISHED, WHOLE, standard
from stepsim.graph.types import DType

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
sin = standard("sin", "same", np.sin, "Sine.", weight=4)
cos = standard("cos", "same", np.cos, "Cosine.", weight=4)
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
    "add", "broadcast", np.add, "``x + y``.", weight=1, text=f"{_FOLDS}, zero by default. {WHOLE}",
    integers=("add", 0, 1),
)  # fmt: skip
sub = standard(
    "sub", "broadcast", np.subtract, "``x - y``.", weight=1,
    text=f"{_FOLDS}, zero by default. {WHOLE} A run fails when one is below 0.",
    integers=("sub", 0, 1),
)  # fmt: skip
mul = standard(
    "mul", "broadcast", np.multiply, "``x * y``.", weight=1, start=1.0, padding=(1.0, 1.0),
    text=f"{_FOLDS}, one by default. {WHOLE}", integers=("mul", 0, 1),
)  # fmt: skip
div = standard(
    "div", "broadcast", np.divide, "``x / y``.", weight=1, start=1.0, padding=(1.0, 1.0),
    text=f"{_FOLDS}, one by default.",
)  # fmt: skip
max_ = standard(
    "max", "broadcast", np.maximum, "The larger of two scalars.", weight=1, start=-math.inf,
    padding=(-math.inf,) * 2, text=f"{_FOLDS}, minus infinity by default. {WHOLE}",
    integers=("max", 0, 1),
)  # fmt: skip
min_ = standard(
    "min", "broadcast", np.minimum, "The smaller of two scalars.", weight=1, start=math.inf,
    padding=(math.inf,) * 2, text=f"{_FOLDS}, infinity by default. {WHOLE}",
    flops=f"{_OWN}as max.", integers=("min", 0, 1),
)  # fmt: skip


def _comparison(name: str, compared: np.ufunc, sign: str, integers: Rule) -> Function:
    return standard(
        name, "broadcast", compared, f"Flags of ``x {sign} y``.", weight=1, dtype=DType.bool_,
        text="The result is a tile of bools, of one byte each, for ``st.fn.where``. Of whole "
        "numbers it is the whole number 1 or 0, in a cycle.",
        flops="As the public simulator of 2026 counts a comparison with a constant.",
        integers=integers,
    )  # fmt: skip


eq = _comparison("eq", np.equal, "==", ("eq", 0, 1))
ne = _comparison("ne", np.not_equal, "!=", ("ne", 0, 1))
lt = _comparison("lt", np.less, "<", ("lt", 0, 1))
le = _comparison("le", np.less_equal, "<=", ("le", 0, 1))
gt = _comparison("gt", np.greater, ">", ("lt", 1, 0))
ge = _comparison("ge", np.greater_equal, ">=", ("le", 1, 0))
where = standard(
    "where", "broadcast 3", _where, "``y`` where the flags ``x`` are true, else ``z``.", weight=1,
    kinds=("flag", "number", "number"), dtype=1, flops=f"{_OWN}as a comparison.",
    text=f"Flags are bools or numbers; 0 is false. {WHOLE}", integers=("select", 0, 1, 2),
)  # fmt: skip
