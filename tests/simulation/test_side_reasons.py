"""Functions of tiles that do not fit at run time: which function, and which sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim import Stream, fn
from stepsim.graph.functions.function import Function
from stepsim.kernels.layout import MAX_TILE_SIDE, Abort
from stepsim.simulation.outcome.abort_reasons import abort_reason

PAIR = st.function("pair", "m n, m n -> m n", 1)
STATE = st.function("keep", "m n; m n -> m n", 1)


def _merged(*heights: int) -> Stream:
    """Tiles whose heights only a run knows."""
    tiles = [st.linear_load(np.ones((rows, 2), np.float32), (rows, 2)) for rows in heights]
    data, source = st.eager_merge([x.flatten(0, 1) for x in tiles])
    source.consume()
    return data


def _as_high(a: Stream, b: Stream) -> tuple[Stream, Stream]:
    assert isinstance(a.type, st.Tile)
    assert isinstance(b.type, st.Tile)
    a.program.assume_equal(a.type.rows, b.type.rows)
    return a, b


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (lambda: st.map(PAIR, *_as_high(_merged(1, 3), _merged(3, 4))),
         r"pair \('m n, m n -> m n'\): rows of operand 2 = 3, but must be equal to rows of operand "
         "1 = 1, which is m too; give it tiles that fit"),
        (lambda: st.map(fn.t_matmul, *_as_high(_merged(1, 4), _merged(2, 3))),
         "t_matmul .*: rows of operand 2 = 2, but must be equal to rows of operand 1 = 1, which is "
         "k too"),
        (lambda: _merged(1, 2).unsqueeze(1).accum(STATE, 1, fn.empty((0, 0))),
         r"keep \('m n; m n -> m n'\): rows of state 1 = 1, but must be equal to rows of operand 1 "
         "= 2, which is m too; give init= a state of that size"),
        (lambda: st.map_accum(fn.matmul_t, *(_merged(1, 4).unsqueeze(1) for _ in range(2)), 1),
         r"matmul_t \('m k, n k -> m n'\): rows of state 1 = 1, but must be equal to rows of "
         "operand 1 = 4"),
    ],
)  # fmt: skip
def test_the_function_and_both_sides_are_named(apply: Any, message: str) -> None:
    with st.Program(compute_bw=4) as p:
        apply().consume()
    result = st.simulate(p)
    assert result.status == "failed"
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(str(result.diagnosis))


def _reason(side: int, found: int, expected: int, function: Function | None) -> str:
    packed = side * 2 * MAX_TILE_SIDE + found
    return abort_reason(Abort.INNER_DIMS, packed, expected, (), function)


def test_sides_that_are_sums_and_functions_that_are_not_known() -> None:
    longer = st.function("longer", "a n, b n, a+b 4 -> a n", 1)
    assert "rows of operand 3 = 5, but must be equal to a + b = 7;" in _reason(4, 5, 7, longer)
    assert "columns of operand 3 = 3, but must be equal to 4;" in _reason(5, 3, 4, longer)
    assert "side 3 of its function is 5, but the other sides require 6" in _reason(3, 5, 6, None)
