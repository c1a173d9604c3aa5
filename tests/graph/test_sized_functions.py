"""Functions that state their sizes: one line for the type, the symbolic FLOPs and the checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import DimError, DTypeError
from stepsim.graph import Function
from tests.graph.support import scratch, tiles


@pytest.fixture
def program() -> Iterator[st.Program]:
    with scratch(compute_bw=1024) as p:
        yield p


def outer(rows: Any, cols: Any, other_rows: Any, other_cols: Any) -> tuple[Any, Any, Any]:
    """Columns of both side by side."""
    return (rows, cols + other_cols, rows * other_cols) if rows == other_rows else (-1, -1, -1)


def test_sizes_give_type_and_flops() -> None:
    join = Function("join", 2, sizes=outer)
    with st.Program(compute_bw=8) as program:
        x = st.linear_load(st.spec(32, 8), tile=(16, 8))
        y = st.linear_load(st.spec(32, 4), tile=(16, 4))
        joined = st.map(join, x, y)
        st.linear_store(joined)
    assert (int(joined.type.rows), int(joined.type.cols)) == (16, 12)
    assert program.metrics().flops == 2 * 16 * 4


def test_symbolic_sides_stay_what_they_are(program: st.Program) -> None:
    double = Function("double", 1, sizes=lambda rows, cols: (rows, 2 * cols, rows * cols))
    packed = tiles(3, program.dim("n")).accum(st.fn.pack_rows, 1)
    doubled = st.map(double, packed)
    assert doubled.type.rows is packed.type.rows
    assert int(doubled.type.cols) == 2 * int(packed.type.cols)
    assert str(doubled.producer.flops()) == str(3 * packed.type.rows.expr * packed.type.cols.expr)


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        (lambda rows, cols: (-1, cols, 0), DimError, "join does not fit Tile"),
        (lambda rows, cols: (rows, cols), DTypeError, "sizes of join does not work for Tile"),
        (lambda rows: (rows, rows, 0), DTypeError, "it takes rows and columns of every operand"),
    ],
)
def test_sizes_that_do_not_work(
    program: st.Program, sizes: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        st.map(Function("join", 1, sizes=sizes), tiles(3))


def test_unknown_function_has_a_hint() -> None:
    with pytest.raises(AttributeError, match=r"no function st\.fn\.matmull; did you mean 'matmul'"):
        _ = st.fn.matmull
