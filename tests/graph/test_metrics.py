"""Metrics: countings, FIFOs, on-demand allocation, FLOPs, binding."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, GraphError
from stepsim.graph import fn
from stepsim.graph.accounting import Accounting
from stepsim.graph.metrics import allocated_compute, measured_bytes
from tests.graph.support import flags, numbers, scratch, tiles

COUNTINGS = ("published", "published2", "paper")


def held(op, counting="published", fifos=False):
    return op.memory(Accounting(counting, fifos))


def moved(op, counting="published"):
    return op.traffic(Accounting(counting, False))


@pytest.fixture
def program():
    with scratch(compute_bw=8) as p:
        yield p


def per_counting(op):
    return [held(op, m) for m in COUNTINGS]


def with_fifos(op):
    return [held(op, m, True) for m in COUNTINGS]


# formulas, in the order published, published2, paper; tiles are bf16


def test_linear_load(program):
    op = st.linear_load(st.spec(8, 64), (2, 64)).producer
    assert per_counting(op) == [256, 512, 512]
    assert with_fifos(op) == [256, 512, 512]
    assert [moved(op, m) for m in COUNTINGS] == [1024] * 3


def test_linear_store_counts_four_bytes_as_published(program):
    op = st.linear_store(tiles(5, rows=2))
    assert per_counting(op) == [512, 1024, 512]
    assert [moved(op, m) for m in COUNTINGS] == [2560, 2560, 1280]


def test_random_access(program):
    load = st.random_load(numbers(5), st.spec(8, 64), (2, 64)).producer
    assert per_counting(load) == [256, 512, 512]
    assert moved(load) == 5 * 256
    store = st.random_store(numbers(5), tiles(5), st.spec(8, 64), depth=4).producer
    assert per_counting(store) == [512, 1024, 256]
    assert moved(store) == 5 * 128


def test_bufferize_and_streamify(program):
    buffers = tiles(3, 4).bufferize(1)
    assert per_counting(buffers.producer) == [256 + 2 * 1024, 256 + 2 * 1024, 128 + 2 * 512]
    assert per_counting(buffers.streamify().producer) == [1024 + 256, 0, 0]


def test_capacities_use_the_bound_of_ragged_dims(program):
    ragged = program.ragged("len")
    op = tiles(3, ragged).bufferize(1).producer
    assert held(op) == 256 + 2 * 256 * ragged.bound


def test_map(program):
    add = st.map(fn.add, tiles(3), tiles(3)).producer
    assert per_counting(add) == [0, 0, 0]
    assert with_fifos(add) == [768, 0, 384]
    mul = st.map(fn.matmul, tiles(3, rows=4), tiles(3, rows=64, cols=8)).producer
    weight, left, out = 64 * 8, 4 * 64, 4 * 8
    assert per_counting(mul) == [0, 0, 16 * 64 * 2 + weight * 2]
    assert with_fifos(mul)[0] == 4 * (weight + left + out)
    assert with_fifos(mul)[1] == 16 * 64 + 4 * (weight + out)


def test_accum_and_map_accum(program):
    add = tiles(3, 4).accum(fn.add, 1).producer
    assert per_counting(add) == [256, 256, 128]
    assert with_fifos(add) == [512, 256, 256]
    op = st.map_accum(fn.matmul, tiles(3, 5, rows=4), tiles(3, 5, rows=64, cols=8), 1).producer
    out, left, weight = 4 * 8, 4 * 64, 64 * 8
    assert per_counting(op) == [4 * out, 4 * out, 16 * 64 * 2 + 2 * weight + 2 * out]
    assert with_fifos(op)[0] == 3 * 4 * left
    assert with_fifos(op)[1] == 16 * 64 + 4 * (weight + out)
    assert per_counting(tiles(3, 4).scan(fn.add, 1).producer) == [256, 256, 128]


def test_shape_operators(program):
    assert per_counting(tiles(3, 4).flatten(0, 1).producer) == [0, 0, 0]
    assert with_fifos(tiles(3, 4).flatten(0, 1).producer) == [512, 512, 256]
    repeat = tiles(3).repeat(4).producer
    assert per_counting(repeat) == [256, 256, 128]
    assert with_fifos(repeat) == [512, 512, 256]
    assert per_counting(tiles(3, 1).expand(tiles(3, 4)).producer) == [256, 256, 128]


def test_routing_operators(program):
    n = program.dim("n")
    split = st.partition(tiles(4), flags(4))[0].producer
    assert per_counting(split) == [0, 0, 0]
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
    assert per_counting(op) == [4 * 256, 4 * 256, 0]


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
    m = p.metrics(counting="published")
    assert {str(s) for s in m.free_symbols()} == {"n0", "n1"}
    for bound in (
        m.bind({route: [6, 4]}),
        m.bind({route: np.array([[0]] * 6 + [[1]] * 4)}),
        m.bind({route.count[0]: 6, route.count[1].expr: 4}),
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
    everything = p.metrics(counting="published").bind({route: [10, 0]})
    used = p.metrics(counting="published", on_demand=True).bind({route: [10, 0]})
    idle = 4 * 64 * 4 + 64 * 8 * 2  # pack accumulator and weight load of expert 1
    assert everything.on_chip_memory - used.on_chip_memory == idle
    assert everything.off_chip_traffic == used.off_chip_traffic


def test_table_has_a_row_for_each_operator():
    p, _ = routed()
    m = p.metrics()
    assert [row.operator for row in m.table()] == p.operators
    assert sum(r.off_chip_traffic for r in m.table()) == m.off_chip_traffic
    assert sum(r.on_chip_memory for r in m.table()) == m.on_chip_memory
    assert sum(r.flops for r in m.table()) == m.flops != m.on_chip_memory


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
        m.bind({p.operators[1].outputs[0]: 5})
    with pytest.raises(ArgError, match="belongs to program 'routed'"):
        m.bind({other.operators[1].outputs[0]: 5})
    with pytest.raises(ArgError, match="unknown counting 'artifact'"):
        p.metrics(counting="artifact")


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([4, 6.5], r"found 6\.5 at position 1"),
        ([6.0, 4], r"found 6\.0 at position 0"),
        (np.array([5.9, 5.1]), r"found 5\.9 at position 0"),
        ([11, -1], "count 11 at position 0|found -1 at position 1"),
        ([True, 9], "found True at position 0"),
        ([11, 0], "count 11 at position 0 is more than its 10 rows"),
        ([5, 4], r"counts sum to 9, expected 10 \(10 rows times 1\)"),
        ([[0], [1, 0]], "the rows of the index array differ in length"),
        ([[0.0]] * 10, "indices must be integers"),
    ],
)
def test_impossible_counts_of_a_routing(counts, message):
    p, route = routed()
    with pytest.raises(ArgError, match=message) as caught:
        p.metrics().bind({route: counts})
    assert "<Routing 'routing': 10 rows, top 1 of 2" in str(caught.value)


@pytest.mark.parametrize("value", [-3, 2.7, True, "4", [4], None, 10**400 * -1])
def test_dims_are_non_negative_ints(value):
    with st.Program("sized", compute_bw=8) as p:
        n = p.dim("n")
        x = st.linear_load(st.spec(4, 64), (1, 64)).assume_shape(n, 1)
        x.map(fn.silu).consume()
    with pytest.raises(ArgError, match=r"dim n: found .*; bind non-negative ints"):
        p.metrics().bind({n: value})
    assert p.metrics().bind({n: np.int64(4)}).flops == 4 * 8 * 64


def test_counts_bound_one_by_one_fit_the_routing():
    p, route = routed()
    with pytest.raises(ArgError, match="counts sum to 11, expected 10"):
        p.metrics().bind({route.count[0]: 6, route.count[1]: 5})
    with pytest.raises(ArgError, match="count 12 at position 1 is more than its 10 rows"):
        p.metrics().bind({route.count[1]: 12})


def test_impossible_values_of_streams():
    with st.Program("streams", compute_bw=8) as p:
        index, length = st.metadata([0, 1, 2]), st.metadata([4, 1, 2])
        addresses = index.flat_map(fn.cache_read_addresses(8), length)
        st.random_load(addresses, st.spec(64, 64), (1, 64)).consume()
        inner = st.partition(st.selector([[1, 0], [0, 1], [1, 0]]), st.selector([[1]] * 3))[0]
        fixed = st.selector([[1, 0], [0, 1]])
        for sel, rows in ((inner, 3), (fixed, 2)):
            x = st.linear_load(st.spec(rows, 64), (1, 64)).flatten(0, 1)
            for out in st.partition(x, sel):
                out.consume()
    m = p.metrics()
    for key, value, message in (
        (length, [4, 1], "found 2 values, expected 3: one size for each outer position"),
        (addresses.shape[1], [4, 1, 2, 3], "found 4 values, expected 3"),
        (length, [4, -1, 2], r"ragged dim ~len: found -1 at position 1"),
        (length, [4, 1, 2.5], r"found 2\.5 at position 2"),
        (inner, [1], "found 1 values, expected 2: one count for each output"),
        (inner, [4, 0], "count 4 at position 0 is more than its 3 selectors"),
        (inner, [1, "x"], "found 'x' at position 1"),
        (fixed, [2, 0], "count 2 at position 0 contradicts 1"),
    ):
        with pytest.raises(ArgError, match=message):
            m.bind({key: value})


def test_no_traffic_no_intensity():
    with st.Program("inside", compute_bw=8) as p:
        st.metadata([1, 2]).consume()
    m = p.metrics()
    for of in (m, m.bind()):
        with pytest.raises(ArgError, match=r"'inside' has no .*: it has no off-chip traffic"):
            _ = of.operational_intensity


def test_expressions_without_values_are_named():
    p, route = routed()
    other = p.namer.symbol("later", "nobody binds it")
    with pytest.raises(ArgError, match="later have no value"):
        p.metrics().bind({route: [6, 4]}).value(other + 1)


def test_metrics_print_on_one_short_line():
    p, route = routed(rows=10)
    m = p.metrics(counting="published")
    assert repr(m) == (
        "<Metrics of 'routed' (published): off-chip traffic 1024*ceil(n0/4) + 1024*ceil(n1/4) + "
        f"1600 bytes, on-chip memory {int(m.on_chip_memory):,} bytes, "
        "FLOPs 4096*ceil(n0/4) + 4096*ceil(n1/4)>"
    )
    assert repr(m.bind({route: [6, 4]})) == (
        "<BoundMetrics of 'routed' (published): off-chip traffic 4,672 bytes, on-chip memory "
        f"{int(m.on_chip_memory):,} bytes, FLOPs 12,288>"
    )
    assert repr(m.table()[0]).startswith("<routing#0: off-chip traffic 0 bytes")


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
    with pytest.raises(GraphError, match="act#1 has no compute bandwidth"):
        _ = p.metrics().allocated_compute


def test_what_computes_nothing_allocates_nothing():
    with st.Program("turned") as p:
        st.linear_load(st.spec(4, 64), (1, 64)).map(fn.transpose).consume()
    assert p.metrics().allocated_compute == 0


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


def test_outputs_that_get_nothing_hold_nothing():
    """Of fewer elements than outputs the last ones get none, and their buffers are not built."""
    with scratch() as p:
        n = p.dim("n")
        *_, last = st.parallelize(st.feedback(st.Tile.of("f16", 2, 2), [n]), 3)
        lead = last.promote().shape[0].expr
    assert [lead.subs(n.expr, size) for size in range(4)] == [0, 0, 0, 1]


def test_an_output_without_data_holds_no_memory():
    with st.Program() as p:
        routing = st.routing(st.spec(2, 1), 2)
        chosen = routing.onehot()
        unused, parts = st.partition(chosen, chosen)
        first, second, third = st.parallelize(parts, 3)
        tiles = st.linear_load(st.spec(2, 2, dtype="f16"), (2, 2), ref=third)
        for stream in (tiles.scan(fn.add, 1, compute_bw=8), first, second, unused):
            stream.consume()
    symbolic = p.metrics()
    assert symbolic.bind({routing: [[0], [0]]}).on_chip_memory == 0
    many = symbolic.lambdify("on_chip_memory", symbolic.free_symbols())
    assert min(many(size) for size in range(4)) == 0


@pytest.mark.parametrize("on_demand", [True, False])
def test_bytes_alone_are_those_of_bound_metrics(on_demand: bool) -> None:
    with st.Program("two experts", compute_bw=64) as program:
        table = st.routing(st.spec(4, 1), experts=2)
        x = st.linear_load(st.spec(4, 8), tile=(1, 8)).flatten(0, 1)
        for part in st.partition(x, table.multihot()):
            part.promote().accum(fn.pack_rows, rank=1).map(fn.silu).consume()
    bound = program.metrics(counting="published", on_demand=on_demand).bind({table: [4, 0]})
    found = measured_bytes(program, {table: [4, 0]}, counting="published", on_demand=on_demand)
    assert found == (bound.off_chip_traffic, bound.on_chip_memory)
    assert allocated_compute(program) == bound.allocated_compute == 128
    with pytest.raises(ArgError, match="symbols have no value"):
        measured_bytes(program, {}, counting="published", on_demand=on_demand)
