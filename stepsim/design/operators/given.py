"""Arrays that users give: values of tensors, and experts of rows."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import shown
from stepsim.errors import CompileError


def values_of(what: str, values: Any, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
    """An array, if wanted in a shape.

    Raises
    ------
    CompileError : the values are not an array, or have another number of elements.
    """
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError, RecursionError):
        array = np.array(None)
    if array.dtype == object:
        raise CompileError(f"{what}: expected an array of numbers, found {shown(values)}")
    if shape is None:
        return array
    if array.size != prod(shape):
        raise CompileError(
            f"{what}: expected an array of shape {shape}, found {array.shape}; give one value for "
            "each element"
        )
    return array.reshape(shape)


def numbers_of(what: str, values: Any) -> NDArray[Any]:
    """An array of real numbers.

    Raises
    ------
    CompileError : the values are not an array of real numbers.
    """
    array = values_of(what, values)
    if array.dtype.kind not in "biuf":
        raise CompileError(f"{what} are {array.dtype}, expected numbers")
    return array
