"""Bufferize and streamify."""

from __future__ import annotations

import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, DimError, DTypeError, KindError, RankError
from tests.graph.support import scratch, text, tiles


@pytest.fixture(autouse=True)
def program():
    with scratch() as p:
        yield p


def test_bufferize(program):
    n = program.dim("n")
    made = tiles(3, n, 4).bufferize(2)
    assert text(made) == "Stream[3] of Buffer[n, 4 of Tile[1x64 bf16]]"
    assert made.producer.unit_params({}) == {"rank": 2}


def test_the_outermost_buffered_dim_may_be_ragged(program):
    ragged = program.ragged("len")
    assert (
        text(tiles(3, ragged, 4).bufferize(2)) == "Stream[3] of Buffer[~len, 4 of Tile[1x64 bf16]]"
    )
    with pytest.raises(KindError, match=r"dim 0 = ~len of \[3, 4, ~len\] is ragged"):
        tiles(3, 4, ragged).bufferize(2)


def test_bufferize_refusals(program):
    with pytest.raises(RankError, match=r"rank 2 does not fit \[3, 4\] of rank 1"):
        tiles(3, 4).bufferize(2)
    with pytest.raises(RankError, match="too few dims"):
        tiles(3).bufferize(1)
    with pytest.raises(DTypeError, match="tiles of static size"):
        tiles(3, 4, rows=program.dim("r")).bufferize(1)
    with pytest.raises(DTypeError, match="tiles of static size"):
        tiles(3, 4, 5).bufferize(1).bufferize(1)


def test_static_streamify():
    buffers = tiles(3, 4).bufferize(1)
    assert buffers.streamify().shape == (3, 4)
    made = buffers.streamify(repeat=5)
    assert made.shape == (3, 5, 4)
    assert made.producer.unit_kind == "Streamify"
    assert made.producer.unit_params({}) == {"rank": 1, "repeat": [5]}
    nested = buffers.streamify(repeat=[2, 5])
    assert nested.shape == (3, 2, 5, 4)
    assert nested.producer.unit_kind == "StaticStreamify"
    assert nested.producer.unit_params({}) == {"rank": 1, "repeat": [2, 5]}


def test_streamify_by_reference(program):
    ragged = program.ragged("len")
    buffers = tiles(3, 4).bufferize(1)
    made = buffers.streamify(tiles(3, ragged, cols=8))
    assert [str(d) for d in made.shape] == ["3", "~len", "4"]
    assert made.producer.unit_kind == "DynStreamify"
    assert made.producer.unit_params({}) == {"rank": 1, "rr": 0}
    direct = tiles(3, 1, 4).bufferize(1).streamify(tiles(3, 7))
    assert direct.shape == (3, 7, 4)
    assert tiles(3, 1, 1, 4).bufferize(1).streamify(tiles(3, 7, 2)).producer.ref_rank == 2


def test_streamify_refusals(program):
    buffers = tiles(3, 4).bufferize(1)
    with pytest.raises(DTypeError, match="in must carry buffers"):
        tiles(3, 4).streamify()
    with pytest.raises(DimError, match=r"dim 1 differs: in \[3\] has 3, ref \[2\] has 2"):
        buffers.streamify(tiles(2, 4))
    with pytest.raises(DimError, match=r"dim 0 differs: in \[3\] has 3, ref \[2\] has 2"):
        buffers.streamify(tiles(2))
    with pytest.raises(ArgError, match="not both"):
        buffers.streamify(tiles(3, 2), repeat=2)
    with pytest.raises(ArgError, match="repeat must be an int from 1"):
        buffers.streamify(repeat=0)


def test_affine_reads(program):
    made = tiles(3, 4, 2).bufferize(2).streamify(shape=(2, 4), stride=(1, 2))
    assert made.shape == (3, 2, 4)
    assert made.producer.unit_kind == "StaticStreamify"
    walk = {"shape": [2, 4], "stride": [1, 2]}
    assert made.producer.unit_params({}) == {"rank": 2, "repeat": [], **walk}
    again = tiles(3, 4, 2).bufferize(2).streamify(repeat=[5, 6], **walk)
    assert again.shape == (3, 5, 6, 2, 4)
    by_ref = tiles(3, 4, 2).bufferize(2).streamify(tiles(3, 7), **walk)
    assert by_ref.shape == (3, 7, 2, 4)
    assert by_ref.producer.unit_params({}) == {"rank": 2, "rr": 0, **walk}
    with pytest.raises(ArgError, match="ends at tile 8, counted from 0, and the buffer holds 8"):
        tiles(3, 4, 2).bufferize(2).streamify(shape=(3, 4), stride=(1, 2))
    with pytest.raises(KindError, match="constant buffer dims"):
        tiles(3, program.dim("n")).bufferize(1).streamify(shape=(2,), stride=(1,))
    with pytest.raises(ArgError, match="shape and stride come together"):
        tiles(3, 4).bufferize(1).streamify(shape=(2,))


def test_reading_a_ragged_buffer_again_counts_every_read(program):
    lengths = st.metadata([1, 2, 3])
    rows = st.metadata([0, 0, 0]).flat_map(st.fn.cache_read_addresses(1), lengths)
    x = st.random_load(rows, st.spec(8, 2), (1, 2))
    buffer = x.bufferize(1)
    total = x.elements()
    assert buffer.streamify().elements() == total
    assert buffer.streamify(repeat=3).elements() == 3 * total
    assert buffer.streamify(tiles(3, 4)).elements() == 4 * total
    assert buffer.streamify(repeat=3).shape[-1] == x.shape[-1]
    assert buffer.streamify(x).elements() not in (total, 0)


def test_affine_reads_need_every_dim_of_the_buffer_constant(program):
    mixed = tiles(3, program.dim("n"), 2).bufferize(2)
    with pytest.raises(KindError, match=r"constant buffer dims, found \[n, 2\]"):
        mixed.streamify(shape=(1,), stride=(1,))


def test_a_reference_of_a_lower_rank_is_refused(program):
    buffers = tiles(3, 1, 4).bufferize(1)
    with pytest.raises(RankError, match=r"ref \[3\] has fewer dims than in \[3, 1\]"):
        buffers.streamify(tiles(3))


def test_a_reference_of_the_same_dims_reads_every_buffer_once(program):
    ragged = program.ragged("len")
    made = tiles(3, ragged, 4).bufferize(1).streamify(tiles(3, ragged, cols=8))
    assert text(made) == "Stream[3, ~len, 4] of Tile[1x64 bf16]"
    walked = tiles(3, 4, 2).bufferize(2).streamify(tiles(3), shape=(3,), stride=(2,))
    assert walked.shape == (3, 3)


def test_more_tiles_than_can_be_counted(program):
    buffers = tiles(3, 4).bufferize(1)
    with pytest.raises(ArgError, match="tiles are read from one buffer"):
        buffers.streamify(repeat=[2**30, 2**30])
    with pytest.raises(ArgError, match="tiles are read from one buffer"):
        buffers.streamify(repeat=2**40, shape=(2**20,), stride=(0,))
