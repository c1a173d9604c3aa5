"""Sizes of what is split and merged: shares of one output, sums of several inputs."""

from __future__ import annotations

import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, DimError, DTypeError, RankError
from stepsim.graph import fn
from tests.graph.support import flags, numbers, scratch, shape, text, tiles


@pytest.fixture(autouse=True)
def program():
    with scratch(compute_bw=8) as p:
        yield p


def merged(*heights: int, count: int = 2) -> tuple[st.Stream, st.Stream]:
    """Tiles of different heights, ``count`` of each, and where they came from."""
    return st.eager_merge([tiles(count, rows=rows, cols=4) for rows in heights])


def buffers(program: st.Program, *outer: int) -> st.Stream:
    """Buffers of a ragged number of pairs of tiles."""
    return tiles(*outer, program.ragged("len"), 2).bufferize(2)


# merges


def test_a_merge_of_fewer_streams_is_not_that_of_the_selector(program):
    one, _ = st.eager_merge([tiles(1, program.ragged("len"), rows=2)])
    x, _ = st.eager_merge([one, tiles(1, program.ragged("len"), rows=2)])
    assert len(x.shape[-1].parts) == 2
    parts = st.partition(one, st.eager_merge([tiles(1), tiles(0)])[1])
    assert len(parts) == 2


def test_a_merge_of_one_stream_is_that_stream(program):
    own = program.ragged("len")
    data, which = st.eager_merge([tiles(3, own, rows=2)])
    assert shape(data) == ["3", "~m"]
    assert (data.shape[1].total, data.shape[1].bound) == (own.total, own.bound)
    assert data.type == tiles(1, rows=2).type
    assert text(which) == "Stream[3] of MultiHot[1, hot=1]"


def test_three_inputs_are_all_counted(program):
    data, which = merged(1, 3, 5)
    assert (data.shape, data.type.rows.total, data.type.rows.bound.doit()) == ((6,), 18, 5)
    assert data.type.rows.span == 6
    assert data.type.cols == 4
    assert text(which) == "Stream[6] of MultiHot[3, hot=1]"
    assert program.provenance(data.type.rows.expr).startswith("merged by eager_merge#3")
    assert st.partition(data, which)[1].type.rows == 3


def test_equal_bounds_are_taken_as_they_are(program):
    own, other = program.ragged("a"), program.ragged("b")
    data, _ = st.eager_merge([tiles(2, own), tiles(3, own)])
    assert data.shape[1].bound is own.bound
    mixed, _ = st.eager_merge([tiles(2, own), tiles(3, other)])
    assert str(mixed.shape[1].bound) == "Max(a_max, b_max)"


def test_every_inner_dim_of_a_merge_has_its_own_sum(program):
    a, b = program.ragged("a"), program.ragged("b")
    data, which = st.eager_merge([tiles(2, a, 4, rows=2), tiles(3, 5, 4, rows=2)])
    assert shape(data) == ["5", "~m", "4"]
    assert data.shape[1].total == a.total + 15
    deep, _ = st.eager_merge([tiles(2, a, b), tiles(3, a, 7)])
    assert deep.shape[1].total == 2 * a.total
    assert deep.shape[2].total == b.total + 7 * a.total
    back = st.partition(data, which)
    assert [p.shape[1] for p in back] == [a, 5]


def test_merged_buffers_are_counted_by_their_tiles(program):
    first, second = buffers(program, 3), buffers(program, 4)
    fixed = tiles(5, 6, 2).bufferize(2)
    data, which = st.eager_merge([first, second, fixed])
    outer = data.type.dims[0]
    assert outer.total == first.type.dims[0].total + second.type.dims[0].total + 5 * 6
    assert data.type.dims[1] == 2
    assert [p.type for p in st.partition(data, which)][:2] == [first.type, second.type]
    assert st.partition(data, flags(12, width=3))[0].type.dims[0] != first.type.dims[0]


def test_merged_buffers_of_one_regular_size_keep_it(program):
    data, _ = st.eager_merge([tiles(2, 3).bufferize(1), tiles(4, 3).bufferize(1)])
    assert text(data) == "Stream[6] of Buffer[3 of Tile[1x64 bf16]]"


@pytest.mark.parametrize(
    "other",
    [
        lambda p: tiles(2, p.ragged("b"), 3).bufferize(2),
        lambda p: tiles(2, p.ragged("b"), 2, cols=8).bufferize(2),
        lambda p: tiles(2, p.ragged("b")).bufferize(1),
        lambda p: tiles(2),
        lambda p: flags(2),
    ],
)
def test_buffers_that_differ_in_more_than_their_outermost_dim(program, other):
    for xs in ([buffers(program, 2), other(program)], [other(program), buffers(program, 2)]):
        with pytest.raises(DTypeError, match=r"in0 carries .*, in1 carries .*\. Merged streams"):
            st.eager_merge(xs)


def test_the_input_that_differs_is_named(program):
    xs = [tiles(2), tiles(2), tiles(2, dtype="f32")]
    with pytest.raises(DTypeError, match=r"in0 carries Tile\[1x64 bf16\], in2 carries Tile\[.*f32"):
        st.eager_merge(xs)
    with pytest.raises(DTypeError, match="All inputs need one element type; unpack dynamic"):
        st.reassemble(xs, flags(4, width=3))


