"""Formulas for number and size of the pieces of a user's stream function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy

import stepsim as st
from stepsim import Stream, fn
from stepsim.errors import ArgError, DimError, StepError
from stepsim.functional import TileValue
from stepsim.graph.functions.piece_size import piece_size
from tests.simulation.inferred import compare


def _tiles(*shape: int, rows: int = 4, cols: int = 6) -> Stream:
    count = int(np.prod(shape))
    array = np.arange(count * rows * cols, dtype=np.float32).reshape(count * rows, cols)
    steps = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    return st.linear_load(array, (rows, cols), shape=shape, stride=steps)


@pytest.mark.parametrize(
    ("dims", "tile", "described"),
    [
        (["2*m"], ("1", "n/2"), "Stream[2, 24] of Tile[1x3 f32]"),
        (["m/2", "2"], (1, "n"), "Stream[2, 6, 2] of Tile[1x6 f32]"),
        (["ceil(m/3)"], (2, "cols"), "Stream[2, 6] of Tile[2x6 f32]"),
        (["m*n"], ("1", "1"), "Stream[2, 72] of Tile[1x1 f32]"),
        (["(2*m + n)/14", "cols + 2*rows"], ("2", "n*1"), "Stream[2, 3, 14] of Tile[2x6 f32]"),
        (["valid"], ("1", "n"), "Stream[2, 12] of Tile[1x6 f32]"),
    ],
)
def test_sizes_that_are_known(dims: Any, tile: Any, described: str) -> None:
    with st.Program():
        y = _tiles(2, 3).flat_map(fn.emit(dims, tile))
        y.consume()
    assert y.describe().startswith(described)


def test_pieces_have_the_values_of_the_tile() -> None:
    with st.Program() as p:
        y = _tiles(2).flat_map(fn.emit(["m/2", "2"], ("2", "n/2"), cycles=3))
        y.consume()
    assert compare(p) == "ok"
    pieces = st.run_functional(p).stream(y)
    assert [t.level for t in pieces] == [0, 1, 0, 1, 0, 1, 0, 1]
    first = pieces[0].payload
    assert isinstance(first, TileValue)
    assert first.data.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_sums_over_tiles_of_different_heights() -> None:
    """Linear formulas have sums that are known; rounded ones have symbols, which a run decides."""
    with st.Program(compute_bw=8) as p:
        x, source = st.eager_merge([_tiles(2, rows=3), _tiles(2, rows=4)])
        source.consume()
        double = x.flat_map(fn.emit(["2*m + 1"], (1, 2), kernel=_ones(1, 2, lambda m: 2 * m + 1)))
        half = x.flat_map(fn.emit(["ceil(m/2)"], (2, 6), kernel=_ones(2, 6, lambda m: -(-m // 2))))
        tall = x.flat_map(
            fn.emit(["1"], ("3*m", 2), kernel=lambda t, v: [np.ones((3 * len(t), 2))])
        )
        for y in (double, half, tall):
            st.map(fn.silu, y).consume()
    assert double.elements() == 2 * 14 + 4
    assert not isinstance(half.elements(), int)
    assert compare(p) == "ok"
    assert st.run_functional(p).contradictions() == []


def _ones(rows: int, cols: int, count: Any) -> Any:
    return lambda tile, valid: [np.ones((rows, cols), np.float32)] * count(len(tile))


def test_formulas_of_lengths_take_a_second_stream() -> None:
    with st.Program() as p:
        rule = fn.emit(["2*length"], ("1", "n"), kernel=lambda t, v, n: [t[:1]] * (2 * n))
        assert rule.arity == 2
        y = _tiles(3).flat_map(rule, st.metadata([1, 3, 2]))
        y.consume()
    assert compare(p) == "ok"
    assert len(st.run_functional(p).stream(y)) == 12


def test_dynamic_sides_have_symbolic_quotients() -> None:
    n = sympy.Symbol("n", integer=True, nonnegative=True)
    assert piece_size("rows*cols/4").at({"rows": 4, "cols": n}) == n
    assert str(piece_size("ceil(cols/4)").at({"cols": n})) == "ceil(n/4)"


@pytest.mark.parametrize(
    ("text", "spelled"),
    [("m", "rows"), ("n + m", "cols + rows"), ("n*m", "cols*rows"), ("2*m+2*m", "4*rows"),
     ("4*m/2", "2*rows"), ("ceil((2*m + 1)/4)", "ceil((2*rows + 1)/4)"), ("m / 3", "rows/3"),
     ("ceil(7/2)", "4"), ("rows*rows", "rows*rows")],
)  # fmt: skip
def test_one_spelling_for_each_formula(text: str, spelled: str) -> None:
    (found,) = dict(fn.emit([text]).params)["dims"]
    assert str(found) == spelled
    if isinstance(found, str):
        assert str(piece_size(found)) == spelled
        assert fn.emit([found]).params == fn.emit([text]).params


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("m-1", "holds 'm-1'.*without differences, which could be below 0"),
        ("m//2", r"what a floor leaves would be lost; write ceil\(m/4\)"),
        ("m**2", r"in products, such as m\*m"),
        ("max(m,n)", "without choices, of which no sum over tiles is known"),
        ("k", "holds 'k', expected an int or one of 'rows', 'cols', 'valid', 'length', or a"),
        ("row", "did you mean 'rows'"),
        ("0*m", "must be an int from 1"),
        ("7/2", r"not a whole number; write ceil\(7/2\)"),
        ("m/0", "the divisor must be from 1"),
        ("m/n", "only the whole size can be divided, by a number"),
        ("ceil(m/2)+1", "only the whole size can be divided, by a number"),
        ("2m", "cannot read the side '2m'"),
        ("", "cannot read the side ''"),
    ],
)
def test_forms_that_are_refused_say_why(entry: str, message: str) -> None:
    with pytest.raises(ArgError, match=message):
        fn.emit([entry])


@pytest.mark.parametrize(
    ("dims", "tile", "error", "message"),
    [
        (["m/3"], ("rows", "cols"), DimError, r"3 does not divide 4.*Write ceil\(rows/3\)"),
        (["valid/2"], (1, "n"), DimError, r"2 does not divide 1 \* ~v"),
        ([1], ("1000000000*m*n", "n"), ArgError, "the side 1000000000.* of a piece is 24000000000"),
        (["2000000000*m*m*m*m*m"], (1, 1), ArgError, "pieces or more"),
    ],
)
def test_formulas_that_do_not_fit_the_tiles(
    dims: Any, tile: Any, error: type[StepError], message: str
) -> None:
    with st.Program():
        padded = "valid/2" in dims
        x = _tiles(3, rows=1).reshape(2, pad=0) if padded else _tiles(2, 1)
        x = x.accum(fn.pack_rows, 1)
        with pytest.raises(error, match=message):
            x.flat_map(fn.emit(dims, tile))
        x.consume()


def test_a_side_that_outgrows_tiles_fails_in_the_run() -> None:
    with st.Program() as p:
        x, source = st.eager_merge([_tiles(1, rows=2), _tiles(1, rows=3)])
        source.consume()
        x.flat_map(fn.emit([1], ("500000*m", 1))).consume()
    result = st.simulate(p)
    assert result.status == "failed"
    assert "a tile side grew to 1500000" in str(result.diagnosis)


def test_more_pieces_than_can_be_counted_fail_in_the_run() -> None:
    with st.Program() as p:
        x, source = st.eager_merge([_tiles(1, rows=2), _tiles(1, rows=3)])
        source.consume()
        x.flat_map(fn.emit(["1000000*m", "1000000*m", "1000000*m", 1000], (1, 1))).consume()
    result = st.simulate(p)
    assert result.status == "failed"
    assert "pieces along one dim" in str(result.diagnosis)
