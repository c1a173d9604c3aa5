"""Stop levels of a stream of static shape: which dims end at which element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def stop_levels(dims: Sequence[int], most: int | None = None) -> list[int]:
    """Stop level of every element of a row-major walk over ``dims``.

    The level is the number of trailing dims for which the element is the last. A stream does not
    mark the end of its own outermost dim, so the levels of a complete stream are capped at
    ``most = len(dims) - 1``; the levels of a group inside a stream are not capped.
    """
    levels = np.zeros(tuple(dims), np.int64)
    top = len(dims) if most is None else most
    for level in range(1, top + 1):
        index: tuple[Any, ...] = (..., *([-1] * level))
        levels[index] = level
    return [int(v) for v in levels.ravel()]