def test_reassembled_tiles_may_differ_in_ragged_sides_only(program):
    data, _ = merged(1, 3)
    parts = st.partition(data, flags(4))
    whole = st.reassemble(parts, flags(4))
    assert whole.type.rows.total == parts[0].type.rows.total + parts[1].type.rows.total
    assert whole.type.cols == 4
    for other in (tiles(2, rows=3, cols=4), tiles(2, rows=3, cols=8)):
        for xs in ([parts[0], other], [other, parts[0]]):
            with pytest.raises(DTypeError, match="unpack dynamic tiles into rows first"):
                st.reassemble(xs, flags(4))


def test_reassembled_chunks_of_one_input(program):
    n = program.dim("n")
    made = st.reassemble([tiles(n)], flags(4, width=1))
    assert (shape(made), made.shape[1].total, made.shape[1].bound) == (["4", "~h"], n.expr, 1)
    assert program.provenance(made.shape[1].expr) == "chunks per selector of reassemble#2"


def test_the_input_of_another_rank_or_size_is_named(program):
    n = program.dim("n")
    with pytest.raises(RankError, match=r"in2 \[n, 4, 5\] has rank 2, expected 1"):
        st.eager_merge([tiles(n, 4), tiles(n, 4), tiles(n, 4, 5)])
    with pytest.raises(DimError, match=r"dim 1 differs: in0 .* has 4, in2 .* has 3 \(different\)"):
        st.eager_merge([tiles(n, 4, 5), tiles(n, 4, 5), tiles(n, 3, 5)])
    with pytest.raises(RankError, match="in0"):
        st.eager_merge([tiles(n, 4)], rank=0)


# shares


def test_shares_of_a_partition_are_counted_by_its_outputs(program):
    data, _ = merged(1, 3)
    parts = st.partition(data, flags(4))
    for part in parts:
        rows = part.type.rows
        assert (rows.bound, rows.span) == (data.type.rows.bound, part.shape[0].expr)
        assert program.provenance(rows.expr).endswith(f"output {part.output}, of ~m")
        assert str(rows.total) == f"{rows.expr}_total"


def test_shares_of_inner_dims_have_their_bounds(program):
    own = program.ragged("len")
    distributed = st.parallelize(tiles(4, own, rows=2), 2)
    for part in distributed:
        assert part.shape[1].bound == own.bound
        assert part.shape[1].total != own.total
        assert part.type == tiles(1, rows=2).type


def test_shares_of_buffers_and_pairs(program):
    b = buffers(program, 4)
    first, second = st.parallelize(b, 2)
    outer = b.type.dims[0]
    assert len({d.type.dims[0] for d in (b, first, second)}) == 3
    assert first.type.dims[0].bound == outer.bound
    assert first.type.dims[1] == 2
    data, _ = merged(1, 3)
    pairs = st.zip(data, numbers(4))
    one = st.parallelize(pairs, 2)[1]
    assert one.type.parts[0].rows != data.type.rows
    assert one.type.parts[0].rows.bound == data.type.rows.bound
    assert one.type.parts[1] == pairs.type.parts[1]
    assert st.parallelize(flags(4), 2)[0].type == flags(4).type


def test_only_the_sides_that_vary_are_shared_out(program):
    wide, which = st.eager_merge([tiles(2, rows=2, cols=3), tiles(2, rows=2, cols=5)])
    assert (wide.type.rows, wide.type.cols.bound.doit()) == (2, 5)
    for part in st.partition(wide, flags(4)):
        assert part.type.rows == 2
        assert part.type.cols.is_ragged
        assert part.type.cols != wide.type.cols
    assert [p.type.cols for p in st.partition(wide, which)] == [3, 5]


def test_selectors_and_pairs_come_back_from_a_merge(program):
    for x in (flags(4, hot=1), st.zip(tiles(4), numbers(4))):
        data, which = st.eager_merge([x, x])
        assert [p.type for p in st.partition(data, which)] == [x.type, x.type]


# partitions


def test_the_selector_is_checked_before_the_switch():
    with pytest.raises(DTypeError, match="selector must carry selectors, found Tile"):
        st.partition(tiles(4), tiles(4), switch_cycles=[1, 1])


def test_switch_cycles_of_each_output_and_of_all():
    costs = st.partition(tiles(4), flags(4), switch_cycles=[0, 7])[0].producer
    assert costs.unit_params({})["switch"] == [0, 7]
    assert st.parallelize(tiles(4), 3, switch_cycles=5)[0].producer.switch_cycles == (5, 5, 5)
    with pytest.raises(ArgError, match=r"switch_cycles \[1, 2, 3\] must hold 2 ints"):
        st.parallelize(tiles(4), 2, switch_cycles=(1, 2, 3))


def test_padding_of_what_is_picked_is_not_known(program):
    n = program.dim("n")
    block = tiles(n).reshape(4, pad=0).accum(fn.pack_rows, 1)
    whole = tiles(block.shape[0], rows=4)
    drop = fn.unpack_rows(True)
    assert shape(whole.flat_map(drop)) == ["4*ceil(n/4)"]
    data, which = st.eager_merge([whole, block])
    unpadded, _ = st.eager_merge([whole, whole])
    assert "v" not in shape(unpadded.flat_map(drop))[0]
    back = st.partition(data, which)
    assert [shape(p.flat_map(drop)) for p in back] == [["4*ceil(n/4)"], ["n"]]
    picked = st.partition(block, flags(block.shape[0], width=1))
    assert shape(picked[0].flat_map(drop)) == ["v"]
    again = st.reassemble([whole, block], flags(4)).flatten(0, 1)
    assert "v" in shape(again.flat_map(drop))[0]
    clean = st.reassemble([whole, whole], flags(4)).flatten(0, 1)
    assert "v" not in shape(clean.flat_map(drop))[0]
