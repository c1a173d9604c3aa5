"""A kernel is compiled once for all whole numbers, and its arrays are read by address."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from stepsim.kernels.build.by_reference import by_reference
from stepsim.kernels.build.jit import apart, inlined

pytestmark = pytest.mark.skipif(
    numba.config.DISABLE_JIT, reason="nothing is compiled with NUMBA_DISABLE_JIT=1"
)


class Color(IntEnum):
    RED = 7


class Arrays(NamedTuple):
    numbers: Any
    small: Any
    records: Any


RECORD = np.dtype([("narrow", np.int16), ("wide", np.int64)], align=True)


@inlined
def _twice(number):  # type: ignore[no-untyped-def]
    return 2 * number


@apart
def _change(arrays, at):  # type: ignore[no-untyped-def]
    record = arrays.records[at]
    record.wide = _twice(record.narrow) + _twice(Color.RED) + _twice(3) + _twice(arrays.small[0])
    arrays.numbers[at + 1] = arrays.numbers[at] + _twice(record.wide)
    arrays.small[1] = arrays.numbers[at + 1]
    return record.wide


@numba.njit
def _called(arrays, at):  # type: ignore[no-untyped-def]
    return _change(by_reference(arrays), at)


def test_a_kernel_is_compiled_once_for_numbers_of_all_widths() -> None:
    records = np.zeros(3, RECORD)
    records["narrow"] = -5
    arrays = Arrays(np.array([1, 100, 0]), np.array([-2, 0], np.int32), records.view(np.recarray))
    wide = 2 * -5 + 2 * 7 + 2 * 3 + 2 * -2
    assert _called(arrays, 1) == wide
    assert records["wide"].tolist() == [0, wide, 0]
    assert arrays.numbers.tolist() == [1, 100, 100 + 2 * wide]
    assert arrays.small.tolist() == [-2, 100 + 2 * wide]
    dispatcher = _twice._numba_type_.dispatcher
    assert dispatcher.nopython_signatures == [numba.int64(numba.int64)]
