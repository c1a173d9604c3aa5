"""Checks of integer arrays that users put into programs."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError, DTypeError
from stepsim.graph.operator import Site
from stepsim.graph.sizes.limits import MAX_VALUE

IntArray = np.ndarray[Any, np.dtype[np.int64]]


def numeric_array(site: Site, what: str, values: Any) -> np.ndarray[Any, Any]:
    """``values`` as an array of bools, ints or floats."""
    try:
        array = np.asarray(values)
    except ValueError:
        site.fail(ArgError, f"{what} do not form an array: inner lists differ in length")
    if array.dtype.kind not in "biuf":
        site.fail(DTypeError, f"{what} must be numbers, found {shown(values)}")
    return array


def whole_numbers(site: Site, values: Any) -> IntArray:
    """``values`` as an array of ints in ``0..2**63-1``, at least one of them."""
    try:
        array = np.asarray(values)
    except ValueError:
        site.fail(ArgError, "values do not form an array: inner lists differ in length")
    site.require(array.ndim >= 1 and array.size > 0, ArgError, f"values have shape {array.shape}")
    if array.dtype.kind not in "iu":
        # numpy has no integer type for ints beyond 64 bits, nor for mixed signs at 64 bits.
        array = np.asarray(values, dtype=object)
        odd = [
            v
            for v in array.ravel()
            if isinstance(v, bool | np.bool_) or not isinstance(v, Integral)
        ]
        site.require(
            not odd,
            DTypeError,
            f"values must be integers, found {shown(odd[0])}" if odd else "",
            "convert them with astype(int)",
        )
    bad = np.argwhere((array < 0) | (array > MAX_VALUE))
    if bad.size:
        index = tuple(int(i) for i in bad[0])
        site.fail(
            ArgError,
            f"value {shown(int(array[index]))} at index {list(index)} is not in 0..2**63-1",
            "lengths and tile indices are never negative and fit 63 bits",
        )
    return array.astype(np.int64)
