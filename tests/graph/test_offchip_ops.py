"""Loads and stores: shapes, defaults and every refusal."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, DimError, DTypeError, KindError, RankError
from tests.graph.support import numbers, scratch, text, tiles


@pytest.fixture(autouse=True)
def program():
    with scratch() as p:
        yield p


def test_default_walk_is_the_whole_tensor_row_major():
    x = st.linear_load(st.spec(3, 64, 256), (32, 128))
    assert text(x) == "Stream[3, 2, 2] of Tile[32x128 bf16]"
    assert x.producer.stride == (4, 2, 1)


def test_reference_dims_lead_the_shape(program):
    n = program.dim("n")
    x = st.linear_load(st.spec(64, 256), (64, 64), ref=tiles(n, 3))
    assert [str(d) for d in x.shape] == ["n", "3", "1", "4"]
    assert x.producer.unit_kind == "DynOffChipLoad"
    assert x.producer.unit_params({}) == {"tile": [64, 64], "view": [1, 4], "par": 1, "bpe": 2}


def test_load_without_reference_has_no_leading_dim():
    x = st.linear_load(st.spec(8, 64, dtype="f32"), (1, 64), shape=(8, 1), stride=(1, 1))
    assert x.shape == (8, 1)
    assert x.producer.unit_kind == "OffChipLoad"
    assert x.producer.unit_params({}) == {
        "tile": [1, 64], "view": [8, 1], "par": 1, "bpe": 4, "lead": False,
    }  # fmt: skip


def test_arrays_give_their_spec():
    x = st.linear_load(np.zeros((4, 8), np.float32), (2, 8))
    assert str(x.type) == "Tile[2x8 f32]"
    with pytest.raises(DTypeError, match="arrays of float64 cannot be loaded"):
        st.linear_load(np.zeros((4, 8)), (2, 8))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tile": (3, 64)}, "tile 3x64 does not divide the 8 rows"),
        ({"tile": (1, 48)}, "tile 1x48 does not divide the 64 columns"),
        ({"tile": (0, 64)}, r"tile\[0\] must be an int from 1"),
        ({"tile": (1, 64), "shape": (8, 1), "stride": (1,)}, "differ in length"),
        ({"tile": (1, 64), "shape": (), "stride": ()}, "differ in length"),
        ({"tile": (1, 64), "shape": (8,)}, "needs a stride"),
        ({"tile": (1, 64), "shape": (0, 1), "stride": (1, 1)}, "a dim below 1"),
        ({"tile": (1, 64), "shape": (2, 1), "stride": (-1, 1)}, r"stride\[0\] must .*, found -1"),
        ({"tile": (1, 64), "shape": (9, 1), "stride": (1, 1)}, "ends at tile 8 but .* 8 tiles"),
        ({"tile": (1, 64), "par_dispatch": 0}, "par_dispatch must be"),
    ],
)
def test_bad_walks(program, arguments, message):
    tile = arguments.pop("tile")
    with pytest.raises(ArgError, match=message):
        st.linear_load(st.spec(8, 64), tile, **arguments)
    assert program.operators == []


def test_dynamic_walks_are_refused(program):
    n = program.dim("n")
    with pytest.raises(KindError, match=r"must be constants\. For a dynamic .* pass ref="):
        st.linear_load(st.spec(8, 64), (1, 64), shape=(n, 1), stride=(1, 1))


def test_bad_tensors():
    with pytest.raises(ArgError, match="has 1 dim"):
        st.linear_load(st.spec(64), (1, 64))
    with pytest.raises(DTypeError, match="Loads read tensors of f32, bf16, f16, f8e4m3, "):
        st.linear_load(st.spec(8, 64, dtype="u64"), (1, 64))
    with pytest.raises(DTypeError, match="unknown scalar type 'int3'"):
        st.spec(8, 64, dtype="int3")
    with pytest.raises(ArgError, match="ints >= 1"):
        st.spec(8, 0)


def test_store_takes_any_shape_but_static_tiles(program):
    n = program.dim("n")
    sink = st.linear_store(tiles(n, 4), "out")
    assert sink.unit_params({}) == {"tile": [1, 64], "par": 1}
    with pytest.raises(DTypeError, match="tiles of static size"):
        st.linear_store(tiles(3, rows=n))


def test_random_load_has_the_shape_of_its_addresses(program):
    addr = numbers(4, program.ragged("len"))
    x = st.random_load(addr, st.spec(64, 64), (32, 64))
    assert x.shape == addr.shape
    assert x.producer.unit_params({}) == {"tile": [32, 64], "par": 1, "bpe": 2}
    with pytest.raises(DTypeError, match="addr must carry tile indices"):
        st.random_load(tiles(4), st.spec(64, 64), (32, 64))


def test_random_store(program):
    n = program.dim("n")
    ack = st.random_store(numbers(n), tiles(n, 1), st.spec(8, 64), ack="data", depth=4)
    assert text(ack) == "Stream[n, 1] of Ack"
    assert ack.producer.unit_params({}) == {
        "tile": [1, 64], "par": 1, "bpe": 2, "ack_addr": False,
    }  # fmt: skip
    assert st.random_store(numbers(n), tiles(n, 1), st.spec(8, 64)).shape == numbers(n).shape


def test_random_store_refusals(program):
    n, m = program.dim("n"), program.dim("m")
    with pytest.raises(DimError, match=r"found n addresses and 2\*n tiles \(unknown\)"):
        st.random_store(numbers(n), tiles(n, 2), st.spec(8, 64))
    with pytest.raises(DimError, match=r"3 addresses and 4 tiles \(different\)"):
        st.random_store(numbers(3), tiles(4), st.spec(8, 64))
    with pytest.raises(DTypeError, match="tiles of static size"):
        st.random_store(numbers(3), tiles(3, rows=m), st.spec(8, 64))
    stored = st.random_store(numbers(3), numbers(3), st.spec(8, 1, dtype="u64"))
    assert text(stored) == "Stream[3] of Ack"
    with pytest.raises(DTypeError, match="data carries"):
        st.random_store(numbers(3), tiles(3, dtype="f32"), st.spec(8, 64))
    with pytest.raises(ArgError, match="ack must be 'addr' or 'data'"):
        st.random_store(numbers(3), tiles(3), st.spec(8, 64), ack="both")
    with pytest.raises(ArgError, match="does not divide"):
        st.random_store(numbers(3), tiles(3, rows=3), st.spec(8, 64))


def test_triggered_loads_read_once_for_every_inner_tensor(program):
    ragged = program.ragged("len")
    x = st.linear_load(st.spec(64, 256), (64, 64), ref=tiles(5, 3, ragged), trigger_rank=2)
    assert text(x) == "Stream[5, 1, 4] of Tile[64x64 bf16]"
    assert x.producer.unit_params({}) == {
        "tile": [64, 64], "view": [1, 4], "par": 1, "bpe": 2, "trigger_rank": 2,
    }  # fmt: skip
    with pytest.raises(RankError, match=r"trigger_rank 3 does not fit ref \[5, 3\] of rank 1"):
        st.linear_load(st.spec(64, 64), (64, 64), ref=tiles(5, 3), trigger_rank=3)
    with pytest.raises(RankError, match="trigger_rank -1 does not fit"):
        st.linear_load(st.spec(64, 64), (64, 64), ref=tiles(5, 3), trigger_rank=-1)
    with pytest.raises(ArgError, match="there is no reference to trigger"):
        st.linear_load(st.spec(64, 64), (64, 64), trigger_rank=1)


def test_transposed_loads_deliver_columns_as_rows():
    x = st.linear_load(st.spec(64, 256), (16, 64), transposed=True)
    assert text(x) == "Stream[4, 4] of Tile[64x16 bf16]"
    params = x.producer.unit_params({})
    assert (params["tile"], params["transposed"]) == ([16, 64], True)


def test_loads_that_bypass_the_memory_have_no_traffic(program):
    x = st.linear_load(st.spec(64, 256), (16, 64), transposed=True, bypass=True)
    assert x.producer.unit_kind == "BypassLoad"
    assert x.producer.unit_params({}) == {
        "tile": [64, 16], "view": [4, 4], "bpe": 2, "lead": False,
    }  # fmt: skip
    again = st.linear_load(st.spec(64, 256), (16, 64), ref=x, bypass=True)
    assert again.producer.unit_kind == "DynBypassLoad"
    assert program.metrics().off_chip_traffic == 0
    with pytest.raises(ArgError, match="par_dispatch has no effect"):
        st.linear_load(st.spec(4, 4), (4, 4), bypass=True, par_dispatch=2)


def test_walks_that_cannot_be_counted():
    with pytest.raises(ArgError, match="2\\*\\*50 are the most"):
        st.linear_load(st.spec(4, 4), (4, 4), shape=(2**30, 2**30), stride=(0, 0))


def test_plain_loads_keep_the_attributes_that_identify_them():
    plain = st.linear_load(st.spec(4, 4), (4, 4)).producer.attributes()
    assert not {"trigger_rank", "transposed", "bypass"} & set(plain)
    other = st.linear_load(st.spec(4, 4), (4, 4), transposed=True).producer.attributes()
    assert other == {**plain, "transposed": True}
