"""Types and refusals of the operators of 2026 that deal, repeat, filter and shuffle."""

from __future__ import annotations

import re

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, DimError, DTypeError, RankError
from stepsim.graph import fn
from stepsim.graph.accounting import Accounting
from tests.graph.support import scratch, shape, tiles


@pytest.fixture(autouse=True)
def program():
    with scratch() as p:
        yield p


def test_distributing_and_collecting_gives_the_dims_back(program):
    n = program.dim("n")
    for x in (tiles(7), tiles(n), tiles(n, 3), tiles(2)):
        lanes = st.parallelize(x, 3)
        assert st.static_reassemble(lanes).shape[0] == x.shape[0]
    equal = st.static_reassemble([tiles(n), tiles(n)])
    assert shape(equal) == ["2*n"]


def test_static_reassemble_refuses_counts_that_are_not_round_robin(program):
    with pytest.raises(DimError, match=r"hold \[1, 3\] chunks; .* of 4 chunks is \[2, 2\]"):
        st.static_reassemble([tiles(1), tiles(3)])
    with pytest.raises(DimError, match="dim 0 differs"):
        st.static_reassemble([tiles(program.dim("a")), tiles(program.dim("b"))])
    with pytest.raises(ArgError, match="no input streams"):
        st.static_reassemble([])
    with pytest.raises(ArgError, match="must hold 2 ints"):
        st.static_reassemble([tiles(1), tiles(1)], switch_cycles=[1])
    with pytest.raises(RankError, match="has rank 0, expected 1"):
        st.static_reassemble([tiles(1), tiles(1)], rank=1)
    with pytest.raises(DTypeError):
        st.static_reassemble([tiles(1), st.metadata([1])])


def test_lanes(program):
    own = program.ragged("len")
    even, odd = st.deinterleave(tiles(2, own), 2)
    assert even.shape == odd.shape
    assert (even.shape[1].total, even.shape[1].is_ragged) == (own.total / 2, True)
    both = st.interleave([even, odd])
    assert both.shape[1].total == own.total
    with pytest.raises(DimError, match="2 lanes do not divide dim 0 = 3"):
        st.deinterleave(tiles(3), 2)
    with pytest.raises(ArgError, match="1 lanes, expected at least 2"):
        st.deinterleave(tiles(3), 1)
    with pytest.raises(ArgError, match="1 lanes, expected at least 2"):
        st.interleave([tiles(3)])
    with pytest.raises(DimError, match="dim 0 differs"):
        st.interleave([tiles(3), tiles(4)])


def test_repeat_ref(program):
    own = program.ragged("len")
    made = tiles(4).repeat_ref(tiles(4, own, 3), rank=1)
    assert shape(made) == ["4", f"~{own.expr}"]
    assert made.producer.unit_params({}) == {"rank": 1, "e": 1}
    with pytest.raises(RankError, match=r"has 1 more dims .* with rank 1 it needs at least 2"):
        tiles(4).repeat_ref(tiles(4, 3), rank=1)
    with pytest.raises(RankError, match="rank is -1"):
        tiles(4).repeat_ref(tiles(4, 3), rank=-1)
    with pytest.raises(DimError, match="dim 1 differs"):
        tiles(4).repeat_ref(tiles(5, 3))


def test_take_last(program):
    assert shape(tiles(program.dim("n"), 3).take_last()) == ["n", "1"]
    with pytest.raises(RankError, match="none of its elements carries a stop"):
        tiles(3).take_last()


def test_filtered_rows(program):
    x = st.linear_load(st.spec(8, 4, dtype="f32"), (4, 4)).flatten(0, 1)
    assert x.filter_rows().shape[0] == 8
    assert x.filter_rows(st.selector([[1, 1, 0, 0], [0, 1, 0, 0]])).shape[0] == 3
    assert x.filter_rows(st.selector([[1, 1, 0, 0], [0, 1, 0, 1]])).shape[0] == 4
    with pytest.raises(DimError, match="mask has 3 flags for each tile of 4 rows"):
        x.filter_rows(st.selector(np.ones((2, 3), int)))
    with pytest.raises(DimError, match="dim 0 differs"):
        x.filter_rows(st.selector(np.ones((3, 4), int)))
    with pytest.raises(DTypeError, match="mask must carry selectors or Boolean tiles"):
        x.filter_rows(st.metadata([1, 2]))
    with pytest.raises(DTypeError, match="tiles of scalars"):
        st.metadata([1]).filter_rows()


def test_shuffle(program):
    x = tiles(2, 3, 5)
    which = st.selector(np.ones((2, 3, 4), int))
    data, markers = st.shuffle(x, which)
    assert [d.is_ragged for d in data.shape] == [False, True, True, False]
    assert data.shape[:2] == markers.shape
    assert data.shape[2].total == 2 * 3 * 4
    assert (markers.type.width, markers.type.hot) == (4, 1)
    held = data.producer.memory(Accounting("executed", False))
    assert held == 3 * 5 * int(x.type.rows) * int(x.type.cols) * 2
    with pytest.raises(RankError, match="have groups of rank 2, not 1"):
        st.shuffle(x, which, rank=1)
    with pytest.raises(RankError, match=re.escape("promote() both")):
        st.shuffle(tiles(3), st.selector(np.ones((3, 2), int)))
    with pytest.raises(DTypeError, match="selector must carry selectors"):
        st.shuffle(x, x)


def test_chunks_of_rows_and_columns(program):
    x = st.linear_load(st.spec(10, 7, dtype="f32"), (5, 7)).flatten(0, 1)
    rows = x.flat_map(fn.unpack_rows(chunk=2))
    assert rows.shape[0] == 6
    assert (rows.type.rows.is_ragged, rows.type.rows.total, rows.type.rows.bound) == (True, 10, 2)
    cols = x.flat_map(fn.unpack_cols(chunk=3))
    assert (cols.shape[0], cols.type.rows, cols.type.cols.total) == (6, 5, 14)
    whole = x.flat_map(fn.unpack_cols(chunk=9))
    assert (whole.shape[0], whole.type.cols) == (2, 7)
    with pytest.raises(ArgError, match="unpack_cols: chunk must be an int from 1"):
        fn.unpack_cols(chunk=0)
    with pytest.raises(ArgError, match="padding can be dropped from rows"):
        st.StreamFunction(
            "f", "RetileStreamify", (("split_row", False), ("filter", True), ("chunk", 2))
        )


def test_pieces_by_length(program):
    x, lengths = tiles(4), st.metadata([1, 2, 3, 4])
    made = x.flat_map(fn.emit(["length", 2]), lengths)
    assert made.shape[0] == program.length_of(lengths).total
    with pytest.raises(ArgError, match="'emit' takes 2 streams, found 1"):
        x.flat_map(fn.emit(["length"]))
    with pytest.raises(ArgError, match="'emit' takes 1 stream, found 2"):
        x.flat_map(fn.emit([2]), lengths)
    with pytest.raises(DTypeError, match="in2 must carry 1x1 tiles"):
        x.flat_map(fn.emit(["length"]), x)
