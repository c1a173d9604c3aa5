"""Element types, padding and sums behind the operators that compute, reshape and cut."""

from __future__ import annotations

import pytest
import sympy

import stepsim.graph as st
from stepsim.errors import ArgError, DimError, DTypeError, RankError
from stepsim.graph import fn
from tests.graph.support import flags, numbers, scratch, shape, text, tiles


@pytest.fixture(autouse=True)
def program():
    with scratch(compute_bw=8) as p:
        yield p


def merged(*heights: int) -> st.Stream:
    """Two tiles of each height."""
    return st.eager_merge([tiles(2, rows=rows, cols=4) for rows in heights])[0]


def padded(size: st.Dim) -> st.Stream:
    """Tiles of four rows, of which ``size`` rows are valid."""
    return tiles(size).reshape(4, pad=0).accum(fn.pack_rows, 1)


def valid(x: st.Stream) -> str:
    """The number of rows that dropping the padding leaves."""
    return str(x.flat_map(fn.unpack_rows(True)).shape[0])


# FLOPs


def test_flops_that_grow_with_a_side_and_have_a_constant_part(program):
    affine = st.function("affine", "m n -> m n", lambda m, n: 5 + 3 * m)
    data = merged(1, 3)
    made = data.map(affine)
    assert made.producer.flops() == 3 * 8 + 5 * 4


def test_flops_of_sides_that_are_dynamic_and_not_ragged(program):
    n, k = program.dim("n"), program.dim("k")
    assert tiles(3, rows=n, cols=k).map(fn.silu).producer.flops() == 24 * n.expr * k.expr
    square = st.map(fn.matmul_t, tiles(3, rows=n, cols=k), tiles(3, rows=n, cols=k))
    assert square.producer.flops() == 6 * n.expr**2 * k.expr


def test_flops_that_no_sum_of_sides_tells_have_a_symbol(program):
    a, b = merged(1, 3), merged(2, 5)
    for made in (st.map(fn.matmul_t, a, b), st.map(fn.matmul_t, a, a)):
        assert made.producer.flops().is_Symbol
    one = st.map(fn.matmul_t, a, tiles(4, rows=7, cols=4))
    assert one.producer.flops() == 2 * 7 * 4 * 8


def test_a_bandwidth_is_refused_by_name(program):
    for bad in (0, True, -1, 2.5):
        with pytest.raises(ArgError, match="compute_bw must be an int from 1"):
            tiles(3).map(fn.silu, compute_bw=bad)
    with pytest.raises(ArgError, match="compute_bw must be an int from 1"):
        st.map(fn.set_offset, tiles(3), numbers(3), compute_bw=False)


# valid rows


def test_a_matmul_has_the_valid_rows_of_its_first_operand(program):
    block = padded(program.dim("n"))
    count = block.shape[0]
    marked = st.map(fn.set_offset, tiles(count, rows=4), numbers(count))
    assert valid(st.map(fn.matmul_t, block, marked)) == "n"
    assert valid(st.map(fn.matmul_t, marked, block)) == "v"
    assert valid(st.map(fn.matmul_t, tiles(count, rows=4), block)) == "4*ceil(n/4)"


def test_pairs_of_different_padding_have_no_known_rows(program):
    block = padded(program.dim("n"))
    count = block.shape[0]
    marked = st.map(fn.set_offset, tiles(count, rows=4), numbers(count))
    assert valid(st.map(fn.add, block, marked)) == "v"
    assert valid(st.map(fn.add, block, block)) == "n"
    assert valid(st.map(fn.append_row, block, tiles(count))) == "v_2"
    assert valid(st.map(fn.add, st.zip(block, block))) == "n"
    assert valid(st.map(fn.add, st.zip(block, tiles(count, rows=4)))) == "v_3"


