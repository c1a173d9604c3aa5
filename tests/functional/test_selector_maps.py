"""Values of maps that make or take selectors, and routing by numbers of the program."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, DTypeError
from stepsim.functional import Selection
from stepsim.graph import Program, fn
from stepsim.graph.functions.selectors import SelectorFunction
from tests.functional.support import numbers, run_both, tiles

FLAGS = [[1, 0, 1], [0, 0, 0], [1, 1, 0]]
OTHER = [[1, 1, 0], [0, 1, 0], [1, 1, 0]]


def _flags(tokens: list[object]) -> list[list[int]]:
    rows = [t.payload for t in tokens]  # type: ignore[attr-defined]
    assert all(isinstance(row, Selection) and row.width == 3 for row in rows)
    return [[int(i in row.indices) for i in range(3)] for row in rows]


@pytest.mark.parametrize(
    ("f", "combined"),
    [
        (fn.select_and, np.logical_and), (fn.select_or, np.logical_or),
        (fn.select_xor, np.logical_xor), (fn.select_not, np.logical_not),
    ],
)  # fmt: skip
def test_flags_are_combined(f: SelectorFunction, combined: np.ufunc) -> None:
    with Program("p") as p:
        y = st.map(f, *map(st.selector, [FLAGS, OTHER][: f.operands]), write_back=True)
        y.consume()
    wanted = combined(*map(np.array, [FLAGS, OTHER][: f.operands])).astype(int).tolist()
    assert _flags(run_both(p).stream(y)) == wanted


def test_selectors_and_numbers_are_turned_into_each_other() -> None:
    with Program("p") as p:
        bits = st.map(fn.multihot_to_integer, st.selector(FLAGS))
        flags = st.map(fn.integer_to_multihot(3), bits)
        hot = st.map(fn.index_to_multihot(3), st.metadata([[2, 0], [1, 1]]))
        index = hot.map(fn.select_to_scalar)
        ends = flags, index
        for y in ends:
            y.consume()
    result = run_both(p)
    assert [t.payload.value for t in result.stream(bits)] == [5, 0, 3]
    assert _flags(result.stream(flags)) == FLAGS
    assert [(t.payload.indices, t.level) for t in result.stream(hot)] == [
        ((2,), 0), ((0,), 1), ((1,), 0), ((1,), 1),
    ]  # fmt: skip
    assert numbers(result.stream(index)) == [(2, 0), (0, 1), (1, 0), (1, 1)]
    assert p.metrics().flops == 0


def test_numbers_of_the_program_route_its_data() -> None:
    with Program("p", compute_bw=4) as p:
        x, _ = tiles((4,))
        which = st.map(fn.index_to_multihot(3), st.metadata([2, 0, 2, 1]))
        parts = st.partition(x, which)
        for part in parts:
            part.consume()
    result = run_both(p)
    assert [[v for v, _ in numbers(result.stream(part))] for part in parts] == [[2], [4], [1, 3]]


def test_numbers_are_compared_counted_and_replaced() -> None:
    with Program("p", compute_bw=4) as p:
        x = st.metadata([[1, 2, 1], [0, 2, 2]])
        two = st.map(fn.is_equal(2), x)
        parts = st.partition(x, st.map(fn.index_to_multihot(2), two))
        count = x.accum(fn.increment, 1)
        running = x.scan(fn.increment, 1)
        seven = st.map(fn.to_integer(7), x)
        for y in (*parts, count, running, seven):
            y.consume()
    result = run_both(p)
    assert [v for v, _ in numbers(result.stream(two))] == [0, 1, 0, 0, 1, 1]
    assert [v for v, _ in numbers(result.stream(parts[0]))] == [1, 1, 0]
    assert numbers(result.stream(count)) == [(3, 0), (3, 0)]
    assert [v for v, _ in numbers(result.stream(running))] == [1, 2, 3, 1, 2, 3]
    assert [v for v, _ in numbers(result.stream(seven))] == [7] * 6


def test_one_row_becomes_many() -> None:
    with Program("p") as p:
        row = np.arange(4, dtype=np.float32)[None]
        y = st.map(fn.broadcast_rows(3), st.linear_load(row, (1, 4)))
        y.consume()
    assert (run_both(p).stream(y)[0].payload.data == np.repeat(row, 3, axis=0)).all()


@pytest.mark.parametrize(
    ("f", "values"), [(fn.index_to_multihot(2), [0, 2]), (fn.integer_to_multihot(2), [3, 4])]
)
def test_numbers_that_name_no_selector_fail_in_both(f: SelectorFunction, values: list[int]) -> None:
    with Program("p") as p:
        st.map(f, st.metadata(values)).consume()
    assert run_both(p) is None


def test_selectors_that_do_not_fit_are_refused() -> None:
    with Program("p"):
        wide, pair, number = st.selector(np.eye(13)), st.selector(FLAGS), st.metadata([1])
        narrow = st.selector([[1, 0]] * 3)
        with pytest.raises(ArgError, match="takes selectors of up to 12 flags, found MultiHot"):
            st.map(fn.select_not, wide)
        with pytest.raises(DTypeError, match="selectors of 3 and 2 flags do not go together"):
            st.map(fn.select_and, pair, narrow)
        with pytest.raises(DTypeError, match="in1 must carry whole numbers, found MultiHot"):
            st.map(fn.index_to_multihot(2), pair)
        with pytest.raises(DTypeError, match="in1 must carry selectors, found Tile"):
            st.map(fn.select_not, number)
        with pytest.raises(ArgError, match="compute_bw has no effect"):
            st.map(fn.select_not, pair, compute_bw=8)
        with pytest.raises(ArgError, match="takes 2 streams, found 1"):
            st.map(fn.select_or, pair)
        for x in (wide, pair, number, narrow):
            x.consume()
    with pytest.raises(ArgError, match="integer_to_multihot: width"):
        fn.integer_to_multihot(13)
    fn.index_to_multihot(1)
    for width in ([1], True):
        with pytest.raises(ArgError, match="width must be an int"):
            fn.index_to_multihot(width)  # type: ignore[arg-type]
        with pytest.raises(ArgError, match="width must be an int"):
            fn.integer_to_multihot(width)  # type: ignore[arg-type]
