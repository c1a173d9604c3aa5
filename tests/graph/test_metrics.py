"""Metrics: memory models, FIFO counting, on-demand allocation, FLOPs, binding."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, GraphError
from stepsim.graph import fn
from stepsim.graph.metrics import MODELS, Accounting
from tests.graph.support import flags, numbers, scratch, tiles


def held(op, model="published", fifos=False):
    return op.memory(Accounting(model, fifos))


def moved(op, model="published"):
    return op.traffic(Accounting(model, False))


@pytest.fixture
def program():
    with scratch(compute_bw=8) as p:
        yield p


def per_model(op):
    return [held(op, m) for m in MODELS]


def with_fifos(op):
    return [held(op, m, True) for m in MODELS]


# formulas, in the order published, published2, paper; tiles are bf16


def test_linear_load(program):
    op = st.linear_load(st.spec(8, 64), (2, 64)).producer
    assert per_model(op) == [256, 512, 512]
    assert with_fifos(op) == [256, 512, 512]
    assert [moved(op, m) for m in MODELS] == [1024] * 3


def test_linear_store_counts_four_bytes_as_published(program):
    op = st.linear_store(tiles(5, rows=2))
    assert per_model(op) == [512, 1024, 512]
    assert [moved(op, m) for m in MODELS] == [2560, 2560, 1280]


def test_random_access(program):
    load = st.random_load(numbers(5), st.spec(8, 64), (2, 64)).producer
    assert per_model(load) == [256, 512, 512]
    assert moved(load) == 5 * 256
    store = st.random_store(numbers(5), tiles(5), st.spec(8, 64), depth=4).producer
    assert per_model(store) == [512, 1024, 256]
    assert moved(store) == 5 * 128


def test_bufferize_and_streamify(program):
    buffers = tiles(3, 4).bufferize(1)
    assert per_model(buffers.producer) == [256 + 2 * 1024, 256 + 2 * 1024, 128 + 2 * 512]
    assert per_model(buffers.streamify().producer) == [1024 + 256, 0, 0]


def test_capacities_use_the_bound_of_ragged_dims(program):
    ragged = program.ragged("len")
    op = tiles(3, ragged).bufferize(1).producer
    assert held(op) == 256 + 2 * 256 * ragged.bound


def test_map(program):
    add = st.map(fn.add, tiles(3), tiles(3)).producer
    assert per_model(add) == [0, 0, 0]
    assert with_fifos(add) == [768, 0, 384]
    mul = st.map(fn.matmul, tiles(3, rows=4), tiles(3, rows=64, cols=8)).producer
    weight, left, out = 64 * 8, 4 * 64, 4 * 8
    assert per_model(mul) == [0, 0, 16 * 64 * 2 + weight * 2]
    assert with_fifos(mul)[0] == 4 * (weight + left + out)
    assert with_fifos(mul)[1] == 16 * 64 + 4 * (weight + out)


def test_accum_and_map_accum(program):
    add = tiles(3, 4).accum(fn.add, 1).producer
    assert per_model(add) == [256, 256, 128]
    assert with_fifos(add) == [512, 256, 256]
    op = st.map_accum(fn.matmul, tiles(3, 5, rows=4), tiles(3, 5, rows=64, cols=8), 1).producer
    out, left, weight = 4 * 8, 4 * 64, 64 * 8
    assert per_model(op) == [4 * out, 4 * out, 16 * 64 * 2 + 2 * weight + 2 * out]
    assert with_fifos(op)[0] == 3 * 4 * left
    assert with_fifos(op)[1] == 16 * 64 + 4 * (weight + out)
    assert per_model(tiles(3, 4).scan(fn.add, 1).producer) == [256, 256, 128]


def test_shape_operators(program):
    assert per_model(tiles(3, 4).flatten(0, 1).producer) == [0, 0, 0]
    assert with_fifos(tiles(3, 4).flatten(0, 1).producer) == [512, 512, 256]
    repeat = tiles(3).repeat(4).producer
    assert per_model(repeat) == [256, 256, 128]
    assert with_fifos(repeat) == [512, 512, 256]
    assert per_model(tiles(3, 1).expand(tiles(3, 4)).producer) == [256, 256, 128]


def test_routing_operators(program):
    n = program.dim("n")
    split = st.partition(tiles(4), flags(4))[0].producer
    assert per_model(split) == [0, 0, 0]
    assert with_fifos(split) == [256 * 3, 256 * 3, 128 * 3]
    join = st.reassemble([tiles(n), tiles(n)], flags(4)).producer
    assert with_fifos(join) == [256 * 3, 256 * 3, 128 * 3]
    merge = st.eager_merge([tiles(n), tiles(n)])[0].producer
    assert with_fifos(merge) == [(256 + 2) * 3, (256 + 2) * 3, (128 + 2) * 3]
    deal = st.parallelize(tiles(4), 2)[0].producer
    assert with_fifos(deal)[0] == 256 * 3


def test_write_back_of_reassemble_charges_the_stream_as_published(program):
    n = program.dim("n")
    op = st.reassemble([tiles(n)] * 2, flags(4, hot=1), write_back=True).producer
    assert per_model(op) == [4 * 256, 4 * 256, 0]


def test_element_bytes():
    published, paper = Accounting("published", False), Accounting("paper", False)
    assert published.type_bytes(st.MultiHot(7)) == 7
    assert published.type_bytes(st.IndexSelector(7, 3)) == 6
    assert published.type_bytes(st.Ack()) == 1
    assert published.type_bytes(st.Tile.of("u64", 1, 1)) == 8
    assert published.type_bytes(st.Tile.of("f32", 2, 2)) == 16
    assert published.type_bytes(st.Tile.of("f16", 2, 2)) == 16
    assert paper.type_bytes(st.Tile.of("f16", 2, 2)) == 8
    pair = st.TupleType((st.Tile.of("bf16", 1, 2), st.MultiHot(3)))
    assert paper.type_bytes(pair) == 7


# programs


def routed(tile=4, indices=None, rows=10):
    with st.Program("routed", compute_bw=16) as p:
        route = st.routing(st.spec(rows, 1) if indices is None else indices, experts=2)
        sel = route.multihot()
        done = []
        x = st.linear_load(st.spec(rows, 64), (1, 64)).flatten(0, 1)
        for part in st.partition(x, sel):
            block = part.reshape(tile, pad=0).accum(fn.pack_rows, 1)
            weight = st.linear_load(st.spec(64, 8), (64, 8), ref=block).flatten(0, 1).flatten(0, 1)
            y = st.map(fn.matmul, block, weight)
            done.append(y.flat_map(fn.unpack_rows(True)))
        st.linear_store(st.reassemble(done, sel), "out")
    return p, route


def test_totals_and_binding_by_object():
    p, route = routed()
    m = p.metrics()
    assert {str(s) for s in m.free_symbols()} == {"n0", "n1"}
    for bound in (
        m.bind({route: [6, 4]}),
        m.bind({route: np.array([[0]] * 6 + [[1]] * 4)}),
        m.bind({route.count[0]: 6, route.count[1].expr: 4}),
        m.bind_trace([[0]] * 6 + [[1]] * 4),
    ):
        assert bound.flops == 3 * 2 * 4 * 64 * 8
        assert bound.off_chip_traffic == 10 * 128 + 3 * 1024 + 10 * 8 * 4
        assert bound.operational_intensity == bound.flops / bound.off_chip_traffic
    assert m.bind({route: [6, 4]}).value(route.count[0]) == 6
    assert m.operational_intensity == m.flops / m.off_chip_traffic
    assert m.allocated_compute == 2 * 16


def test_routings_made_from_arrays_are_bound():
    p, _ = routed(indices=[[0]] * 10)
    assert p.metrics().bind().flops == 3 * 2 * 4 * 64 * 8


def test_on_demand_leaves_out_idle_operators():
    p, route = routed()
    everything = p.metrics().bind({route: [10, 0]})
    used = p.metrics(on_demand=True).bind({route: [10, 0]})
    idle = 4 * 64 * 4 + 64 * 8 * 2  # pack accumulator and weight load of expert 1
    assert everything.on_chip_memory - used.on_chip_memory == idle
    assert everything.off_chip_traffic == used.off_chip_traffic


def test_table_has_a_row_for_each_operator():
    p, _ = routed()
    m = p.metrics()
    assert [row.operator for row in m.table] == p.operators
    assert sum(r.off_chip_traffic for r in m.table) == m.off_chip_traffic


def test_unbound_symbols_are_listed_with_their_provenance():
    p, route = routed()
    with pytest.raises(ArgError) as caught:
        p.metrics().bind({route.count[0]: 3})
    assert "1 symbols have no value" in str(caught.value)
    assert "- n1: rows of routing to one expert" in str(caught.value)


def test_bad_bindings():
    p, route = routed()
    m = p.metrics()
    other, foreign = routed()
    with pytest.raises(ArgError, match="counts sum to 9, expected 10"):
        m.bind({route: [5, 4]})
    with pytest.raises(ArgError, match=r"found shape \(3,\)"):
        m.bind({route: [5, 4, 1]})
    with pytest.raises(ArgError, match="belongs to program 'routed'"):
        m.bind({foreign: [5, 5]})
    with pytest.raises(ArgError, match="it owns no symbol"):
        m.bind({"n0": 5})
    with pytest.raises(ArgError, match="owns no symbols"):
        m.bind({other.operators[1].outputs[0]: 5})
    with pytest.raises(ArgError, match="unknown memory model 'artifact'"):
        p.metrics(memory="artifact")


def test_lambdify_for_sweeps():
    p, route = routed()
    traffic = p.metrics().lambdify("off_chip_traffic", [route.count[0], route.count[1]])
    expected = [p.metrics().bind({route: [i, 10 - i]}).off_chip_traffic for i in range(11)]
    rows = np.arange(11)
    assert traffic(rows, 10 - rows).tolist() == expected
    demand = p.metrics(on_demand=True).lambdify(
        "on_chip_memory", list(route.count.known().values())
    )
    assert demand(10, 0) < demand(5, 5)
    with pytest.raises(ArgError, match=r"also depends on n1 \(rows of routing"):
        p.metrics().lambdify("flops", [route.count[0]])
    with pytest.raises(ArgError, match="unknown quantity 'cycles'"):
        p.metrics().lambdify("cycles", [])


def test_ragged_lengths_bind_by_their_stream():
    with st.Program("cache", compute_bw=8) as p:
        index, length = st.metadata([0, 1, 2]), st.metadata([4, 1, 2])
        addresses = index.flat_map(fn.cache_read_addresses(8), length)
        st.random_load(addresses, st.spec(64, 64), (1, 64)).consume()
    assert p.metrics().bind({length: [4, 1, 2]}).off_chip_traffic == 7 * 128
    assert p.metrics().bind({addresses.shape[1]: [4, 1, 2]}).off_chip_traffic == 7 * 128


def test_counts_bind_by_their_selector():
    with st.Program("split", compute_bw=8) as p:
        base = st.selector([[1, 0], [0, 1], [1, 0]])
        sel = st.partition(base, st.selector([[1]] * 3))[0]  # a stream of selectors
        for out in st.partition(st.linear_load(st.spec(3, 64), (1, 64)).flatten(0, 1), sel):
            out.map(fn.silu).consume()
    m = p.metrics()
    assert m.bind({sel: [2, 1]}).flops == 3 * 8 * 64


def test_assumed_equalities_reach_the_binding():
    with st.Program("assumed", compute_bw=8) as p:
        n = p.dim("n")
        route = st.routing(st.spec(4, 1), experts=1)
        (part,) = st.partition(
            st.linear_load(st.spec(4, 64), (1, 64)).flatten(0, 1), route.multihot()
        )
        p.assume_equal(n, part.shape[0])
        part.assume_shape(n).map(fn.silu).consume()
    assert p.metrics().bind({route: [4]}).flops == 4 * 8 * 64


def test_allocated_compute_needs_a_bandwidth():
    with st.Program("bare") as p:
        st.linear_load(st.spec(4, 64), (1, 64)).map(fn.silu, label="act").consume()
    with pytest.raises(GraphError, match="'act' has no compute bandwidth"):
        _ = p.metrics().allocated_compute


def test_flops_of_ragged_tiles_use_their_total():
    with st.Program("merged", compute_bw=8) as p:
        route = st.routing(st.spec(10, 1), experts=2)
        rows = st.partition(
            st.linear_load(st.spec(10, 64), (1, 64)).flatten(0, 1), route.multihot()
        )
        blocks = [x.promote().accum(fn.pack_rows, 1) for x in rows]
        data, which = st.eager_merge(blocks)
        which.consume()
        data.repeat(3).map(fn.silu).consume()
    for counts in ([6, 4], [10, 0]):
        assert p.metrics().bind({route: counts}).flops == 3 * 10 * 8 * 64
