"""Synthetic KV-cache lengths with a chosen spread, the same numbers on every machine.

Lengths follow a stretched exponential: ``(-ln u) ** spread`` with u uniform, scaled to the mean.

========== =============================================
``spread`` standard deviation / mean, for many requests
========== =============================================
0          0: all equal
0.5        0.52
1          1.0: exponential
1.25       1.26
========== =============================================

Logarithm and power come from decimal arithmetic in software, as in the synthetic routing.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal

import numpy as np
import numpy.typing as npt

from stepsim.arguments import shown
from stepsim.errors import ArgError
from stepsim.typed import typed

_MOST_REQUESTS = 1 << 24


@typed
def synthetic_kv_lengths(
    requests: int, *, seed: int, mean: int = 1100, spread: float = 1.0, maximum: int | None = None
) -> npt.NDArray[np.int64]:
    """Draw the cached tokens of each request: int64 [requests], read-only.

    Args:
        requests: number of requests, at least 1.
        seed: not negative.
        mean: mean of the drawn lengths in tokens, before ``maximum`` cuts them.
        spread: 0 to 4; the table at the top of this module gives its effect.
        maximum: longest length in tokens.

    Raises:
        ArgError: an argument is out of range.
    """
    least = {"requests": 1, "seed": 0, "mean": 0, "maximum": 0}
    given = {"requests": requests, "seed": seed, "mean": mean, "maximum": maximum}
    for name, value in given.items():
        if value is not None and value < least[name]:
            raise ArgError(
                f"synthetic_kv_lengths: {name} is {value}, expected at least {least[name]}"
            )
    if requests > _MOST_REQUESTS:
        raise ArgError(
            f"synthetic_kv_lengths: requests is {shown(requests)}, expected at most "
            f"{_MOST_REQUESTS:,}; draw more with several seeds"
        )
    if not 0 <= spread <= 4:
        raise ArgError(f"synthetic_kv_lengths: spread is {spread}, expected 0..4")
    # A separate context, since the caller's may have another precision or traps.
    context = Context(prec=40, rounding=ROUND_HALF_EVEN, traps=[])
    raw = np.random.PCG64(np.random.SeedSequence(seed)).random_raw(requests)
    exponent = Decimal.from_float(float(spread))
    weights = []
    for number in raw.tolist():
        uniform = context.divide(Decimal(2 * number + 1), Decimal(1 << 65))
        weights.append(context.power(context.minus(context.ln(uniform)), exponent))
    total = weights[0]
    for weight in weights[1:]:
        total = context.add(total, weight)
    scale = context.divide(Decimal(mean * requests), total)
    drawn = [
        int(context.multiply(weight, scale).to_integral_value(ROUND_HALF_EVEN, context))
        for weight in weights
    ]
    lengths = np.array(drawn, dtype=np.int64)
    if maximum is not None:
        lengths = np.minimum(lengths, maximum)
    lengths.flags.writeable = False
    return lengths
