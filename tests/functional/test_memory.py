"""Off-chip and on-chip memory on values: walks, addresses, stored tensors, buffers."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import EvaluationError
from stepsim.functional import evaluate
from stepsim.graph import fn
from tests.functional.support import run_both, text, tiles

A = np.arange(24, dtype=np.float32).reshape(4, 6)


def test_linear_walks_read_the_row_major_tile_grid():
    with st.Program() as p:
        plain = st.linear_load(A, (2, 3))
        columns = st.linear_load(A, (2, 3), shape=(2, 2), stride=(1, 2))
        again = st.linear_load(A, (2, 3), shape=(2, 2), stride=(0, 1))
        ref, _ = tiles((1, 2))
        repeated = st.linear_load(A, (4, 6), ref=ref)
        for x in (plain, columns, again, repeated):
            x.consume()
    result = run_both(p)
    corners = {
        x: [int(t.payload.data[0, 0]) for t in result.stream(x)] for x in (plain, columns, again)
    }
    assert corners == {plain: [0, 3, 12, 15], columns: [0, 12, 3, 15], again: [0, 3, 0, 3]}
    np.testing.assert_array_equal(result.stream(plain)[3].payload.data, A[2:, 3:])
    assert [t.level for t in result.stream(repeated)] == [2, 3]


def test_loads_with_leading_dims():
    deep = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    with st.Program() as p:
        x = st.linear_load(deep, (2, 1))
        picked = st.random_load(st.metadata([5, 0, 2]), deep, (2, 1))
        x.consume()
        picked.consume()
    result = run_both(p)
    seen = np.stack([t.payload.data for t in result.stream(x)])
    np.testing.assert_array_equal(seen, deep.swapaxes(1, 2).reshape(6, 2, 1))
    np.testing.assert_array_equal([t.payload.data for t in result.stream(picked)], seen[[5, 0, 2]])


@pytest.mark.parametrize("shape", [(4,), (2, 2), (1, 2, 2), (2, 1, 2)])
def test_linear_stores_assemble_tiles(shape):
    array = np.arange(4 * 6, dtype=np.float32)
    with st.Program() as p:
        x = st.linear_load(
            array.reshape(4, 6), (1, 6), shape=shape, stride=[2, 2, 1][-len(shape) :]
        )
        st.linear_store(x, "out")
    rows = array.reshape(4, 6) if len(shape) == 1 else None
    grid = [*shape[:-2], shape[-2] if len(shape) > 1 else 4, shape[-1] * 6 if rows is None else 6]
    result = run_both(p)
    walk = np.stack([t.payload.data[0] for t in result.stream(x)])
    np.testing.assert_array_equal(result.stored["out"], walk.reshape(grid))


def test_tiles_of_several_rows_are_stored_as_a_grid():
    with st.Program() as p:
        st.linear_store(st.linear_load(A, (2, 3)), "same")
        st.linear_store(st.linear_load(A, (2, 6)).flatten(0, 1), "rows")
    stored = run_both(p).stored
    np.testing.assert_array_equal(stored["same"], A)
    np.testing.assert_array_equal(stored["rows"], A)


def test_streams_without_a_rectangular_shape_are_stacked():
    with st.Program() as p:
        index, length = st.metadata([0, 1]), st.metadata([1, 3])
        rows = st.random_load(index.flat_map(fn.cache_read_addresses(1), length), A, (1, 6))
        st.linear_store(rows, "rows")
    np.testing.assert_array_equal(run_both(p).stored["rows"], A)


def test_an_empty_stream_stores_nothing():
    with st.Program() as p:
        x = st.linear_load(A, (1, 6)).flatten(0, 1)
        table = st.routing(np.zeros((4, 1), int), 2)
        kept, none = st.partition(x, table.multihot())
        st.linear_store(kept, "kept")
        st.linear_store(none.reshape(1), "none")
    stored = run_both(p).stored
    assert stored["none"].shape == (0, 6)
    np.testing.assert_array_equal(stored["kept"], A)


def store_program(addresses: list[int], **options) -> st.Program:
    with st.Program() as p:
        x, _ = tiles((len(addresses),), 1, 2)
        target = st.spec(4, 2, dtype="f32", name="target")
        st.random_store(st.metadata(addresses), x, target, label="put", **options).consume()
    return p


def test_a_target_beyond_the_memory_of_the_machine_is_named():
    with st.Program("far") as program:
        x, _ = tiles((1,), 1, 1)
        target = st.spec(2**44, 1, dtype="f32", name="far")
        st.random_store(st.metadata([1]), x, target, label="put").consume()
    with pytest.raises(EvaluationError, match=r"put#2: the values of .* take 70,368,744,177,664"):
        evaluate(program)


def test_random_stores_update_their_target():
    p = store_program([2, 0])
    np.testing.assert_array_equal(run_both(p).stored["target"], [[3, 4], [0, 0], [1, 2], [0, 0]])
    before = np.full((4, 2), 9.0, np.float32)
    stored = run_both(p, {"target": before}).stored["target"]
    np.testing.assert_array_equal(stored, [[3, 4], [9, 9], [1, 2], [9, 9]])
    assert (before == 9).all()


@pytest.mark.parametrize(("ack", "levels"), [("addr", [0, 1, 0, 1]), ("data", [0, 0, 0, 0])])
def test_acknowledges_have_the_levels_of_one_input(ack, levels):
    with st.Program() as p:
        x, _ = tiles((4,), 1, 2)
        target = st.spec(4, 2, dtype="f32", name="target")
        done = st.random_store(st.metadata([[0, 1], [2, 3]]), x, target, ack=ack)
        done.consume()
    assert [t.level for t in run_both(p).stream(done)] == levels


def test_the_last_tile_at_an_address_stays():
    stored = run_both(store_program([1, 1])).stored["target"]
    np.testing.assert_array_equal(stored[1], [3, 4])


def test_addresses_outside_of_the_tensor():
    with pytest.raises(EvaluationError, match=r"put#2: address 4 is outside"):
        evaluate(store_program([4]))
    with st.Program() as p:
        st.random_load(st.metadata([7]), A, (2, 6), label="get").consume()
    with pytest.raises(EvaluationError, match=r"address 7 is outside of .* 2 tiles of 2x6"):
        evaluate(p)


def test_two_stores_of_one_tile_depend_on_time():
    target = st.spec(4, 2, dtype="f32", name="target")
    with st.Program() as p:
        for _ in range(2):
            x, _ = tiles((2,), 1, 2)
            st.random_store(st.metadata([0, 1]), x, target).consume()
        y, _ = tiles((2,), 1, 2)
        other = st.random_store(st.metadata([1, 2]), y, target)
        other.consume()
    with pytest.raises(
        EvaluationError, match=r"tile 1 of target.* is also written by random_store"
    ):
        evaluate(p)


def test_loads_see_the_tensor_as_it_was():
    cache = st.spec(2, 2, dtype="f32", name="cache")
    with st.Program(compute_bw=1) as p:
        old = st.random_load(st.metadata([0, 1]), cache, (1, 2))
        new = st.map(fn.add, old, old)
        st.random_store(st.metadata([1, 0]), new, cache).consume()
    stored = run_both(p, {"cache": [[1, 2], [3, 4]]}).stored["cache"]
    np.testing.assert_array_equal(stored, [[6, 8], [2, 4]])


def test_tensors_are_found_by_operator_spec_name_and_label():
    one = np.ones((2, 2))
    with st.Program() as p:
        spec = st.spec(2, 2, dtype="f32")
        named = st.spec(2, 2, dtype="f32", name="named")
        loads = [
            st.linear_load(st.spec(2, 2, dtype="f32"), (2, 2)),
            st.linear_load(named, (2, 2)),
            st.linear_load(spec, (2, 2), label="labelled"),
        ]
        for i, x in enumerate(loads):
            st.linear_store(x, f"out{i}")
    given = {loads[0].producer: one, "named": 2 * one, "labelled": 3 * one}
    stored = run_both(p, given).stored
    assert [float(stored[f"out{i}"].mean()) for i in range(3)] == [1, 2, 3]
    stored = evaluate(p, {**given, named: 5 * one}).stored
    assert float(stored["out1"].mean()) == 5
    with pytest.raises(EvaluationError, match="matches 2 tensors of the program"):
        evaluate(p, {**given, spec: one})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"1 tensor has no values.*x\[2x2 f32\] of linear_load#0"),
        ({"y": np.ones((2, 2))}, "'y' names no tensor of the program. Known names are x"),
        ({"x": np.ones((2, 3))}, r"has shape \(2, 3\), expected \(2, 2\)"),
        ({"x": np.full((2, 2), "a")}, "expected real numbers"),
    ],
)
def test_tensors_that_do_not_fit(given, message):
    with st.Program() as p:
        st.linear_load(st.spec(2, 2, dtype="f32", name="x"), (2, 2)).consume()
    with pytest.raises(EvaluationError, match=f"(?s){message}"):
        evaluate(p, given)


def test_stores_of_one_name_are_distinguished():
    with st.Program() as p:
        first = st.linear_store(st.linear_load(A, (4, 6)), "out")
        second = st.linear_store(st.linear_load(2 * A, (4, 6)), "out")
        third = st.linear_store(st.linear_load(3 * A, (4, 6)))
    stored = evaluate(p).stored
    assert list(stored) == ["out", second.title(), third.title()]
    assert first.title() not in stored
    np.testing.assert_array_equal(stored[second.title()], 2 * A)


def test_buffers_are_read_again_and_again():
    with st.Program() as p:
        x, _ = tiles((2, 3))
        buffer = x.bufferize(1)
        once = buffer.streamify()
        twice = buffer.streamify(repeat=2)
        ref, _ = tiles((2, 2))
        by_ref = buffer.streamify(ref)
        for y in (once, twice, by_ref):
            y.consume()
    result = run_both(p)
    assert text(result, once) == "a b c S1 d e f S1"
    assert text(result, twice) == "a b c S1 a b c S2 d e f S1 d e f S2"
    assert text(result, by_ref) == "a b c S1 a b c S2 d e f S1 d e f S2"


@pytest.mark.parametrize("inner", [(2, 3), (1, 3), (3, 1), (1, 1)])
def test_buffers_of_two_dims_keep_unit_dims(inner):
    with st.Program() as p:
        x, _ = tiles((2, *inner))
        y = x.bufferize(2).streamify(repeat=2)
        y.consume()
    assert run_both(p).shape(y) == (2, 2, *inner)


def test_reads_that_no_unit_has():
    """Affine reads and nested repeats."""
    with st.Program() as p:
        x, _ = tiles((1, 2, 3))
        buffer = x.bufferize(2)
        turned = buffer.streamify(shape=(3, 2), stride=(1, 3))
        nested = buffer.streamify(repeat=(2, 2))
        turned.consume()
        nested.consume()
    result = evaluate(p)
    assert text(result, turned) == "a d S1 b e S1 c f S2"
    assert result.shape(nested) == (1, 2, 2, 2, 3)
    assert result.contradictions() == []


def test_a_ragged_outer_dim_in_a_buffer():
    with st.Program() as p:
        index, length = st.metadata([0, 1]), st.metadata([1, 3])
        rows = st.random_load(index.flat_map(fn.cache_read_addresses(1), length), A, (1, 6))
        y = rows.bufferize(1).streamify(repeat=2)
        y.consume()
    result = run_both(p)
    assert result.shape(y) == (2, 2, (1, 1, 3, 3))


def test_a_reference_of_one_buffer_for_all():
    with st.Program() as p:
        x, _ = tiles((2,))
        block, _ = tiles((1, 2))
        y = block.bufferize(1).streamify(x)
        y.consume()
    assert text(run_both(p), y) == "a b S1 a b S1"
