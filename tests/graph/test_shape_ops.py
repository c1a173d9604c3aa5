"""Shape operators: output shapes and every refusal."""

from __future__ import annotations

import pytest

import stepsim.graph as st
from stepsim.errors import (
    ArgError,
    DimError,
    DTypeError,
    KindError,
    RankError,
)
from tests.graph.support import scratch, shape, text, tiles


@pytest.fixture(autouse=True)
def program():
    with scratch() as p:
        yield p


def test_flatten(program):
    n = program.dim("n")
    assert shape(tiles(n, 3, 4).flatten(0, 1)) == ["n", "12"]
    assert shape(tiles(n, 3, 4).flatten(1, 2)) == ["3*n", "4"]
    assert shape(tiles(n, 3, 4).flatten(0, 2)) == ["12*n"]


def test_flatten_absorbs_ragged_dims(program):
    ragged = program.ragged("len")
    x = tiles(2, 2, ragged)
    inner = x.flatten(0, 1)
    assert inner.shape[1].is_ragged
    assert inner.shape[1] != ragged
    assert inner.elements() == x.elements() == ragged.total
    assert x.flatten(0, 2).shape == (st.Dim(ragged.total),)


@pytest.mark.parametrize(("lo", "hi"), [(0, 0), (1, 0), (-1, 1), (0, 3)])
def test_flatten_range(lo, hi):
    with pytest.raises(RankError, match=r"flatten#1: cannot flatten dims .* of \[2, 3, 4\]"):
        tiles(2, 3, 4).flatten(lo, hi)


def test_reshape_innermost(program):
    n = program.dim("n")
    assert shape(tiles(8).reshape(4)) == ["2", "4"]
    assert shape(tiles(9).reshape(4, pad=0)) == ["3", "4"]
    assert shape(tiles(n).reshape(4, pad=0)) == ["ceil(n/4)", "4"]
    assert shape(tiles(n).reshape(1)) == ["n", "1"]
    assert shape(tiles(n).reshape(4, pad=0, add_outer=True)) == ["Min(1, n)", "ceil(n/4)", "4"]


def test_reshape_ragged_makes_a_new_ragged_dim(program):
    made = tiles(3, program.ragged("len")).reshape(4, pad=0).shape
    assert made[1].is_ragged
    assert str(made[1]) == "~len_c4"
    assert made[2] == 4


def test_reshape_outer():
    assert shape(tiles(6, 5).reshape(3, dim=1)) == ["2", "3", "5"]
    assert shape(tiles(6, 5).reshape(1, dim=1)) == ["6", "1", "5"]


def test_reshape_refusals(program):
    n = program.dim("n")
    with pytest.raises(ArgError, match=r"rows#1 \(reshape\): dim 0 = n .* Pass pad=0"):
        tiles(n).reshape(4, label="rows")
    with pytest.raises(DimError, match=r"chunk 4 does not divide dim 1 = 6 of \[6, 5\]"):
        tiles(6, 5).reshape(4, dim=1)
    with pytest.raises(KindError, match=r"dim 1 of .* is n, not a constant"):
        tiles(n, 5).reshape(1, dim=1)
    with pytest.raises(RankError, match="dim 2 is not in"):
        tiles(6, 5).reshape(1, dim=2)
    with pytest.raises(ArgError, match="chunk must be an int from 1"):
        tiles(6).reshape(0)
    with pytest.raises(RankError, match="add_outer works on rank-0 streams"):
        tiles(6, 4).reshape(4, add_outer=True)
    with pytest.raises(DTypeError, match="static tiles to be padded"):
        tiles(n, rows=program.dim("r")).reshape(4, pad=0)


def test_promote(program):
    n = program.dim("n")
    assert shape(tiles(n).promote()) == ["Min(1, n)", "n"]
    assert shape(tiles(5).promote()) == ["1", "5"]
    assert shape(tiles(5, n).promote()) == ["1", "5", "n"]
    assert shape(tiles(n, 4).promote()) == ["Min(1, n)", "n", "4"]


def test_promote_of_a_rank_0_stream_is_two_units(program):
    tiles(program.dim("n")).promote()
    kinds = [op.unit_kind for op in program.operators[1:]]
    assert kinds == ["Reshape", "Flatten"]
    assert program.operators[1].unit_params({}) == {
        "s": 0, "q": 1, "ri": 0, "outer": True, "wb": False, "bpe": 2,
    }  # fmt: skip


def test_promote_of_a_dynamic_outermost_dim_looks_ahead(program):
    made = tiles(program.dim("n"), 4).promote()
    assert text(made) == "Stream[Min(1, n), n, 4] of Tile[1x64 bf16]"
    assert made.producer.unit_kind == "PromoteOuter"
    assert made.producer.unit_params({}) == {}


