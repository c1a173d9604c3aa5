"""Values of narrow types: rounding, saturation, and products of mixed types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import stepsim.graph as st
from stepsim.dtypes import DType, dtype_of
from stepsim.functional import evaluate
from stepsim.functional.values import numpy_dtype, rounded
from stepsim.graph import fn

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("dtype", "given", "expected"),
    [
        ("fp8_e4m3", [1.3, 500, -INF, NAN], [1.25, 448, -448, NAN]),
        ("fp8_e5m2", [1.3, 1e6, -INF, NAN], [1.25, 57344, -57344, NAN]),
        ("fp4", [1.3, 2.4, 100, -INF, NAN], [1.5, 2, 6, -6, 0]),
        ("int8", [1.5, 2.5, -3.2, 1000, -INF, NAN], [2, 2, -3, 127, -128, 0]),
        ("int4", [0.4, 7.9, -100, NAN], [0, 7, -8, 0]),
        ("bf16", [1.001, 3e38], [1, 2.9908e38]),
    ],
)
def test_rounding_and_saturation(dtype: str, given: list[float], expected: list[float]) -> None:
    values = rounded(np.array(given), dtype_of(dtype))
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, expected, rtol=1e-2)
    np.testing.assert_array_equal(rounded(values, dtype_of(dtype)), values)


@pytest.mark.parametrize("dtype", [d for d in DType if d.is_arithmetic and d.bits <= 16])
def test_every_value_of_a_type_is_kept(dtype: DType) -> None:
    kind = numpy_dtype(dtype)
    values = np.arange(1 << dtype.bits, dtype=f"u{kind.itemsize}").view(kind)
    wide = values.astype(np.float32)
    wide = wide[np.isfinite(wide)]
    np.testing.assert_array_equal(rounded(wide, dtype), wide)


@pytest.mark.parametrize("weights", ["bf16", "fp8", "fp8_e5m2", "int8", "int4", "fp4"])
def test_weights_are_converted_and_products_are_activations(weights: str) -> None:
    rng = np.random.default_rng(3)
    a = rng.normal(size=(4, 8)).astype(np.float32)
    b = (4 * rng.normal(size=(8, 6))).astype(np.float32)
    with st.Program(compute_bw=64) as program:
        x = st.linear_load(st.spec(4, 8, dtype="bf16", name="x"), (4, 8))
        w = st.linear_load(st.spec(8, 6, dtype=weights, name="w"), (8, 6))
        y = st.map(fn.matmul, x, w)
        st.linear_store(y, "y")
    assert y.type.dtype is DType.bf16
    values = evaluate(program, {"x": a, "w": b})
    product = rounded(a, DType.bf16) @ rounded(b, dtype_of(weights))
    np.testing.assert_array_equal(values.stored["y"], product.astype(ml_dtypes.bfloat16))


def test_rows_appended_to_a_cache_take_its_type() -> None:
    cache, row = np.zeros((2, 2), np.float32), np.array([[1.3, 500.0]], np.float32)
    with st.Program(compute_bw=8) as program:
        tiles = st.linear_load(st.spec(2, 2, dtype="fp8", name="cache"), (2, 2))
        new = st.linear_load(st.spec(1, 2, dtype="bf16", name="row"), (1, 2))
        valid = st.metadata(np.zeros((1, 1), int))
        grown = st.map(fn.append_row, st.map(fn.set_offset, tiles, valid), new)
        st.linear_store(grown, "grown")
    stored = evaluate(program, {"cache": cache, "row": row}).stored["grown"]
    assert stored.dtype == ml_dtypes.float8_e4m3fn
    np.testing.assert_array_equal(stored.astype(np.float32)[0], [1.25, 448])


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "int4", "float4_e2m1fn"])
def test_arrays_of_ml_dtypes_are_loaded(name: str) -> None:
    array = np.ones((2, 2), getattr(ml_dtypes, name))
    with st.Program() as program:
        x = st.linear_load(array, (2, 2))
        st.linear_store(x, "y")
    assert x.type.dtype is dtype_of(name)
    np.testing.assert_array_equal(evaluate(program, {}).stored["y"], array)
