"""On-chip memory of every operator in every counting, with FIFOs and without."""

from __future__ import annotations

from typing import Any

import pytest

import stepsim.graph as st
from stepsim.graph import fn
from stepsim.graph.accounting import Accounting
from tests.graph.support import flags, numbers, scratch, tiles

COUNTINGS = ("executed", "published", "published2", "paper")


@pytest.fixture
def program():
    with scratch(compute_bw=8) as p:
        yield p


def held(stream: st.Stream, *, fifos: bool) -> list[Any]:
    """Bytes, in the order of ``COUNTINGS``."""
    return [stream.producer.memory(Accounting(c, fifos)) for c in COUNTINGS]


def test_map_of_one_stream(program):
    made = tiles(3, rows=2).map(fn.row_sum)
    assert held(made, fifos=False) == [0, 0, 0, 0]
    small, wide = 2 * 64 * 2 + 2 * 2, 2 * 64 * 4 + 2 * 4
    assert held(made, fifos=True) == [small, wide, 0, small]


def test_map_of_a_matmul(program):
    made = st.map(fn.matmul, tiles(3, rows=4), tiles(3, rows=64, cols=8))
    own = 2 * (16 * 64 + 64 * 8)
    assert held(made, fifos=False) == [own, 0, 0, own]
    fifos = 4 * 64 + 64 * 8 + 4 * 8
    published2 = 16 * 64 + 4 * (64 * 8 + 4 * 8)
    assert held(made, fifos=True) == [own + 2 * fifos, 4 * fifos, published2, own + 2 * fifos]
    pairs = st.map(fn.matmul, st.zip(tiles(3, rows=4), tiles(3, rows=64, cols=8)))
    assert held(pairs, fifos=False) == [0, 0, 0, 0]


def test_map_accum(program):
    made = st.map_accum(fn.matmul, tiles(3, 5, rows=4), tiles(3, 5, rows=64, cols=8), 1)
    first, weight, out = 4 * 64, 64 * 8, 4 * 8
    own = 2 * (16 * 64 + weight + out)
    assert held(made, fifos=False) == [own, 4 * out, 4 * out, own]
    published2 = 16 * 64 + 4 * (weight + out)
    assert held(made, fifos=True) == [own + 6 * first, 12 * first, published2, own + 6 * first]


def test_accum_and_scan(program):
    for made in (tiles(3, 4).accum(fn.pack_rows, 1), tiles(3, 4).scan(fn.pack_rows, 1)):
        assert held(made, fifos=False) == [512, 1024, 1024, 512]
        assert held(made, fifos=True) == [512 + 128, 1024 + 256, 1024, 512 + 128]


def test_shape_operators_hold_two_tiles_and_copies_one(program):
    n = program.dim("n")
    for made in (
        tiles(3, 4).flatten(0, 1), tiles(4).reshape(2), tiles(n, 4).promote(),
        tiles(3).unsqueeze(0), st.zip(tiles(3), tiles(3)),
    ):  # fmt: skip
        assert held(made, fifos=False) == [0, 0, 0, 0]
        assert held(made, fifos=True) == [256, 512, 512, 256]
    for made in (tiles(3).repeat(4), tiles(3, 1).expand(tiles(3, 4))):
        assert held(made, fifos=False) == [128, 256, 256, 128]
        assert held(made, fifos=True) == [256, 512, 512, 256]


def test_routers_hold_a_tile_for_each_stream(program):
    n = program.dim("n")
    for made in (st.partition(tiles(4), flags(4, width=3))[0], st.parallelize(tiles(4), 3)[0]):
        assert held(made, fifos=False) == [0, 0, 0, 0]
        assert held(made, fifos=True) == [128 * 4, 256 * 4, 256 * 4, 128 * 4]
    data, _ = st.eager_merge([tiles(n), tiles(n), tiles(n)])
    assert held(data, fifos=False) == [0, 0, 0, 0]
    assert held(data, fifos=True) == [131 * 4, 259 * 4, 259 * 4, 131 * 4]
    assert data.producer.trigger() == 3 * n.expr


