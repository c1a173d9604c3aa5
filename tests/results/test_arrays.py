"""Arrow arrays made from memory are those that `pyarrow.array` makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stepsim.results.arrays import arrow_array

WHOLE: Any = np.arange(9, dtype=np.int64)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (WHOLE, pa.int64()),
        (WHOLE[::2], pa.int64()),
        (WHOLE.astype(np.int32), pa.int64()),
        (WHOLE / 3, pa.float64()),
        (WHOLE > 4, pa.bool_()),
        (WHOLE[:0], pa.int64()),
        ([3, None, 5], pa.int64()),
        ([None] * 11, pa.float64()),
        ([0.5, None, 1], pa.float64()),
        ([True, None, False], pa.bool_()),
        (["a", None, "", "größer", "漢"], pa.string()),
        (("x", "y"), pa.string()),
        ([], pa.string()),
        ([], pa.int64()),
    ],
    ids=str,
)
def test_an_array_is_that_of_arrow(column: Any, kind: pa.DataType) -> None:
    found = arrow_array(column, kind)
    found.validate(full=True)
    assert found.equals(pa.array(column, type=kind))


def test_memory_of_numpy_is_shared() -> None:
    values = np.arange(5)
    assert arrow_array(values, pa.int64()).buffers()[1].address == values.ctypes.data


@pytest.mark.parametrize(
    ("column", "kind"),
    [(np.array([1 << 40]), pa.int32()), ([0.5], pa.int64()), ([2**63], pa.int64())],
)
def test_numbers_that_do_not_fit_are_refused(column: Any, kind: pa.DataType) -> None:
    with pytest.raises(pa.ArrowInvalid):
        arrow_array(column, kind)


def test_a_text_that_is_none_is_refused() -> None:
    with pytest.raises(AttributeError):
        arrow_array([3], pa.string())
