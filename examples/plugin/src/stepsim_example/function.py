"""A function of tiles: a slope for the negative scalars, at two FLOPs each."""

from __future__ import annotations

import numpy as np

import stepsim as st

LEAKY_RELU = st.function(
    "leaky_relu",
    "m n -> m n",
    flops=lambda m, n: 2 * m * n,
    values=lambda x: np.maximum(x, 0.01 * x),
)