@pytest.mark.parametrize(
    ("outer", "kept"),
    [((5,), 5 * 2), ((3, 5), 15 * 2), ((2, 3, 5), 15 * 2), ((4, 2, 3, 5), 15 * 2)],
)
def test_reassemble_holds_the_chunks_of_the_two_inner_dims_of_selectors(program, outer, kept):
    n = program.dim("n")
    xs = [tiles(n, 7)] * 2
    made = st.reassemble(xs, flags(*outer), write_back=True)
    every = kept * 7 * 256
    assert held(made, fifos=False) == [0, every, every, 0]
    assert held(made, fifos=True) == [128 * 3, every + 256 * 3, every + 256 * 3, 128 * 3]
    plain = st.reassemble(xs, flags(*outer))
    assert held(plain, fifos=False) == [0, 0, 0, 0]


def test_tuples_count_the_sum_of_their_members(program):
    pairs = [st.zip(tiles(6), tiles(6, rows=4))] * 2
    made = st.reassemble(pairs, flags(3), write_back=True)
    alone = st.reassemble([tiles(6)] * 2, flags(3), write_back=True)
    wide = st.reassemble([tiles(6, rows=4)] * 2, flags(3), write_back=True)
    for fifos in (False, True):
        parts = zip(held(alone, fifos=fifos), held(wide, fifos=fifos), strict=True)
        assert held(made, fifos=fifos) == [a + b for a, b in parts]
    assert held(made, fifos=False)[1] > 0


def test_buffers_and_their_readers(program):
    buffer = tiles(3, 4).bufferize(1)
    assert held(buffer, fifos=False) == [128 + 2 * 512, 256 + 2048, 256 + 2048, 128 + 2 * 512]
    assert held(buffer.streamify(), fifos=True) == [0, 1024 + 256, 0, 0]


def test_off_chip_operators(program):
    load = st.linear_load(st.spec(8, 64), (2, 64))
    assert held(load, fifos=True) == [512, 256, 512, 512]
    store = st.random_store(numbers(5), tiles(5), st.spec(8, 64), depth=4)
    assert held(store, fifos=True) == [256, 512, 1024, 256]
    sink = st.linear_store(tiles(5, rows=2))
    assert [sink.memory(Accounting(c, True)) for c in COUNTINGS] == [512, 512, 1024, 512]


@pytest.mark.parametrize("counting", COUNTINGS)
def test_elements_of_every_type(program, counting):
    account = Accounting(counting, False)
    wide = counting.startswith("published")
    narrow = st.Tile.of("i4", 3, 5)
    assert account.type_bytes(narrow) == (60 if wide else 8)
    assert account.load_bytes(narrow) == 8
    assert account.type_bytes(st.Tile.of("u32", 3, 5)) == 60
    assert account.type_bytes(st.MultiHot(7)) == 7
    assert account.type_bytes(st.IndexSelector(7, 3)) == 6
    assert account.type_bytes(st.Ack()) == 1
    assert account.type_bytes(tiles(2, 3).bufferize(1).type) == 3 * 64 * (4 if wide else 2)
    assert account.buffering == (1 if counting == "published" else 2)


def test_idle_operators_hold_nothing_however_little_it_is():
    with st.Program("little", compute_bw=8) as p:
        table = st.routing(st.spec(4, 1), experts=2)
        signals = st.selector([[1]] * 4)
        for part in st.partition(signals, table.multihot()):
            part.repeat(2).consume()
    metrics = p.metrics()
    assert metrics.bind({table: [4, 0]}).on_chip_memory == 1
    assert metrics.bind({table: [2, 2]}).on_chip_memory == 2
    assert p.metrics(on_demand=False).bind({table: [4, 0]}).on_chip_memory == 2
    assert p.metrics(counting="paper").bind({table: [4, 0]}).on_chip_memory == 2
