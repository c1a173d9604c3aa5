"""Functions from one scalar type to another."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepsim.dtypes import DType, dtype_of
from stepsim.errors import ArgError
from stepsim.graph.functions.function import Function
from stepsim.graph.functions.standard import SAME_AS_PUBLISHED, family, standard

_INTEGERS = {DType.i8: (-128, 127), DType.i4: (-8, 7)}
_LARGEST = {DType.f8e4m3: 448.0, DType.f8e5m2: 57344.0, DType.f4: 6.0}


def _narrow(name: str, dtype: DType | str) -> DType:
    wanted = dtype_of(dtype)
    if not wanted.is_arithmetic:
        raise ArgError(f"{name}: {wanted} is not a type to compute with, such as i8 or f32")
    return wanted


@family("f32")
def cast(dtype: DType | str) -> Function:
    """Make another scalar type of every scalar.

    A map. Numbers are rounded; beyond the range of types of 8 and 4 bits they become the largest.
    Flags become 0 and 1.

    Parameters
    ----------
    dtype : the type, such as ``bf16``, ``f32``, ``i8`` or ``u64``.

    Raises
    ------
    DTypeError : there is no such type, or a 1x1 tile of computed numbers would become an address.

    Example
    -------
    >>> with st.Program("narrow", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[1.5, 300, -300]], "f4"), tile=(1, 3))
    ...     y = x.map(st.fn.cast("i8"))
    ...     out = st.linear_store(y, "out")
    >>> y
    Stream[1, 1] of Tile[1x3 i8] <- cast#1
    >>> print(run_functional(program).stored["out"])
    [[   2  127 -128]]
    """
    wanted = dtype_of(dtype)
    if wanted is DType.u32:
        raise ArgError("cast: u32 tiles cannot be made; use u64 for whole numbers")

    def values(x: Any) -> Any:
        if wanted is DType.bool_:
            return x != 0
        if wanted is DType.u64:
            return x
        return x.astype(np.float32)

    return standard(
        "cast", "same", values, f"The same numbers as {wanted}.", weight=1, kinds=("tile",),
        dtype=wanted, arguments=(str(wanted),), spelling=f'st.fn.cast("{wanted}")',
        numbers=(("keep", 0) if wanted is DType.u64 else None,),
        text="Values beyond the range of types of 8 and 4 bits become the largest.",
    )  # fmt: skip


@family("i8")
def quantize(dtype: DType | str = "i8") -> Function:
    """Divide by a scale and make a narrow type of the result.

    A map of (x, scale). Integers are rounded to the nearest; values beyond the range become the
    largest.

    Parameters
    ----------
    dtype : the type of the result, such as ``i8``, ``i4`` or ``f8e4m3``.

    Raises
    ------
    DTypeError : there is no such type.

    Example
    -------
    >>> with st.Program("quantize", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[1.0, 0.5, -2.0]], "f4"), tile=(1, 3))
    ...     scale = st.linear_load(np.array([[0.25]], "f4"), tile=(1, 1))
    ...     q = st.map(st.fn.quantize("i8"), x, scale)
    ...     out = st.linear_store(q, "out")
    >>> print(run_functional(program).stored["out"])
    [[ 4  2 -8]]
    """
    wanted = _narrow("quantize", dtype)

    def values(x: Any, scale: Any) -> Any:
        if wanted in _INTEGERS:
            return np.clip(np.rint(x / scale), *_INTEGERS[wanted])
        limit = _LARGEST.get(wanted, np.inf)
        return np.clip(x / scale, -limit, limit)

    return standard(
        "quantize", "broadcast", values, f"``x / scale`` as {wanted}.", weight=2, dtype=wanted,
        arguments=(str(wanted),), spelling=f'st.fn.quantize("{wanted}")',
        text="Values beyond the range become the largest. Integers are rounded to the nearest.",
        flops=f"{SAME_AS_PUBLISHED}: a division and a cast.",
    )  # fmt: skip


@family("f32")
def dequantize(dtype: DType | str = "f32") -> Function:
    """Make a wide type of every scalar and multiply by a scale.

    A map of (q, scale), the inverse of ``fn.quantize``.

    Parameters
    ----------
    dtype : the type of the result, such as ``f32`` or ``bf16``.

    Raises
    ------
    DTypeError : there is no such type.

    Example
    -------
    >>> with st.Program("there and back", compute_bw=64) as program:
    ...     x = st.linear_load(np.array([[1.0, 0.6, -2.0]], "f4"), tile=(1, 3))
    ...     scale = st.linear_load(np.array([[0.25]], "f4"), tile=(1, 1))
    ...     q = st.map(st.fn.quantize("i8"), x, scale)
    ...     out = st.linear_store(st.map(st.fn.dequantize("f32"), q, scale), "out")
    >>> print(run_functional(program).stored["out"])
    [[ 1.   0.5 -2. ]]
    """
    wanted = _narrow("dequantize", dtype)
    return standard(
        "dequantize", "broadcast", np.multiply, f"``q * scale`` as {wanted}.", weight=2,
        dtype=wanted, arguments=(str(wanted),), spelling=f'st.fn.dequantize("{wanted}")',
        flops=f"{SAME_AS_PUBLISHED}: a cast and a product.",
    )  # fmt: skip