@pytest.mark.parametrize(
    ("dim", "expected"), [(0, "[2, 3, 1]"), (1, "[2, 1, 3]"), (2, "[1, 2, 3]")]
)
def test_unsqueeze(dim, expected):
    made = tiles(2, 3).unsqueeze(dim)
    assert text(made) == f"Stream{expected} of Tile[1x64 bf16]"
    assert made.producer.unit_kind == ("Promote" if dim < 2 else "PromoteOuter")
    assert made.producer.unit_params({}) == ({"p": dim} if dim < 2 else {})


def test_unsqueeze_range():
    with pytest.raises(RankError, match=r"cannot insert dim 3 into \[2, 3\]"):
        tiles(2, 3).unsqueeze(3)


def test_repeat(program):
    made = tiles(program.dim("n")).repeat(4)
    assert shape(made) == ["n", "4"]
    assert made.producer.unit_params({}) == {"f": 4}
    with pytest.raises(ArgError, match="count must be an int from 1"):
        tiles(3).repeat(0)


def test_repeat_by_a_list_of_factors(program):
    made = tiles(program.dim("n")).repeat([2, 3])
    assert shape(made) == ["n", "2", "3"]
    assert made.producer.unit_params({}) == {"f": [2, 3]}
    assert shape(tiles(3).repeat([])) == ["3"]
    with pytest.raises(ArgError, match=r"count\[1\] must be an int from 1"):
        tiles(3).repeat([2, 0])
    with pytest.raises(ArgError, match="the number of copies must be an int from 1"):
        tiles(3).repeat([2**40, 2**40])


def test_expand_to_several_numbers(program):
    x = tiles(program.dim("n"), 1, 1)
    assert shape(x.expand([2, 3])) == ["n", "2", "3"]
    with pytest.raises(RankError, match=r"rank 1 and 2 sizes, \(2, 3\)"):
        x.expand([2, 3], 1)
    with pytest.raises(RankError, match=r"rank 2 and 1 size, 3\. Give a list"):
        x.expand(3, 2)
    with pytest.raises(DimError, match="expanded dims must be literal 1"):
        x.expand([2, 3, 4])


def test_expand_by_reference(program):
    ragged = program.ragged("len")
    x, ref = tiles(4, 1), tiles(4, ragged, cols=8)
    made = x.expand(ref)
    assert made.shape == ref.shape
    assert made.type == x.type
    assert made.producer.unit_params({}) == {"e": 1}
    assert tiles(4, 1, 1).expand(tiles(4, 2, 3), rank=2).shape == (4, 2, 3)
    assert tiles(1).expand(tiles(9)).shape == (9,)


def test_expand_refusals(program):
    n, m = program.dim("n"), program.dim("m")
    with pytest.raises(DimError, match="expanded dims must be literal 1"):
        tiles(4, 2).expand(tiles(4, 8))
    with pytest.raises(DimError, match="differ in rank"):
        tiles(4, 1).expand(tiles(4))
    with pytest.raises(DimError, match=r"dim 1 differs: in \[n\] has n, ref \[m\] has m"):
        tiles(n, 1).expand(tiles(m, 8))
    with pytest.raises(RankError):
        tiles(4, 1).expand(tiles(4, 8), rank=0)


def test_static_expand_is_a_repeat_and_a_flatten(program):
    made = tiles(program.dim("n"), 1).expand(4)
    assert shape(made) == ["n", "4"]
    assert [op.unit_kind for op in program.operators[1:]] == ["RepeatStatic", "Flatten"]
    with pytest.raises(DimError, match="literal 1"):
        tiles(3, 2).expand(4)


def test_zip(program):
    n = program.dim("n")
    made = st.zip(tiles(n, 2), tiles(n, 2, cols=8))
    assert text(made) == "Stream[n, 2] of (Tile[1x64 bf16], Tile[1x8 bf16])"
    assert made.producer.unit_kind == "Zip"
    with pytest.raises(DimError, match=r"dim 0 differs: in1 \[n, 2\] has 2, in2 \[n, 3\] has 3"):
        st.zip(tiles(n, 2), tiles(n, 3))
    with pytest.raises(DTypeError, match="buffers cannot be zipped"):
        st.zip(tiles(2, 2).bufferize(1), tiles(2))


def test_padding_below_outer_dims_is_dropped_into_unknown_sizes(program):
    """Every vector is padded on its own: only the run knows the valid rows of a pack."""
    packed = tiles(3, 5).reshape(4, pad=0).accum(st.fn.pack_rows, 1)
    rows = packed.flat_map(st.fn.unpack_rows(drop_padding=True))
    assert shape(rows) == ["3", "~v"]
    assert rows.shape[1].bound == 8
    assert shape(packed.flat_map(st.fn.unpack_rows())) == ["3", "8"]
    exact = tiles(3, 8).reshape(4).accum(st.fn.pack_rows, 1)
    assert shape(exact.flat_map(st.fn.unpack_rows(drop_padding=True))) == ["3", "8"]
