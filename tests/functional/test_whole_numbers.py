"""Arithmetic of whole numbers: addresses, lengths and counters."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim import fn
from stepsim.errors import ArgError, DTypeError, EvaluationError, GraphFileError
from stepsim.graph import Function
from stepsim.simulation import run_functional
from tests.functional.support import run_both

A, B = [4, 7, 9], [2, 7, 12]

OF_TWO: dict[Function, Callable[[int, int], int]] = {
    fn.add: lambda a, b: a + b,
    fn.mul: lambda a, b: a * b,
    fn.max: max,
    fn.min: min,
    fn.eq: lambda a, b: int(a == b),
    fn.ne: lambda a, b: int(a != b),
    fn.lt: lambda a, b: int(a < b),
    fn.le: lambda a, b: int(a <= b),
    fn.gt: lambda a, b: int(a > b),
    fn.ge: lambda a, b: int(a >= b),
}

OF_ONE: dict[Function, Callable[[int], int]] = {
    fn.add_const(3): lambda a: a + 3,
    fn.sub_const(4): lambda a: a - 4,
    fn.mul_const(5.0): lambda a: a * 5,
    fn.floor_div_const(4): lambda a: a // 4,
}


def valid_rows(numbers: Callable[[st.Stream, st.Stream], st.Stream]) -> list[int]:
    with st.Program("numbers") as program:
        a, b = st.metadata(A), st.metadata(B)
        x = numbers(a, b)
        tiles = st.linear_load(np.ones((3 * 128, 1), np.float32), (128, 1)).flatten(0, 1)
        y = st.map(fn.set_offset, tiles, x)
        y.consume()
        for unused in (a, b):
            unused.consume()
    assert program.metrics().flops == st.simulate(program).flops == 0
    return [token.payload.valid for token in run_both(program).stream(y)]


@pytest.mark.parametrize("function", OF_TWO, ids=str)
def test_functions_of_two_numbers(function: Function) -> None:
    expected = [OF_TWO[function](a, b) for a, b in zip(A, B, strict=True)]
    assert valid_rows(lambda a, b: st.map(function, a, b)) == expected


@pytest.mark.parametrize("function", OF_ONE, ids=str)
def test_functions_of_a_number_and_a_constant(function: Function) -> None:
    assert valid_rows(lambda a, b: a.map(function)) == [OF_ONE[function](a) for a in A]


def test_differences_and_choices() -> None:
    larger = valid_rows(lambda a, b: st.map(fn.sub, st.map(fn.max, a, b), st.map(fn.min, a, b)))
    assert larger == [abs(a - b) for a, b in zip(A, B, strict=True)]
    chosen = valid_rows(lambda a, b: st.map(fn.where, st.map(fn.lt, a, b), b, a))
    assert chosen == [max(a, b) for a, b in zip(A, B, strict=True)]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda x: x.scan(fn.add, 1), [1, 3, 6, 10]),
        (lambda x: x.scan(fn.max, 1), [1, 2, 3, 4]),
        (lambda x: x.accum(fn.add, 1), [10]),
    ],
)
def test_sums_over_streams(made: Callable[[st.Stream], st.Stream], expected: list[int]) -> None:
    with st.Program("sums") as program:
        x = made(st.metadata([[1, 2, 3, 4]]))
        lanes = st.map(fn.index_to_multihot(16), x)
        lanes.consume()
    chosen = [token.payload.indices for token in run_both(program).stream(lanes)]
    assert [list(one) for one in chosen] == [[number] for number in expected]


@pytest.mark.parametrize(
    "made",
    [lambda x: x.map(fn.sub_const(2)), lambda x: x.map(fn.mul_const(2**60)).map(fn.mul_const(8))],
)
def test_numbers_out_of_range_end_a_run(made: Callable[[st.Stream], st.Stream]) -> None:
    with st.Program("out of range") as program:
        made(st.metadata([2, 1])).consume()
    assert "makes a number below 0 or above 2**63 - 1" in str(st.simulate(program).diagnosis)
    with pytest.raises(EvaluationError, match=r"whole numbers are from 0 to 2\*\*63 - 1"):
        run_functional(program)


@pytest.mark.parametrize(
    ("made", "error", "expected"),
    [
        (lambda x: x.map(fn.add_const(0.5)), DTypeError, "of whole numbers there are add, sub"),
        (lambda x: x.map(fn.add_const(-1)), DTypeError, "of whole numbers there are add, sub"),
        (lambda x: st.map(fn.div, x, x), DTypeError, "floor_div_const with such a constant"),
        (lambda x: x.accum(fn.mul, 1), ArgError, "'mul' cannot be used in an accumulation"),
        (lambda x: x.accum(fn.add, 1, fn.full((1, 1), 5)), ArgError, "counts from 0"),
        (lambda x: x.accum(fn.increment, 1, fn.full((1, 1), 5)), ArgError, "counts from 0"),
    ],
)
def test_what_whole_numbers_cannot_do(
    made: Callable[[st.Stream], Any], error: type[Exception], expected: str
) -> None:
    with pytest.raises(error, match=expected), st.Program("refused", compute_bw=1):
        made(st.metadata([[2, 1]]))


def test_they_are_no_functions_of_tiles() -> None:
    whole = fn.mul_const(3).whole
    assert whole is not None
    assert pickle.loads(pickle.dumps(whole)) is whole
    assert whole.identity() != fn.mul_const(3).identity()
    with st.Program("weights", flop_weights={"add": 3}) as program:
        a = st.metadata([1])
        st.map(fn.add, a, a).consume()
    assert program.metrics().flops == 0
    with pytest.raises(GraphFileError, match="the format has no function for add"):
        program.to_graph()
