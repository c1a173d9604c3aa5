"""Map, accum, map-accum, scan, flat_map: type rules, shapes and refusals."""

from __future__ import annotations

import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, DimError, DTypeError, LoweringError, RankError
from stepsim.graph import fn
from tests.graph.support import flags, numbers, scratch, shape, text, tiles


@pytest.fixture(autouse=True)
def program():
    with scratch(compute_bw=1024) as p:
        yield p


def params(stream):
    return stream.producer.unit_params({})


# map


@pytest.mark.parametrize(
    ("function", "left", "right", "result", "flops"),
    [
        (fn.matmul, (4, 8), (8, 16), "4x16", 2 * 4 * 8 * 16),
        (fn.matmul_t, (4, 8), (16, 8), "4x16", 2 * 4 * 8 * 16),
        (fn.mul, (4, 8), (4, 8), "4x8", 32),
        (fn.mul, (1, 1), (4, 8), "4x8", 32),
        (fn.add, (4, 1), (1, 8), "4x8", 32),
        (fn.div, (4, 8), (4, 1), "4x8", 32),
        (fn.append_row, (4, 8), (1, 8), "4x8", 0),
    ],
)
def test_binary_functions(program, function, left, right, result, flops):
    a = tiles(3, rows=left[0], cols=left[1])
    b = tiles(3, rows=right[0], cols=right[1])
    made = st.map(function, a, b)
    assert text(made) == f"Stream[3] of Tile[{result} bf16]"
    assert made.producer.unit_kind == "BinaryMap"
    assert made.producer.flops() == 3 * flops


@pytest.mark.parametrize(
    ("function", "result", "flops"),
    [(fn.silu, "4x8", 8 * 32), (fn.exp, "4x8", 4 * 32), (fn.row_sum, "4x1", 32)],
)
def test_unary_functions(function, result, flops):
    made = tiles(3, rows=4, cols=8).map(function)
    assert text(made) == f"Stream[3] of Tile[{result} bf16]"
    assert made.producer.unit_kind == "UnaryMap"
    assert made.producer.flops() == 3 * flops


def test_map_unit_parameters(program):
    a, b = tiles(3, rows=4, cols=8), tiles(3, rows=8, cols=2)
    record = fn.matmul.record()
    assert params(st.map(fn.matmul, a, b)) == {"fn": record, "bw": 1024, "wb": False}
    dynamic = tiles(3, rows=program.dim("r"), cols=8)
    assert params(st.map(fn.matmul, dynamic, b))["fn"] == record
    assert params(a.map(fn.silu, compute_bw=7, write_back=True)) == {
        "fn": fn.silu.record(), "bw": 7, "wb": True,
    }  # fmt: skip
    address = st.map(fn.cache_write_address(9), numbers(3), numbers(3))
    assert params(address)["fn"]["results"][0]["value"] == ["address", 0, 1, 9]
    assert params(st.map(fn.set_offset, a, numbers(3), compute_bw=0))["bw"] == 0


def test_map_over_a_zipped_stream():
    a, b = tiles(3, rows=4, cols=8), tiles(3, rows=8, cols=2)
    made = st.map(fn.matmul, st.zip(a, b))
    assert text(made) == "Stream[3] of Tile[4x2 bf16]"
    assert made.producer.unit_kind == "UnaryMap"
    assert params(made)["fn"] == fn.matmul.record()
    assert made.producer.flops() == 3 * 2 * 4 * 8 * 2


def test_map_needs_equal_shapes(program):
    n, m = program.dim("n"), program.dim("m")
    with pytest.raises(DimError, match=r"in1 \[n, 2\] has n, in2 \[m, 2\] has m \(unknown\)"):
        st.map(fn.add, tiles(n, 2), tiles(m, 2))
    with pytest.raises(RankError, match="2 against 1"):
        st.map(fn.add, tiles(n, 2), tiles(n))