def test_only_packs_keep_the_valid_rows_of_a_reduction(program):
    n = program.dim("n")
    single = tiles(n).reshape(4, pad=0)
    assert valid(single.accum(fn.pack_rows, 1)) == "n"
    assert valid(single.accum(fn.add, 1)) == "ceil(n/4)"
    assert valid(single.scan(fn.pack_rows, 1).flatten(0, 1)).startswith("v")
    deep = padded(n).repeat(2).accum(fn.pack_cols, 1)
    assert valid(deep) == "n"


def test_chunks_of_several_rows_lose_rows_only_together(program):
    """Tiles of fewer rows than were filled up together may hold no valid row."""
    n = program.dim("n")
    high = tiles(n, rows=2).reshape(4, pad=0)
    assert valid(high.accum(fn.pack_rows, 1)) == "2*n"
    assert valid(high.flatten(0, 1)) == "v"
    assert valid(tiles(n).reshape(2, pad=0).accum(fn.pack_rows, 1)) == "n"
    assert valid(tiles(7, rows=2).reshape(4, pad=0).accum(fn.pack_rows, 1)) == "14"
    twice = tiles(6, 3).flatten(0, 1).reshape(4, pad=0).accum(fn.pack_rows, 1)
    assert valid(twice) == "18"
    assert valid(twice.reshape(2, pad=0).accum(fn.pack_rows, 1)) == "v_2"


def test_valid_rows_of_every_tile_are_bounded_by_its_rows(program):
    block = padded(program.dim("n"))
    made = block.flat_map(fn.emit(["valid"], (1, "cols")))
    assert shape(made) == ["v_total"]
    assert program.provenance(made.shape[0].expr).startswith("sum of all sizes of ~v")
    full = tiles(3, rows=4).flat_map(fn.emit(["valid"], (1, "cols")))
    assert shape(full) == ["12"]


# pieces


def test_rows_of_tiles_of_different_heights_are_counted_exactly(program):
    data = merged(1, 3)
    assert text(data.flat_map(fn.unpack_rows())) == "Stream[8] of Tile[1x4 bf16]"
    inner = data.reshape(2).flat_map(fn.unpack_rows())
    assert shape(inner) == ["2", "~u"]
    assert (inner.shape[1].total, inner.shape[1].bound.doit()) == (8, 6)
    assert program.provenance(inner.shape[1].expr).startswith("pieces of unpack_rows#")


def test_columns_and_rows_of_tiles_of_different_widths(program):
    data = st.eager_merge([tiles(2, rows=2, cols=3), tiles(2, rows=2, cols=5)])[0]
    rows = data.flat_map(fn.unpack_rows())
    assert shape(rows) == ["8"]
    assert rows.type.cols.total == data.type.cols.total
    assert rows.map(fn.silu).producer.flops() == 8 * 2 * 16
    cols = data.flat_map(fn.unpack_cols())
    assert text(cols) == "Stream[16] of Tile[1x2 bf16]"
    for other in (data.flat_map(fn.unpack_rows(True)), rows):
        assert other.type.cols.bound == data.type.cols.bound
    high = merged(1, 3).flat_map(fn.unpack_cols())
    assert (shape(high), high.type.cols.bound.doit()) == (["16"], 3)
    assert high.map(fn.silu).producer.flops() == 8 * 4 * 8


def test_rows_of_tiles_that_vary_both_ways_have_a_sum_of_their_own(program):
    data = st.eager_merge([tiles(2, rows=2, cols=3), tiles(2, rows=4, cols=5)])[0]
    rows = data.flat_map(fn.unpack_rows())
    assert rows.type.cols == data.type.cols
    assert rows.type.cols.total != data.type.cols.total
    cols = data.flat_map(fn.unpack_cols())
    assert cols.type.cols.total != data.type.rows.total
    assert program.provenance(cols.type.cols.total).endswith("in columns of unpack_cols#4")


