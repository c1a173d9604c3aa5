"""The checked input arrays of workloads."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError

Array = np.ndarray[Any, Any]

_LONGEST = 1 << 40


def routing_of(routing: Any) -> Array:
    """Expert ids ``[tokens, k]``.

    Raises
    ------
    ArgError : the array is not expert ids.
    """
    expected = "expected expert ids [tokens, k], whole numbers from 0"
    array = _array("routing", routing, expected)
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "iu":
        raise ArgError(
            f"routing: {expected}, found shape {array.shape} of {array.dtype}; pass a row of ids "
            "for every token"
        )
    if int(array.min()) < 0:
        token, choice = np.unravel_index(int(array.argmin()), array.shape)
        raise ArgError(
            f"routing[{token}, {choice}]: expected an expert id from 0, found "
            f"{int(array[token, choice])}; drop the token or correct the id"
        )
    return array


def lengths_of(kv_lengths: Any) -> Array:
    """A private, read-only array of cached tokens ``[requests]``.

    Raises
    ------
    ArgError : the array is not a list of lengths.
    """
    return _numbers("kv_lengths", kv_lengths, "a length", "the cached tokens", 0)


def new_tokens_of(new_tokens: Any) -> Array:
    """A private, read-only array of new tokens ``[requests]``.

    Raises
    ------
    ArgError : the array is not a list of whole numbers from 1.
    """
    return _numbers("new_tokens", new_tokens, "a number of tokens", "the new tokens", 1)


def _numbers(name: str, values: Any, one: str, all_of_them: str, least: int) -> Array:
    expected = "expected one whole number for each request"
    array = _array(name, values, expected)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise ArgError(
            f"{name}: {expected}, found shape {array.shape} of {array.dtype}; pass {all_of_them} "
            "of every request"
        )
    if int(array.min()) < least:
        worst = int(array.argmin())
        raise ArgError(
            f"{name}[{worst}]: expected {one} from {least}, found {int(array[worst])}; drop the "
            "request or correct its length"
        )
    if int(array.max()) > _LONGEST:
        worst = int(array.argmax())
        raise ArgError(
            f"{name}[{worst}]: expected {one} to 2**40, found {int(array[worst])}; drop the "
            "request or correct its length"
        )
    found = array.astype(np.int64)
    found.flags.writeable = False
    return found


def rows_of(name: str, value: Any, least: int) -> int:
    """A number of tokens or requests.

    Raises
    ------
    ArgError : it is not a whole number from ``least``.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < least:
        raise ArgError(
            f"{name}: expected a whole number of tokens or requests from {least}, found "
            f"{shown(value)}"
        )
    return number


def _array(name: str, values: Any, expected: str) -> Array:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ArgError(f"{name}: {expected}, found rows of different lengths: {error}") from None
