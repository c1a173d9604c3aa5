"""Functions of many operands, and tuples of tuples, whose members double from level to level."""

from __future__ import annotations

import pickle
import time
from functools import reduce

import numpy as np
import pytest

import stepsim as st
from stepsim.graph import fn
from stepsim.graph.types import TupleType
from tests.graph.support import scratch

TILE = st.Tile.of("f32", 2, 4)
MANY = 7, 8, 26, 64


def column() -> st.Stream:
    return st.linear_load(np.ones((2, 1), "f4"), (2, 1))


@pytest.mark.parametrize("count", MANY)
def test_columns_of_many_tiles_are_put_together(count: int) -> None:
    with st.Program("wide", compute_bw=8) as program:
        joined = st.map(fn.concat_cols(count), *(column() for _ in range(count)))
        st.linear_store(joined, "out")
    assert st.run_functional(program).stored["out"].shape == (2, count)
    assert st.simulate(program).status == "ok"


@pytest.mark.parametrize("count", MANY)
def test_examples_of_many_operands_name_each_of_them(count: int) -> None:
    for made in (fn.concat_cols(count), fn.concat_rows(count), fn.part(0, count)):
        assert made.__doc__ is not None
        assert f"st.map(fn.{made}, " in made.__doc__ or f"x{count - 1}" in made.__doc__


def test_tuples_of_eight_are_taken_apart() -> None:
    with st.Program("eight", compute_bw=8) as program:
        pairs = reduce(st.zip, (column() for _ in range(8)))
        apart = st.unzip(pairs)
        for one in apart:
            one.consume()
    assert len(apart) == 8
    assert st.simulate(program).status == "ok"


def doubled(levels: int) -> TupleType:
    made = TupleType((TILE, TILE))
    for _ in range(levels - 1):
        made = TupleType((made, made))
    return made


def test_nested_pairs_take_time_by_their_levels() -> None:
    start = time.perf_counter()
    with st.Program("nested", compute_bw=8) as program:
        x = st.linear_load(st.spec(4, 4), (2, 4))
        for _ in range(40):
            x = st.zip(x, x)
        x.consume()
    program.metrics()
    program.fingerprint()
    assert len(str(program)) < 10_000
    program.to_dot()
    assert st.simulate(program).status == "ok"
    assert program.downtile(1, 4).operators
    assert time.perf_counter() - start < 10


def test_nested_pairs_are_compared_by_what_they_are() -> None:
    one, other = doubled(200), doubled(200)
    assert one == other
    assert hash(one) == hash(other)
    assert one != doubled(199)
    assert pickle.loads(pickle.dumps(doubled(30))) == doubled(30)
    assert TupleType((TILE, doubled(1))) != TupleType((doubled(1), TILE))
    assert repr(doubled(2)) == f"TupleType[(({TILE}, {TILE}), ({TILE}, {TILE}))]"
    assert str(doubled(7)) == "(128 members)"
    assert str(doubled(100)) == "(2**100 members or more)"


def test_nested_pairs_are_partitioned_once() -> None:
    start = time.perf_counter()
    with st.Program("parted", compute_bw=8) as program:
        x = st.linear_load(st.spec(4, 4), (2, 4)).flatten(0, 1)
        for _ in range(30):
            x = st.zip(x, x)
        for one in st.partition(x, st.selector([[1, 0], [0, 1]])):
            one.consume()
    assert st.simulate(program).status == "ok"
    assert time.perf_counter() - start < 10


def test_more_members_than_functions_take_are_refused() -> None:
    with scratch(compute_bw=8):
        x = st.linear_load(st.spec(4, 4), (2, 4))
        for _ in range(40):
            x = st.zip(x, x)
        expected = r"the tuples have 1099511627776 members; a function takes at most 4096 operands"
        for refused in (
            lambda: st.unzip(x),
            lambda: x.map(fn.silu),
            lambda: x.accum(fn.add, 1),
            lambda: st.map_accum(fn.matmul, x, x, 1, compute_bw=8),
        ):
            with pytest.raises(st.errors.ArgError, match=expected.split(";")[1]):
                refused()
        with pytest.raises(st.errors.ArgError, match=expected):
            st.unzip(x)