def test_pieces_below_sides_that_vary(program):
    data = merged(1, 3)
    one = data.flat_map(fn.emit([2, "rows"], (1, 1)))
    assert shape(one) == ["8", "~m_2"]
    assert one.shape[1].total == 2 * 8
    deep = data.flat_map(fn.emit([2, "rows", "rows"], (1, 1)))
    assert str(deep.shape[2].total) == f"{deep.shape[2].expr}_total"
    flat = data.flat_map(fn.emit(["rows", 3], (1, "cols")))
    assert shape(flat) == ["8", "3"]
    tall = data.flat_map(fn.emit(["rows"], ("rows", 1)))
    assert tall.type.rows == data.type.rows
    assert tall.type.rows.total != data.type.rows.total
    same = tiles(3, rows=2).flat_map(fn.emit([2], ("rows", "cols")))
    assert same.type == tiles(3, rows=2).type


def test_what_is_cut_must_be_tiles_of_numbers(program):
    for rule in (fn.unpack_rows(), fn.unpack_cols(), fn.emit([1])):
        for x in (numbers(3), flags(3)):
            with pytest.raises(DTypeError, match="in1 must carry tiles of scalars to compute with"):
                x.flat_map(rule)


def test_addresses_are_checked_stream_by_stream(program):
    for xs, role in (((tiles(3), numbers(3)), "in1"), ((numbers(3), tiles(3)), "in2")):
        with pytest.raises(DTypeError, match=f"{role} must carry 1x1 tiles of u32 or u64"):
            xs[0].flat_map(fn.cache_read_addresses(1), xs[1])


def test_arguments_of_emit_are_refused_by_name():
    for arguments, message in (
        (
            {"dims": 3},
            "emit: dims must be a list of ints or 'rows', 'cols', 'valid', 'length', found 3",
        ),
        ({"dims": "rows"}, "emit: dims must be a list"),
        ({"dims": [1], "tile": 3}, "emit: tile must be a list of ints or 'rows', 'cols', found 3"),
        ({"dims": [1], "tile": (1,)}, "emit: tile must have two entries"),
        ({"dims": [1], "tile": (1, 1, 1)}, "emit: tile must have two entries"),
        ({"dims": ["row"]}, "emit: dims holds 'row', expected an int or one of .*'rows'"),
        ({"dims": [1], "kernel": 3}, "kernel must be a function or None, found 3"),
        ({"dims": [1], "cycles": -1}, "emit: cycles must be an int from 0"),
        ({"dims": [1.5]}, "an entry of emit: dims must be an int"),
    ):
        with pytest.raises(ArgError, match=message):
            fn.emit(**arguments)
    assert (
        str(fn.emit([2, "rows"], cycles=3))
        == "emit(dims=(2, 'rows'), tile=('rows', 'cols'), cycles=3)"
    )


# reductions


def test_states_of_reductions(program):
    for bad in (3, "zero", [0]):
        with pytest.raises(ArgError, match=r"init must be a state of st\.fn\.zero, one, full"):
            tiles(3, 4).accum(fn.add, 1, init=bad)
        with pytest.raises(ArgError, match=r"init must be a state of st\.fn\.zero, one, full"):
            st.map_accum(fn.matmul_t, tiles(3, 4), tiles(3, 4), 1, init=bad)
    with pytest.raises(DTypeError, match=r"the state is f32, the products are Tile\[1x1 bf16\]"):
        st.map_accum(fn.matmul_t, tiles(3, 4), tiles(3, 4), 1, init=fn.zero((1, 1), "f32"))
    same = st.map_accum(fn.matmul_t, tiles(3, 4), tiles(3, 4), 1, init=fn.zero((1, 1), "bf16"))
    assert text(same) == "Stream[3] of Tile[1x1 bf16]"


