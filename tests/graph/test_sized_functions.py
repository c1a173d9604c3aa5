"""Functions that state their sizes: one line for the type, the symbolic FLOPs and the checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import ArgError, DimError, DTypeError, LoweringError
from stepsim.graph import Function
from stepsim.plugins import Plugin
from tests.graph.support import scratch, tiles


@pytest.fixture
def program() -> Iterator[st.Program]:
    with scratch(compute_bw=1024) as p:
        yield p


def outer(rows: Any, cols: Any, other_rows: Any, other_cols: Any) -> tuple[Any, Any, Any]:
    """Columns of both side by side."""
    return (rows, cols + other_cols, rows * other_cols) if rows == other_rows else (-1, -1, -1)


def square(rows: Any, cols: Any) -> tuple[Any, Any, Any]:
    return rows, cols, rows * cols


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
        (lambda rows, cols: (rows, cols, -1), DimError, "join does not fit Tile"),
        (lambda rows, cols: (rows, 2.5, 0), DTypeError, "sizes of join returns 2.5 as columns for"),
        (lambda rows, cols: (rows, cols, None), DTypeError, "returns None as cost for Tile"),
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"map_unit": "Sliu"}, r"map_unit is 'Sliu', .*did you mean 'Silu'"),
        ({"accum_unit": "Silu"}, "accum_unit is 'Silu', expected one of Matmul"),
        ({"map_unit": "Silu", "cost": lambda tiles, out: 3}, "symbolic and executed FLOPs would"),
        ({"map_unit": "Silu", "arity": 2}, "arity is 2, but unit 'Silu' takes 1"),
        ({"map_unit": "Silu", "stride": 2}, "stride= has no effect on unit 'Silu'"),
        ({"map_unit": "Silu", "transposed": True}, "transposed= has no effect"),
        ({"map_unit": "Silu", "constant_cycles": True}, "constant_cycles= has no effect"),
        ({"map_unit": "Mul", "accum_unit": "Add", "arity": 2}, "are two units"),
        ({"map_unit": "CacheWriteAddrGen", "arity": 2}, "needs a stride"),
        ({"kernel": 3}, "kernel must be a function or None, found 3"),
        ({"accum_unit": "RetileRow", "kernel": abs}, "kernel= has no effect on unit 'RetileRow'"),
        ({"accum_unit": "RetileRow", "infer": abs}, "infer= has no effect on unit 'RetileRow'"),
        ({"accum_unit": "SignalReqAllRead", "kernel": abs}, "kernel= has no effect"),
        ({"accum_unit": "RetileRow", "arity": 2}, "arity is 2, but unit 'RetileRow' takes 1"),
        ({"map_unit": "SetOffset", "arity": 2, "kernel": abs}, "kernel= has no effect"),
        ({}, r"Function 'f': it has no unit; give map_unit= or accum_unit=, or sizes="),
        ({"transposed": True}, "it has no unit"),
        ({"stride": 2}, "it has no unit"),
        ({"constant_cycles": True}, "it has no unit"),
        ({"cost": abs}, "it has no unit"),
        ({"kernel": abs}, "it has no unit"),
        ({"sizes": square, "map_unit": "Silu"}, "'Silu' is a unit of the engine"),
        ({"sizes": square, "name": "Silu"}, "'Silu' is a unit of the engine"),
        ({"sizes": square, "name": "RetileRow"}, "'RetileRow' is a unit of the engine"),
        ({"sizes": square, "map_unit": "DynMatmul"}, "'DynMatmul' is a unit of the engine"),
        ({"sizes": square, "accum_unit": "Add"}, "accum_unit= has no effect on a function that"),
        ({"sizes": square, "accum_unit": "mine"}, "accum_unit= has no effect"),
        ({"sizes": square, "cost": abs}, "cost= has no effect"),
        ({"sizes": square, "infer": abs}, "infer= has no effect"),
        ({"sizes": square, "stride": 2}, "stride= has no effect"),
        ({"sizes": square, "transposed": True}, "transposed= has no effect"),
    ],
)
def test_arguments_that_the_engine_would_ignore(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgError, match=message):
        Function(**{"name": "f", "arity": 1} | arguments)


def test_a_function_of_a_known_unit_has_its_type_and_flops(program: st.Program) -> None:
    gelu = st.map(Function("gelu", 1, "Silu"), tiles(3, rows=2))
    silu = st.map(st.fn.silu, tiles(3, rows=2))
    assert gelu.type == silu.type
    assert gelu.producer.flops() == silu.producer.flops() > 0
    narrow = Function("narrow", 1, "Silu", infer=st.fn.row_sum.infer)
    with pytest.raises(DTypeError, match=r"infer= of narrow returns .* unit 'Silu' makes"):
        st.map(narrow, tiles(3))


def test_sizes_outside_a_package_have_a_hint() -> None:
    twice = Function("twice", 1, sizes=lambda rows, cols: (rows, cols, 0))
    with st.Program(compute_bw=8) as program:
        st.map(twice, st.linear_load(st.spec(4, 8), (4, 8))).consume()
    with pytest.raises(LoweringError, match=r"entry points 'stepsim\.functions'"):
        st.simulate(program)


def fails(*_: Any) -> Any:
    return 1 // 0


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (Function("mine", 1, sizes=fails), r"map#\d+: sizes of mine .*\(ZeroDivisionError: "),
        (Function("mine", 1, "Silu", infer=fails), r"map#\d+: infer= of mine raised ZeroDivision"),
    ],
)
def test_a_callback_that_raises_is_named(
    program: st.Program, function: Function, message: str
) -> None:
    with pytest.raises(DTypeError, match=message) as caught:
        st.map(function, tiles(3))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_function_can_be_made_from_another() -> None:
    values = dataclasses.replace(Function("mine", 1, sizes=square), kernel=abs)
    assert (values.map_unit, values.kernel) == ("mine", abs)
    assert dataclasses.replace(st.fn.silu, name="gelu").infer is st.fn.silu.infer


def test_cycles_of_a_sized_function_are_no_flops(program: st.Program) -> None:
    timed = Function("timed", 1, sizes=square, constant_cycles=True)
    assert st.map(timed, tiles(3)).producer.flops() == 0


def test_a_ragged_side_is_kept_or_refused(program: st.Program) -> None:
    rows = tiles(2, program.ragged("n")).accum(st.fn.pack_rows, 1)
    assert st.map(Function("keep", 1, sizes=square), rows).type == rows.type
    double = Function("double", 1, sizes=lambda rows, cols: (2 * rows, cols, 0))
    with pytest.raises(DimError, match=r"double changes a ragged side of .*; sizes= can only keep"):
        st.map(double, rows)


def test_products_of_two_widths_have_the_first_whatever_the_name(program: st.Program) -> None:
    """The engine is told the width of the results of a matmul of operands of two widths."""
    wide, narrow = tiles(3, rows=4, cols=4), tiles(3, rows=4, cols=4, dtype="fp8")
    for function in (st.fn.matmul, dataclasses.replace(st.fn.matmul, name="mine")):
        made = st.map(function, wide, narrow).producer
        assert made.unit_params({})["result_bpe"] == wide.type.dtype.element_bytes


def test_the_sizes_of_a_package_cannot_be_others(
    program: st.Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine has compiled those of the package, which would run in place of one's own."""
    offered = Function("square", 1, sizes=square)
    plugin = Plugin("square", "stepsim.functions", "a:square", "there", "1.0", offered)
    monkeypatch.setattr("stepsim.graph.ops.higher_order.usable", lambda group: (plugin,))
    assert st.map(offered, tiles(3)).producer.unit_params({})["fn"] == "square"
    with_values = dataclasses.replace(offered, kernel=abs)
    assert st.map(with_values, tiles(3)).producer.unit_params({})["fn"] == "square"
    for changes in ({"sizes": lambda rows, cols: (rows, cols, 1)}, {"constant_cycles": True}):
        other = st.map(dataclasses.replace(offered, **changes), tiles(3)).producer
        with pytest.raises(LoweringError, match="square is not the 'square' of package there"):
            other.unit_params({})
