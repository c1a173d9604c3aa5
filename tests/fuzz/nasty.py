"""Values that nobody passes on purpose, for any argument of the public interface."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import sympy

import stepsim as st

__all__ = ["Odd", "nasty"]


class Odd:
    """Answers the protocols of numbers and sequences, wrongly but without raising."""

    def __index__(self) -> int:
        return -5

    def __int__(self) -> int:
        return 3

    def __len__(self) -> int:
        return 10**9

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Any:
        return iter(())

    def __getitem__(self, key: object) -> int:
        return 7

    def __repr__(self) -> str:
        return "Odd()"


class EqualsAll(Odd):
    """Equal to everything, and not hashable."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "EqualsAll()"


def _foreign_stream() -> Any:
    """A stream of another program, which is closed."""
    with st.Program("another") as program:
        loaded = st.linear_load(st.spec(2, 2), (1, 1))
        loaded.consume()
    return program.operators[0].outputs[0]


_PLAIN: list[Any] = [
    0, 1, -1, 2, 3, True, False, None, 1.0, 0.5, -0.0, math.nan, math.inf, -math.inf, 1e300,
    2**31, 2**31 - 1, 2**40, 2**63, 2**63 - 1, -(2**63), 2**64, 10**400, 1j,
    "", "x", "1", "\0", "\ud800", "nan", "f32", "add", "rows", "a" * 5000, b"", b"x",
    [], (), {}, set(), [None], [[]], [1], (1,), (1, 1), (2, 2), (0, 0), (-1, 2), (1, 2, 3), [1,
    [2]],
    (True, True), (1.0, 2.0), (None, 1), ("a", "b"), {"x": 1}, {1}, range(3), slice(None),
    Decimal("1"), Fraction(1, 2), Path("/nonexistent"), Ellipsis, NotImplemented, object, len,
    Odd(), EqualsAll(), [Odd()],
]  # fmt: skip

_ARRAYS: list[Any] = [
    np.int64(1), np.int8(-1), np.uint64(2**64 - 1), np.float64(1.0), np.float32(np.nan),
    np.bool_(1),
    np.datetime64("NaT"), np.str_("x"), np.array(1), np.array([]), np.zeros((0, 2)),
    np.zeros((2, 0), int), np.zeros((2, 2), complex), np.array(["a", "b"]), np.array([None, 1]),
    np.array([[1, 2], [3, 4]]), np.array([[1.5]]), np.array([[2**63 - 1]]), np.ones((1, 1, 1, 1)),
    np.array([[True, False]]), np.zeros((2, 2), dtype="M8[s]"), np.zeros(2, dtype=[("a", "i4")]),
    np.ma.masked_array([1, 2], [0, 1]), np.array([[np.nan]]), np.array([[-1]]),
]  # fmt: skip

_SYMBOLIC: list[Any] = [
    sympy.Symbol("q"), sympy.Integer(2), sympy.Rational(1, 2), sympy.oo, sympy.nan, sympy.zoo,
    sympy.Symbol("n", integer=True, nonnegative=True) + 1, sympy.true, sympy.Float(1.0),
]  # fmt: skip

_OURS: list[Callable[[], Any]] = [
    _foreign_stream, lambda: st.graph.Dim(3), lambda: st.Program("other"), lambda: st.fn.matmul,
    lambda: st.fn.unpack_rows(), lambda: st.fn.zero((1, 1)), lambda: st.Tile.of("f32", 2, 2),
    lambda: st.graph.DType.f4, lambda: st.spec(2, 2), lambda: st.graph.MultiHot(2, 1),
    lambda: st.graph.Ack(), lambda: st.load_machine(), lambda: st.Limits(),
    lambda: st.workloads.Data(), lambda: st.graph.Kind.RG,
]  # fmt: skip


def nasty(rng: random.Random) -> Any:
    """One of the values."""
    pool: Any = rng.choice([_PLAIN, _PLAIN, _ARRAYS, _SYMBOLIC, _OURS])
    value = rng.choice(pool)
    return value() if pool is _OURS else value
