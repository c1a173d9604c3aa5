"""Partition, reassemble, eager merge, parallelize: shapes, symbol identity and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, DimError, DTypeError, GraphError, RankError
from stepsim.graph import fn
from tests.graph.support import flags, numbers, scratch, shape, text, tiles


@pytest.fixture(autouse=True)
def program():
    with scratch() as p:
        yield p


# partition


def test_partition_collapses_the_selector_dims_into_one_count(program):
    n = program.dim("n")
    parts = st.partition(tiles(n, 3, 5), flags(n, 3, width=2), rank=1)
    assert [shape(p) for p in parts] == [["c0", "5"], ["c1", "5"]]
    assert parts[0].producer.unit_params({}) == {"rank": 1, "switch": [1, 1], "wb": False}


def test_partition_rank_is_optional_and_checked():
    assert len(st.partition(tiles(4, 3), flags(4))) == 2
    with pytest.raises(RankError, match="partition at rank 1, not 0"):
        st.partition(tiles(4, 3), flags(4), rank=0)
    with pytest.raises(RankError, match="data of rank 0 and selector of rank 1"):
        st.partition(tiles(4), flags(4, 3))


def test_partitions_by_one_routing_share_their_counts(program):
    route = st.routing(st.spec(8, 2), experts=3)
    rows = st.partition(tiles(8), route.multihot())
    scales = st.partition(tiles(8, 2, cols=1), route.onehot())
    assert [r.shape for r in rows] == [s.shape for s in scales]
    assert [shape(r) for r in rows] == [["n0"], ["n1"], ["n2"]]
    assert route.count[1] is rows[1].shape[0]
    assert "rows of routing to one expert" in program.provenance(route.count[1].expr)


def test_counts_belong_to_the_selector_stream():
    sel = flags(4)
    first, second = st.partition(tiles(4), sel), st.partition(tiles(4), sel)
    other = st.partition(tiles(4), flags(4))
    assert first[0].shape == second[0].shape
    assert first[0].shape != other[0].shape


def test_constant_selectors_have_known_counts():
    sel = st.selector([[1, 0, 0], [0, 1, 0], [1, 0, 0]])
    assert text(sel) == "Stream[3] of MultiHot[3, hot=1]"
    assert [shape(p) for p in st.partition(tiles(3), sel)] == [["2"], ["1"], ["0"]]
    uneven = st.selector([[1, 1], [0, 1]])
    assert text(uneven) == "Stream[2] of MultiHot[2]"
    assert text(st.selector([[1, 1], [0, 1]], as_indices=True)) == (
        "Stream[2] of IndexSelector[2, k=2]"
    )


def test_ragged_inner_dims_are_new_for_each_output(program):
    ragged = program.ragged("len")
    parts = st.partition(tiles(4, ragged), flags(4))
    inner = [p.shape[1] for p in parts]
    assert all(d.is_ragged for d in inner)
    assert len({ragged, *inner}) == 3


def test_partition_refusals(program):
    n, m = program.dim("n"), program.dim("m")
    with pytest.raises(DTypeError, match="selector must carry selectors"):
        st.partition(tiles(4), tiles(4))
    with pytest.raises(DimError, match=r"data \[n\] has n, selector \[m\] has m \(unknown\)"):
        st.partition(tiles(n), flags(m))
    with pytest.raises(DimError, match=r"\(different\)"):
        st.partition(tiles(4), flags(5))
    with pytest.raises(ArgError, match="outputs=3 but the selector is 2 wide"):
        st.partition(tiles(4), flags(4), outputs=3)
    with pytest.raises(ArgError, match=r"switch_cycles \[1\] must hold 2 ints"):
        st.partition(tiles(4), flags(4), switch_cycles=[1])


# reassemble


def test_reassemble_with_a_known_number_of_set_bits():
    route = st.routing(st.spec(8, 2), experts=3)
    rows = st.partition(tiles(8), route.multihot())
    made = st.reassemble(rows, route.multihot(), rank=0)
    assert made.shape == (8, 2)
    assert made.producer.unit_params({}) == {"rank": 0, "switch": [1, 1, 1], "wb": False}


def test_reassemble_in_general_is_ragged_with_an_exact_total(program):
    n, m = program.dim("n"), program.dim("m")
    made = st.reassemble([tiles(n, 5), tiles(m, 5)], flags(4))
    assert shape(made) == ["4", "~h", "5"]
    assert made.shape[1].total == n.expr + m.expr
    assert made.shape[1].bound == 2


def test_reassemble_refusals(program):
    n = program.dim("n")
    with pytest.raises(RankError, match=r"in1 \[n, 5\] has rank 1, expected 0"):
        st.reassemble([tiles(n), tiles(n, 5)], flags(4))
    with pytest.raises(RankError, match="expected 1"):
        st.reassemble([tiles(n), tiles(n)], flags(4), rank=1)
    with pytest.raises(DimError, match="dim 0 differs"):
        st.reassemble([tiles(n, 4), tiles(n, 5)], flags(4))
    with pytest.raises(DTypeError, match=r"in1 carries Tile\[1x8 bf16\]"):
        st.reassemble([tiles(n), tiles(n, cols=8)], flags(4))
    with pytest.raises(ArgError, match="3 inputs but the selector is 2 wide"):
        st.reassemble([tiles(n)] * 3, flags(4))
    with pytest.raises(DTypeError, match="selector must carry selectors"):
        st.reassemble([tiles(n)] * 2, numbers(4))


# eager merge


def test_eager_merge_adds_the_outer_dims(program):
    n, m = program.dim("n"), program.dim("m")
    data, which = st.eager_merge([tiles(n, 4), tiles(m, 4)], rank=1)
    assert shape(data) == ["m + n", "4"]
    assert text(which) == "Stream[m + n] of MultiHot[2, hot=1]"


def test_partition_by_the_merge_selector_restores_the_inputs(program):
    n, m = program.dim("n"), program.dim("m")
    a, b = tiles(n, rows=program.dim("r")), tiles(m, rows=8)
    data, which = st.eager_merge([a, b])
    assert data.type.rows.is_ragged
    assert data.type.rows.span == n.expr + m.expr
    back = st.partition(data, which)
    assert [p.describe() for p in back] == [a.describe(), b.describe()]


def test_merged_tiles_are_bounded_by_the_largest(program):
    r, s = program.dim("r"), program.dim("s")
    data, _ = st.eager_merge([tiles(1, rows=r), tiles(1, rows=7), tiles(1, rows=s)])
    bound = data.type.rows.bound
    assert [bound.xreplace({r.expr: a, s.expr: b}) for a, b in ((5, 9), (5, 6), (8, 0))] == [
        9,
        7,
        8,
    ]
    assert str(bound) == "Max(7, r, s)"


def test_merged_padding_comes_back(program):
    route = st.routing(st.spec(8, 1), experts=2)
    rows = st.partition(tiles(8), route.multihot())
    blocks = [x.reshape(4, pad=0).accum(fn.pack_rows, 1) for x in rows]
    data, which = st.eager_merge(blocks)
    split = st.partition(data, which)
    unpacked = [x.flat_map(fn.unpack_rows(drop_padding=True)) for x in split]
    assert [shape(x) for x in unpacked] == [["n0"], ["n1"]]
    unknown = st.partition(data, flags(data.shape[0]))[0].flat_map(fn.unpack_rows(True))
    assert shape(unknown) == ["v"]


def test_ragged_inner_dims_of_a_merge_have_parts(program):
    a, b = program.ragged("a"), program.ragged("b")
    data, which = st.eager_merge([tiles(2, a), tiles(3, b)])
    assert data.shape[0] == 5
    assert data.shape[1].total == a.total + b.total
    assert [p.shape[1] for p in st.partition(data, which)] == [a, b]


def test_only_the_selector_of_a_merge_restores_its_inputs(program):
    """Another selector of the same width mixes the inputs."""
    a, b = program.ragged("a"), program.ragged("b")
    data, _ = st.eager_merge([tiles(2, a, rows=2), tiles(3, b, rows=3)])
    mixed = st.partition(data, flags(5))
    assert not {p.shape[1] for p in mixed} & {a, b, data.shape[1]}
    assert all(p.type.rows.is_ragged and p.type.rows.bound == data.type.rows.bound for p in mixed)
    assert len({data.type.rows, *(p.type.rows for p in mixed)}) == 3
    distributed = st.parallelize(data.flatten(0, 1).reshape(1, pad=0), 2)
    assert not {p.shape[0] for p in distributed} & {a, b}


def test_eager_merge_refusals(program):
    n = program.dim("n")
    with pytest.raises(RankError, match="expected 0"):
        st.eager_merge([tiles(n), tiles(n, 4)])
    with pytest.raises(DTypeError, match=r"in0 carries Tile.* in1 carries MultiHot"):
        st.eager_merge([tiles(n), flags(n)])
    with pytest.raises(DTypeError, match="one element type"):
        st.eager_merge([tiles(n), tiles(n, dtype="f32")])
    with pytest.raises(ArgError, match="no input streams"):
        st.eager_merge([])


# parallelize


def test_parallelize(program):
    made = st.parallelize(tiles(8, 3), 4)
    assert [m.shape for m in made] == [(2, 3)] * 4
    assert made[0].producer.unit_params({}) == {"rank": 1, "switch": [1] * 4}
    n = program.dim("n")
    distributed = st.parallelize(tiles(n), 4)
    totals = [int(d.shape[0].expr.subs(n.expr, 10)) for d in distributed]
    assert totals == [3, 3, 2, 2]
    assert [int(d.shape[0].expr.subs(n.expr, 1)) for d in distributed] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("subtensors", "counts"),
    [(8, [3, 3, 2]), (3, [1, 1, 1]), (2, [1, 1, 0]), (1, [1, 0, 0])],
)
def test_parallelize_deals_what_does_not_divide(subtensors, counts):
    made = st.parallelize(tiles(subtensors, 5), 3)
    assert [m.shape for m in made] == [(count, 5) for count in counts]


def test_parallelize_refusals():
    with pytest.raises(RankError, match="rank 0 does not fit"):
        st.parallelize(tiles(8, 2), 2, rank=0)
    with pytest.raises(ArgError, match="n must be an int from 1"):
        st.parallelize(tiles(8), 0)


# routing tables


def test_routing_encodings():
    table = np.array([[2, 0], [1, 2]])
    route = st.routing(table, experts=3)
    assert text(route.multihot()) == "Stream[2] of MultiHot[3, hot=2]"
    assert text(route.onehot()) == "Stream[2, 2] of MultiHot[3, hot=1]"
    assert route.multihot().producer.unit_params({route: table}) == {
        "selectors": [[0, 2], [1, 2]], "width": 3, "levels": [0, 0],
    }  # fmt: skip
    assert route.onehot().producer.unit_params({route: table}) == {
        "selectors": [[2], [0], [1], [2]], "width": 3, "levels": [0, 1, 0, 1],
    }  # fmt: skip
    assert route.counts_of(table) == [1, 1, 2]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0, 3]], "slot 1 names expert 3; experts are 0..2"),
        ([[0, -1]], "names expert -1"),
        ([[1, 1]], "names an expert twice"),
        ([[0.5, 1.0]], "must be integers"),
        ([0, 1], "expected \\[rows, k\\]"),
        ([[0, 1, 2, 0]], "1 <= k <= 3"),
    ],
)
def test_bad_routing_tables(table, message):
    with pytest.raises(ArgError, match=message):
        st.routing(table, experts=3)


def test_routings_need_their_program(program):
    route = st.routing(st.spec(4, 1), experts=2)
    program.__exit__(KeyboardInterrupt)
    try:
        with scratch(), pytest.raises(GraphError, match="belongs to program 'scratch'"):
            route.multihot()
        with pytest.raises(GraphError, match="no program is active"):
            st.routing(st.spec(4, 1), experts=2)
    finally:
        program.__enter__()


def test_second_routing_has_its_own_names():
    first, second = (st.routing(st.spec(4, 1), experts=2) for _ in range(2))
    assert str(first.count[0]) == "n0"
    assert str(second.count[0]) == "n1_0"


# other sources and sinks


def test_metadata():
    made = st.metadata([[3, 4], [5, 6]])
    assert text(made) == "Stream[2, 2] of Tile[1x1 u64]"
    assert made.producer.unit_params({}) == {"values": [3, 4, 5, 6], "dims": [2, 2], "lead": False}
    with pytest.raises(ArgError, match=r"value -4 at index \[0, 1\] is not in 0\.\.2\*\*63-1"):
        st.metadata([[3, -4]])
    with pytest.raises(DTypeError, match="must be integers"):
        st.metadata([0.5])


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (np.array([7, 2**63 + 5], np.uint64), r"value 9223372036854775813 at index \[1\]"),
        ([[1, 2], [3, 2**70]], r"value 1180591620717411303424 at index \[1, 1\]"),
        ([10**5000], r"a number of 16610 bits at index \[0\]"),
        ([2**63, -1], r"value 9223372036854775808 at index \[0\]"),
    ],
)
def test_metadata_beyond_63_bits(values, found):
    with pytest.raises(ArgError, match=found):
        st.metadata(values)


def test_metadata_of_the_largest_value():
    made = st.metadata(np.array([2**63 - 1], np.uint64)).producer
    assert made.unit_params({})["values"] == [2**63 - 1]


@pytest.mark.parametrize("values", [[True], ["a"], [2**70, 1.5]])
def test_metadata_of_other_things(values):
    with pytest.raises(DTypeError, match="values must be integers, found"):
        st.metadata(values)


def test_metadata_of_uneven_lists():
    with pytest.raises(ArgError, match="inner lists differ in length"):
        st.metadata([[1], [2, 3]])


def test_selector_levels_leave_out_the_outermost_dim():
    cube = np.zeros((2, 2, 2, 3), int)
    cube[..., 0] = 1
    levels = st.selector(cube).producer.unit_params({})["levels"]
    assert levels == [0, 1, 0, 2, 0, 1, 0, 2]
    with pytest.raises(ArgError, match="flags must be 0 or 1"):
        st.selector([[0, 2]])
    with pytest.raises(ArgError, match="at least 2 dims"):
        st.selector([0, 1])


def test_explicit_broadcast():
    x = tiles(3)
    copies = st.broadcast(x, 3)
    assert [c.shape for c in copies] == [x.shape] * 3
    with pytest.raises(ArgError, match="count must be an int from 1"):
        st.broadcast(x, 0)
