"""Arrays of whole numbers, from whatever users give in their place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import shown
from stepsim.errors import ArgError


def whole_array(what: str, values: Any) -> NDArray[Any]:
    """Whole numbers, or bools, as an array of as many dims as they have.

    Raises
    ------
    ArgError : other values, or lists of different lengths.
    """
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError, RecursionError):
        array = np.empty(1, object)
    if array.ndim and not array.size:
        array = array.astype(np.int64)  # an empty array of any type
    if array.dtype.kind not in "iub":
        found = shown(values) if array.dtype == object else f"{array.ndim} dims of {array.dtype}"
        raise ArgError(f"{what}: expected an array of whole numbers, found {found}")
    return array