def test_results_of_groups_of_different_length_have_new_sums(program):
    own = program.ragged("len")
    x = merged(1, 3)
    lengths = tiles(4, 1).expand(tiles(4, own))
    assert lengths.accum(fn.add, 1).type == tiles(1).type
    ragged = tiles(4, own, rows=program.dim("r")).accum(fn.pack_cols, 1)
    assert (str(ragged.type.rows), ragged.type.cols.total) == ("r", 64 * own.total)
    tall = x.reshape(1).expand(tiles(4, own))
    wide = tall.accum(fn.pack_cols, 1)
    assert wide.type.rows == x.type.rows
    assert wide.type.rows.total not in (x.type.rows.total, tall.type.rows.total)
    assert program.provenance(wide.type.rows.total).endswith(f"results of {wide.producer.title()}")
    grouped = tiles(4, own, rows=2, cols=3)
    product = st.map_accum(fn.matmul_t, grouped, grouped, 1)
    assert text(product) == "Stream[4] of Tile[2x2 bf16]"


def test_sums_of_tiles_of_different_heights_have_rows_of_their_own(program):
    x = merged(1, 3).reshape(2)
    for made, span in ((x.accum(fn.add, 1), 2), (x.scan(fn.add, 1), 4)):
        rows = made.type.rows
        assert rows.is_ragged
        assert rows != x.type.rows
        assert (rows.bound, rows.span, made.type.cols) == (x.type.rows.bound, span, 4)
        assert program.provenance(rows.expr) == f"sizes of {made.producer.title()}"


def test_packs_that_grow_are_bounded_by_the_full_one(program):
    rows = tiles(2, 3, rows=2, cols=5).scan(fn.pack_rows, 1)
    assert (rows.type.rows.bound, rows.type.rows.span, rows.type.cols) == (6, 6, 5)
    assert program.provenance(rows.type.rows.expr).startswith("rows of pack_rows#")
    cols = tiles(2, 3, rows=2, cols=5).scan(fn.pack_cols, 1)
    assert (cols.type.cols.bound, cols.type.cols.span, cols.type.rows) == (15, 6, 2)
    assert program.provenance(cols.type.cols.expr).startswith("cols of pack_cols#")


def test_the_hint_for_two_counts_of_one_output(program):
    x = tiles(4)
    a, b = (st.partition(x, flags(4))[0] for _ in range(2))
    with pytest.raises(DimError, match=r"Do both count rows .* program\.assume_equal\(c0, c0_2\)"):
        st.map(fn.add, a, b)
    table, other = (st.routing(st.spec(4, 1), experts=2) for _ in range(2))
    c, d = (st.partition(x, t.multihot())[0] for t in (table, other))
    with pytest.raises(DimError, match=r"Do both count rows .* program\.assume_equal\(n0, n1_0\)"):
        st.map(fn.add, c, d)
    n = program.dim("n")
    with pytest.raises(DimError, match=r"Use program\.assume_equal\(c0, n\) if they are equal"):
        st.map(fn.add, a, tiles(n))
    with pytest.raises(DimError, match=r"\(different\)\. These sizes can never be equal"):
        st.map(fn.add, a.repeat(2), a.repeat(3))


def test_maps_take_as_many_streams_as_the_function_operands(program):
    with pytest.raises(ArgError, match="map takes one stream or more, found 0"):
        st.map(fn.add)
    with pytest.raises(ArgError, match="'add' takes 2 operands, found 3"):
        st.map(fn.add, *(tiles(3),) * 3)
    with pytest.raises(ArgError, match="'add' takes 2 operands, found 3"):
        st.map(fn.add, st.zip(tiles(3), tiles(3)), tiles(3))


def test_matmuls_of_a_narrower_operand_say_how_wide_results_are(program):
    wide, narrow = tiles(3, 2, rows=2, cols=4), tiles(3, 2, rows=2, cols=4, dtype="f8e4m3")
    for made in (st.map(fn.matmul_t, wide, narrow), st.map_accum(fn.matmul_t, wide, narrow, 1)):
        record = made.producer.unit_params({})["fn"]
        assert record["results"][0]["bits"] == ["operand", record["states"]]
        assert not record["same_bits"]
    assert st.map(fn.matmul_t, wide, wide).producer.unit_params({})["fn"]["same_bits"] == [[0, 1]]


# shapes