def test_map_type_rules(program):
    with pytest.raises(
        DimError,
        match=r"matmul#2 \(map\): 'matmul': columns of .* and rows of .* 64 vs 8 \(different\)",
    ):
        st.map(fn.matmul, tiles(3), tiles(3, rows=8))
    with pytest.raises(DimError, match=r"columns of .* must be equal"):
        st.map(fn.mul, tiles(3), tiles(3, cols=8))
    with pytest.raises(DTypeError, match="one scalar type"):
        st.map(fn.matmul, tiles(3, cols=8), tiles(3, rows=8, dtype="f32"))
    with pytest.raises(DTypeError, match="'div' works on tiles of f32, bf16, "):
        st.map(fn.div, numbers(3), numbers(3))
    with pytest.raises(DTypeError, match="works on tiles, found MultiHot"):
        flags(3).map(fn.silu)
    with pytest.raises(DTypeError, match="tiles, not buffers"):
        tiles(3, 4).bufferize(1).map(fn.silu)
    with pytest.raises(
        DTypeError,
        match="'set_offset' takes a whole number, a 1x1 tile of u64 or u32, as operand 2",
    ):
        st.map(fn.set_offset, tiles(3), tiles(3))
    with pytest.raises(
        DTypeError, match=r"cache_write_address.* takes a whole number.* as operand 2"
    ):
        st.map(fn.cache_write_address(4), numbers(3), tiles(3))
    with pytest.raises(
        DimError, match=r"'append_row': rows of Tile\[2x64 bf16\] and 1 must be equal: 2 vs 1"
    ):
        st.map(fn.append_row, tiles(3, rows=4), tiles(3, rows=2))


def test_map_argument_checks():
    with pytest.raises(ArgError, match="'matmul' takes 2 operands, found 1"):
        st.map(fn.matmul, tiles(3))
    with pytest.raises(ArgError, match="'pack_rows' cannot be used in a map"):
        tiles(3).map(fn.pack_rows)
    with pytest.raises(ArgError, match=r"must be a function of st\.fn"):
        tiles(3).map("silu")
    with pytest.raises(ArgError, match=r"compute_bw must be an int from 1 to 2\*\*50, found 0"):
        tiles(3).map(fn.silu, compute_bw=0)
    with pytest.raises(ArgError, match="in2 must be a Stream"):
        st.map(fn.add, tiles(3), 4)
    with pytest.raises(ArgError, match="stride must be an int from 1"):
        fn.cache_write_address(0)


def test_a_compute_bandwidth_may_be_left_to_the_machine(program):
    program.compute_bw = None
    act = tiles(3).map(fn.silu, label="act")
    assert params(act)["bw"] is None
    with pytest.raises(LoweringError, match="act#1: no compute bandwidth"):
        act.producer.unit_bw()
    assert params(tiles(3, 4).accum(fn.pack_rows, 1))["bw"] == 1  # takes no cycles anyway


# accum


def test_pack_rows(program):
    n, ragged = program.dim("n"), program.ragged("len")
    assert text(tiles(n, 4).accum(fn.pack_rows, 1)) == "Stream[n] of Tile[4x64 bf16]"
    assert text(tiles(3, n, rows=2).accum(fn.pack_rows, 1)) == "Stream[3] of Tile[2*nx64 bf16]"
    assert text(tiles(3, 2, 4).accum(fn.pack_rows, 2)) == "Stream[3] of Tile[8x64 bf16]"
    packed = tiles(3, ragged, rows=2).accum(fn.pack_rows, 1)
    assert packed.type.rows.is_ragged
    assert packed.type.rows.total == 2 * ragged.total
    assert packed.type.rows.span == 3


def test_pack_cols(program):
    made = tiles(3, 4, rows=2, cols=8).accum(fn.pack_cols, 1)
    assert text(made) == "Stream[3] of Tile[2x32 bf16]"
    assert params(made) == {
        "fn": fn.pack_cols.record(), "bw": 1024, "rank": 1, "init": [[2, 0, 2]], "wb": False,
    }  # fmt: skip


