"""The table of scalar types."""

from __future__ import annotations

from typing import Any

import pytest

from stepsim.dtypes import DType, dtype_of, packed_bytes
from stepsim.errors import DTypeError


@pytest.mark.parametrize(
    ("names", "expected", "width"),
    [
        ("f32 fp32 float32", DType.f32, 4),
        ("bf16 bfloat16", DType.bf16, 2),
        ("f16 fp16 float16", DType.f16, 2),
        ("f8e4m3 fp8 fp8_e4m3 float8_e4m3fn", DType.f8e4m3, 1),
        ("f8e5m2 fp8_e5m2 float8_e5m2", DType.f8e5m2, 1),
        ("i8 int8", DType.i8, 1),
        ("f4 fp4 mxfp4 float4_e2m1fn", DType.f4, 0.5),
        ("i4 int4", DType.i4, 0.5),
        ("u64 uint64", DType.u64, 8),
    ],
)
def test_names_and_widths(names: str, expected: DType, width: float) -> None:
    assert {dtype_of(name) for name in names.split()} == {expected}
    assert dtype_of(expected) is expected
    assert expected.element_bytes == width


def test_no_name_means_two_types() -> None:
    names = [name for d in DType for name in (d.text, *d.aliases)]
    assert len(names) == len(set(names))


KNOWN = "use one of f32, bf16, f16, f8e4m3, f8e5m2, i8, f4, i4, i32, i64, u32, u64, bool"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("int3", f"unknown scalar type 'int3'; did you mean 'int8'? {KNOWN}"),
        ("fp08", f"unknown scalar type 'fp08'; did you mean 'fp8'? {KNOWN}"),
        ("word", f"unknown scalar type 'word'; {KNOWN}"),
        (8, f"unknown scalar type 8; {KNOWN}"),
        (["f32"], "unknown scalar type ['f32']"),
    ],
)
def test_unknown_types(given: Any, message: str) -> None:
    with pytest.raises(DTypeError) as error:
        dtype_of(given)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("elements", "bits", "expected"), [(0, 4, 0), (1, 4, 1), (2, 4, 1), (3, 4, 2), (3, 16, 6)]
)
def test_packed_bytes_round_up(elements: int, bits: int, expected: int) -> None:
    assert packed_bytes(elements, bits) == expected
