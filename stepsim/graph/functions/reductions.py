"""Functions that reduce rows or columns of a tile. Padding never contributes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stepsim.graph.functions.polynomial import Polynomial
from stepsim.graph.functions.standard import SAME_AS_PUBLISHED, standard

_AS_ROWS = f"{SAME_AS_PUBLISHED} for columns: as for rows."
_MEAN = f"{SAME_AS_PUBLISHED}: the sum, and a division for each result."


def _row_mean(tiles: Any, x: Any) -> Any:
    return x.sum(axis=1, keepdims=True) / max(tiles[0].width, 1)


def _col_mean(tiles: Any, x: Any) -> Any:
    return x.sum(axis=0, keepdims=True) / max(tiles[0].valid, 1)


row_sum = standard(
    "row_sum", "m n -> m 1", lambda x: x.sum(axis=1, keepdims=True), "Sum of each row.", weight=1
)
row_max = standard(
    "row_max", "m n -> m 1", lambda x: x.max(axis=1, keepdims=True, initial=-math.inf),
    "Largest scalar of each row.", weight=1, padding=(-math.inf,),
)  # fmt: skip
row_mean = standard(
    "row_mean", "m n -> m 1", _row_mean, "Mean of each row.", weight=1, sized=True,
    work=Polynomial.of("m", "n") + Polynomial.of("m"), flops=_MEAN,
)  # fmt: skip
col_sum = standard(
    "col_sum", "m n -> 1 n", lambda x: x.sum(axis=0, keepdims=True), "Sum of each column.",
    weight=1, flops=_AS_ROWS,
)  # fmt: skip
col_max = standard(
    "col_max", "m n -> 1 n", lambda x: x.max(axis=0, keepdims=True, initial=-math.inf),
    "Largest scalar of each column.", weight=1, padding=(-math.inf,), flops=_AS_ROWS,
)  # fmt: skip
col_mean = standard(
    "col_mean", "m n -> 1 n", _col_mean, "Mean of each column.", weight=1, sized=True,
    work=Polynomial.of("m", "n") + Polynomial.of("n"), flops=_MEAN,
)  # fmt: skip
last = standard(
    "last", "m n; m n -> m n", lambda state, x: np.array(x), "The last element of a reduction.",
    text="An accumulation; with ``accum`` it keeps the last tile.", spelling="st.fn.last",
)  # fmt: skip