def test_accum_add():
    made = tiles(3, 4, rows=2, cols=8).accum(fn.add, 1)
    assert text(made) == "Stream[3] of Tile[2x8 bf16]"
    assert params(made) == {
        "fn": fn.add.folding.record(), "bw": 1024, "rank": 1, "init": [[2, 8, 2]], "wb": False,
    }  # fmt: skip
    assert made.producer.flops() == 3 * 4 * 16
    wide = tiles(3, 4, rows=1, cols=8).accum(fn.add, 1, init=fn.zero((2, 8)))
    assert text(wide) == "Stream[3] of Tile[2x8 bf16]"


def test_signal():
    made = tiles(3, 4).accum(fn.signal, 1, compute_bw=0)
    assert text(made) == "Stream[3] of Tile[1x1 u64]"
    assert params(made) == {
        "fn": fn.signal.record(), "bw": 0, "rank": 1, "init": [[1, 1, 8]], "wb": False,
    }  # fmt: skip


def test_accumulating_dynamic_tiles_starts_from_a_state_that_adapts(program):
    n = program.dim("n")
    added = tiles(3, 4, rows=n).accum(fn.add, 1)
    assert text(added) == "Stream[3] of Tile[nx64 bf16]"
    assert params(added)["init"] == [[1, 64, 2]]
    packed = tiles(3, 4, rows=n).accum(fn.pack_cols, 1)
    assert text(packed) == "Stream[3] of Tile[nx256 bf16]"
    assert params(packed)["init"] == [[0, 0, 2]]
    assert str(tiles(3, 4).accum(fn.mul, 1).producer.init) == "one(1x64)"


def test_accum_refusals():
    with pytest.raises(RankError, match=r"add#1 \(accum\): rank 2 does not fit \[3, 4\]"):
        tiles(3, 4).accum(fn.add, 2)
    with pytest.raises(RankError, match="too few dims"):
        tiles(3).accum(fn.add, 1)
    with pytest.raises(RankError):
        tiles(3, 4).accum(fn.add, 0)
    with pytest.raises(DTypeError, match="cannot hold the result"):
        tiles(3, 4, rows=2).accum(fn.add, 1, init=fn.zero((1, 64)))
    with pytest.raises(DTypeError, match="'pack_rows' starts from empty"):
        tiles(3, 4).accum(fn.pack_rows, 1, init=fn.zero((1, 64)))
    for ignored in (fn.one((0, 64)), fn.full((0, 64), 7)):
        with pytest.raises(DTypeError, match=r"starts from empty\(\(0, 64\)\), found (one|full)"):
            tiles(3, 4).accum(fn.pack_rows, 1, init=ignored)
    with pytest.raises(DTypeError, match="'pack_rows' packs tiles of bf16, found init of f16"):
        tiles(3, 4).accum(fn.pack_rows, 1, init=fn.empty((0, 64), "f16"))
    tiles(3, 4).accum(fn.pack_rows, 1, init=fn.empty((0, 64), "bf16"))
    with pytest.raises(ArgError, match="'silu' cannot be used in an accumulation"):
        tiles(3, 4).accum(fn.silu, 1)
    with pytest.raises(ArgError, match="use map_accum for matmuls"):
        tiles(3, 4).accum(fn.matmul, 1)
    with pytest.raises(DTypeError, match="'add' works on tiles, found MultiHot"):
        flags(3, 4).accum(fn.add, 1)
    with pytest.raises(ArgError, match="one side must be 0"):
        fn.empty((1, 2))


# map-accum and scan


def test_map_accum(program):
    a, b = tiles(3, 5, rows=4, cols=8), tiles(3, 5, rows=8, cols=2)
    made = st.map_accum(fn.matmul, a, b, 1)
    assert text(made) == "Stream[3] of Tile[4x2 bf16]"
    assert params(made) == {
        "fn": fn.matmul.summing.record(), "bw": 1024, "rank": 1, "init": [[4, 2, 2]], "wb": False,
    }  # fmt: skip
    assert made.producer.flops() == 15 * 2 * 4 * 8 * 2
    dynamic = st.map_accum(fn.matmul, tiles(3, 5, rows=program.dim("r"), cols=8), b, 1)
    assert params(dynamic)["fn"] == fn.matmul.summing.record()
    assert params(dynamic)["init"] == [[0, 2, 2]]