def test_padding_is_a_zero_or_nothing(program):
    for bad, message in (
        (1, "pad is 1, but padding tiles hold zeros"),
        (0.5, "padding tiles hold zeros"),
        ("0", "pad must be a number or None, found '0'"),
        ([0], "pad must be a number or None"),
    ):
        with pytest.raises(ArgError, match=message):
            tiles(9).reshape(4, pad=bad)
    assert tiles(9).reshape(4, pad=0).producer.unit_params({})["pad"] == [1, 64]
    assert "pad" not in tiles(8).reshape(4, pad=0).producer.unit_params({})
    assert "pad" not in tiles(program.dim("n")).reshape(1, pad=0).producer.unit_params({})
    with pytest.raises(DTypeError, match="static tiles to be padded"):
        flags(9).reshape(4, pad=0)
    assert flags(8).reshape(4).producer.unit_params({}) == {
        "s": 0, "q": 4, "ri": 0, "outer": False, "wb": False,
    }  # fmt: skip


def test_ragged_outermost_dims_are_cut_into_chunks(program):
    own = program.ragged("len")
    made = tiles(own).reshape(4, pad=0)
    assert shape(made) == ["~len_c4", "4"]
    assert shape(tiles(own).reshape(1)) == ["~len", "1"]
    assert shape(tiles(3, own).reshape(1)) == ["3", "~len", "1"]


def test_constant_expansion_checks_the_dims_it_grows(program):
    for rank in (0, 3):
        with pytest.raises(RankError, match="rank"):
            tiles(3, 1).expand(4, rank=rank)
    with pytest.raises(RankError, match="rank 2 and 1 size, 4"):
        tiles(3, 1, 1).expand(4, rank=2)
    with pytest.raises(DimError, match=r"dim 1 of in \[3, 1\] is 3; expanded dims"):
        tiles(3, 1).expand([4, 4], rank=2)
    with pytest.raises(RankError, match="rank 2 does not fit"):
        tiles(1).expand(tiles(4), rank=2)


def test_expansion_of_a_vector_takes_rank_one(program):
    with pytest.raises(RankError, match=r"rank 2 does not fit \[1\]\. Use 1\.\.1"):
        tiles(1).expand(tiles(4), rank=2)
    assert tiles(1).expand(tiles(4), rank=1).shape == (4,)


def test_copies_by_a_ragged_reference_have_new_sums(program):
    own = program.ragged("len")
    x = merged(1, 3).reshape(1).reshape(1)
    made = x.expand(tiles(4, own, 3), rank=2)
    assert made.type.rows == x.type.rows
    assert made.type.rows.total not in (x.type.rows.total, 3 * x.type.rows.total)
    assert made.type.rows.span == 3 * own.total
    fixed = x.expand(tiles(4, 2, 3), rank=2)
    assert fixed.type.rows.total == x.type.rows.total
    assert fixed.map(fn.silu).producer.flops() == 8 * 4 * 8 * 6


def test_buffers_are_no_halves_of_pairs(program):
    b = tiles(3, 2).bufferize(1)
    for xs, role in (((b, tiles(3)), "in1"), ((tiles(3), b), "in2")):
        with pytest.raises(DTypeError, match=rf"{role} carries Buffer.*; buffers cannot be zipped"):
            st.zip(*xs)


def test_promotion_of_an_empty_stream(program):
    made = tiles(0, 4).promote()
    assert shape(made) == ["0", "0", "4"]
    assert made.producer.unit_params({}) == {"p": 1}


def test_lengths_give_the_number_of_their_last_elements(program):
    length = numbers(2, 3)
    last = length.flat_map(fn.last_tile_filter())
    assert text(last) == "Stream[2, 3, ~len] of MultiHot[2, hot=1]"
    ends, rest = st.partition(tiles(*last.shape), last)
    assert ends.shape[0] == 6
    assert rest.shape[0] == sympy.Symbol("len_total", integer=True, nonnegative=True) - 6