def test_map_accum_refusals():
    a, b = tiles(3, 5, rows=4, cols=8), tiles(3, 5, rows=8, cols=2)
    with pytest.raises(ArgError, match="'silu' cannot be used in a map-accumulate of 2 tiles"):
        st.map_accum(fn.silu, a, b, 1)
    with pytest.raises(DimError, match="rows of"):
        st.map_accum(fn.mul, a, b, 1)
    with pytest.raises(DTypeError, match="the state of 'matmul' is Tile"):
        st.map_accum(fn.matmul, a, b, 1, init=fn.zero((1, 2)))
    with pytest.raises(DimError):
        st.map_accum(fn.matmul, a, tiles(3, 6, rows=8, cols=2), 1)
    with pytest.raises(RankError):
        st.map_accum(fn.matmul, a, b, 2)


def test_scan():
    made = tiles(3, 4).scan(fn.add, 1)
    assert text(made) == "Stream[3, 4] of Tile[1x64 bf16]"
    assert made.producer.unit_kind == "Scan"
    assert params(made)["rank"] == 1
    growing = tiles(3, 4).scan(fn.pack_rows, 1)
    assert growing.type.rows.is_ragged
    assert growing.type.rows.bound == 4
    with pytest.raises(RankError, match=r"add#5 \(scan\)"):
        tiles(3).scan(fn.add, 1)


# flat_map


def test_unpack_rows_and_cols(program):
    n = program.dim("n")
    assert text(tiles(3, n, rows=4).flat_map(fn.unpack_rows())) == (
        "Stream[3, 4*n] of Tile[1x64 bf16]"
    )
    assert text(tiles(3, 2, rows=4, cols=8).flat_map(fn.unpack_cols())) == (
        "Stream[3, 16] of Tile[1x4 bf16]"
    )
    ragged = tiles(3, program.ragged("len"), rows=4).flat_map(fn.unpack_rows())
    assert ragged.shape[1].is_ragged
    made = tiles(3, rows=4).flat_map(fn.unpack_rows(drop_padding=True))
    assert params(made) == {"split_row": True, "filter": True}
    assert shape(made) == ["12"]  # nothing was padded


def test_dropping_padding_gives_back_the_rows(program):
    n = program.dim("n")
    block = tiles(n).reshape(4, pad=0).accum(fn.pack_rows, 1)
    assert shape(block.flat_map(fn.unpack_rows(drop_padding=True))) == ["n"]
    assert shape(block.flat_map(fn.unpack_rows())) == ["4*ceil(n/4)"]
    through = block.repeat(2).map(fn.silu).accum(fn.pack_cols, 1)
    assert shape(through.flat_map(fn.unpack_rows(True))) == ["n"]
    one = tiles(n).promote().accum(fn.pack_rows, 1)
    assert shape(one.flat_map(fn.unpack_rows(True))) == ["n"]


def test_valid_rows_follow_the_units(program):
    n = program.dim("n")
    block = tiles(n).reshape(4, pad=0).accum(fn.pack_rows, 1)
    full = tiles(block.shape[0], rows=4)
    drop = fn.unpack_rows(True)

    def rows(stream):
        return shape(stream.flat_map(drop))

    assert rows(st.map(fn.mul, block, block)) == ["n"]
    assert rows(st.map(fn.mul, block, tiles(block.shape[0]))) == ["n"]  # a broadcast row
    assert rows(st.map(fn.mul, block, full)) == ["4*ceil(n/4)"]  # the larger count wins
    assert rows(block.repeat(1).accum(fn.add, 1)) == ["4*ceil(n/4)"]  # adding resets it
    assert rows(block.repeat(2).flatten(0, 1)) == ["v"]
    single = tiles(n).reshape(4, pad=0).flatten(0, 1)
    assert rows(single) == ["v_2"]  # tiles without any valid row are not dropped
    assert rows(st.parallelize(block, 2)[0]) == ["v_3"]
    buffered = block.reshape(1).bufferize(1).streamify().flatten(0, 1)
    assert rows(buffered) == ["n"]


def test_unknown_valid_rows_get_a_symbol(program):
    marked = st.map(fn.set_offset, tiles(3, rows=4), numbers(3))
    made = marked.flat_map(fn.unpack_rows(True))
    assert shape(made) == ["v"]
    assert "valid rows of" in program.provenance(made.shape[0].expr)
    inner = st.map(fn.set_offset, tiles(2, 3, rows=4), numbers(2, 3)).flat_map(fn.unpack_rows(True))
    assert shape(inner) == ["2", "~v_2"]


def test_expert_addresses(program):
    n = program.dim("n")
    made = flags(n, hot=1).flat_map(fn.expert_addresses(16, base=3))
    assert text(made) == "Stream[n, 16, 1] of Tile[1x1 u64]"
    assert params(made) == {"n": 16, "base": 3}
    with pytest.raises(RankError, match="takes rank 0"):
        flags(n, 2, hot=1).flat_map(fn.expert_addresses(16))
    with pytest.raises(DTypeError, match="one-hot selectors"):
        flags(n).flat_map(fn.expert_addresses(16))


def test_addresses_and_filter_of_one_length_stream_share_their_dim(program):
    index, length = numbers(8), numbers(8)
    addresses = index.flat_map(fn.cache_read_addresses(4), length)
    last = length.flat_map(fn.last_tile_filter())
    assert shape(addresses) == ["8", "~len"]
    assert addresses.shape == last.shape
    assert params(addresses) == {"stride": 4}
    ends, rest = st.partition(tiles(*addresses.shape), last, rank=0)
    assert shape(ends) == ["8"]
    assert rest.shape[0] == addresses.shape[1].total - 8
    with pytest.raises(DimError):
        index.flat_map(fn.cache_read_addresses(4), numbers(9))
    with pytest.raises(ArgError, match="takes 2 streams, found 1"):
        index.flat_map(fn.cache_read_addresses(4))
    with pytest.raises(DTypeError, match="1x1 tiles of u32 or u64"):
        tiles(8).flat_map(fn.last_tile_filter())


def test_general_flat_map(program):
    n = program.dim("n")
    made = tiles(3, n, rows=4).flat_map(fn.emit([2, "rows"], (1, "cols"), cycles=3))
    assert text(made) == "Stream[3, 2*n, 4] of Tile[1x64 bf16]"
    assert made.producer.unit_kind == "FlatMap"
    assert params(made) == {"dims": [2, "rows"], "tile": [1, "cols"], "cycles": 3}
    padded = tiles(n).reshape(4, pad=0).accum(fn.pack_rows, 1)
    assert shape(padded.flat_map(fn.emit(["valid"], (1, "cols")))) != ["4*ceil(n/4)"]
    for bad in (([], (1, 1)), ([0], (1, 1)), (["depth"], (1, 1)), ([1], ("valid", 1))):
        with pytest.raises(ArgError, match=r"emit: (dims|tile)"):
            fn.emit(*bad)
    for huge in ([2**20, 2**21], [2**41], ["rows", 2**20, 2]):
        with pytest.raises(
            ArgError, match=r"emit#\d+ \(flat_map\): emit .* pieces or more; 2\*\*40 are"
        ):
            tiles(3, rows=2**20).flat_map(fn.emit(huge, (1, 1)))
    most = tiles(3).flat_map(fn.emit([2**20, 2**20], (1, 1)))
    assert shape(most) == [str(3 * 2**20), str(2**20)]
    with pytest.raises(ArgError, match="flat_map needs a stream function"):
        tiles(3).flat_map(fn.silu)
