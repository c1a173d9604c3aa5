"""Map, accum, map-accum, scan and flat_map on values, padding and scalar types included."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import EvaluationError
from stepsim.functional import Decisions, evaluate
from stepsim.graph import fn
from stepsim.graph.sizes.limits import MAX_LENGTH
from stepsim.simulation import simulate
from tests.functional.support import run_both, tiles

rng = np.random.default_rng(7)


def matrix(rows: int, cols: int) -> np.ndarray:
    return rng.normal(size=(rows, cols)).astype(np.float32)


def data(result, stream, index: int = 0) -> np.ndarray:
    return result.stream(stream)[index].payload.data


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (fn.silu, lambda x: x / (1 + np.exp(-x))),
        (fn.exp, np.exp),
        (fn.row_sum, lambda x: x.sum(1, keepdims=True)),
    ],
)
def test_unary_functions(function, expected):
    a = matrix(3, 5)
    with st.Program(compute_bw=8) as p:
        y = st.map(function, st.linear_load(a, (3, 5)))
        y.consume()
    np.testing.assert_allclose(data(run_both(p), y), expected(a), rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "left", "right", "expected"),
    [
        (fn.matmul, (3, 5), (5, 2), lambda a, b: a @ b),
        (fn.matmul_t, (3, 5), (2, 5), lambda a, b: a @ b.T),
        (fn.mul, (3, 5), (3, 5), lambda a, b: a * b),
        (fn.mul, (1, 1), (3, 5), lambda a, b: a * b),
        (fn.add, (3, 1), (3, 5), lambda a, b: a + b),
        (fn.div, (3, 5), (3, 1), lambda a, b: a / b),
    ],
)
def test_binary_functions(function, left, right, expected):
    a, b = matrix(*left), matrix(*right)
    with st.Program(compute_bw=8) as p:
        y = st.map(function, st.linear_load(a, left), st.linear_load(b, right))
        y.consume()
    np.testing.assert_allclose(data(run_both(p), y), expected(a, b), rtol=1e-5)


def test_accum_and_scan_restart_after_every_chunk():
    with st.Program(compute_bw=8) as p:
        x, a = tiles((2, 3), 2, 2)
        total = x.accum(fn.add, 1)
        powers = x.accum(fn.mul, 1)
        running = x.scan(fn.add, 1)
        for y in (total, powers, running):
            y.consume()
    result = run_both(p)
    chunks = a.reshape(2, 3, 2, 2)
    for row in range(2):
        np.testing.assert_array_equal(data(result, total, row), chunks[row].sum(0))
        np.testing.assert_allclose(data(result, powers, row), chunks[row].prod(0))
        for step in range(3):
            seen = data(result, running, 3 * row + step)
            np.testing.assert_array_equal(seen, chunks[row][: step + 1].sum(0))


def test_packing_rows_and_columns():
    with st.Program(compute_bw=8) as p:
        x, a = tiles((3, 2), 1, 4)
        rows, cols = x.accum(fn.pack_rows, 1), x.accum(fn.pack_cols, 1)
        growing = x.scan(fn.pack_rows, 1)
        for y in (rows, cols, growing):
            y.consume()
    result = run_both(p)
    np.testing.assert_array_equal(data(result, rows, 1), a[2:4])
    np.testing.assert_array_equal(data(result, cols, 1), a[2:4].reshape(1, 8))
    assert [t.payload.rows for t in result.stream(growing)] == [1, 2] * 3


@pytest.mark.parametrize("count", [1, 2, 5])
def test_packing_tiles_of_unknown_width(count):
    """The state starts as 0x0 and takes the columns, or rows, of its first tile."""
    a = matrix(8, 3)
    table = [[0]] * count + [[1]] * (8 - count)
    with st.Program(compute_bw=8) as p:
        route = st.routing(table, experts=2)
        part, rest = st.partition(st.linear_load(a, (1, 3)).flatten(0, 1), route.multihot())
        rest.consume()
        block = part.promote().accum(fn.pack_rows, 1)  # [1] of Tile[n x 3]
        wide = part.promote().accum(fn.pack_cols, 1)  # [1] of Tile[1 x 3n]
        below = wide.repeat(4).accum(fn.pack_rows, 1)
        beside = block.repeat(4).accum(fn.pack_cols, 1)
        below.consume()
        beside.consume()
    n = route.count[0]
    assert [str(side) for side in (below.type.rows, below.type.cols)] == ["4", f"3*{n}"]
    assert [str(side) for side in (beside.type.rows, beside.type.cols)] == [str(n), "12"]
    assert below.producer.unit_params({})["init"] == [[0, 0, 4]]
    result = run_both(p)
    np.testing.assert_array_equal(data(result, below), np.tile(a[:count].reshape(1, -1), (4, 1)))
    np.testing.assert_array_equal(data(result, beside), np.tile(a[:count], (1, 4)))
    assert simulate(p).status == "ok"


def test_packs_of_unknown_width_refuse_a_second_width():
    a = matrix(6, 3)
    with st.Program(compute_bw=8) as p:
        route = st.routing([[0]] * 2 + [[1]] * 4, experts=2)
        parts = st.partition(st.linear_load(a, (1, 3)).flatten(0, 1), route.multihot())
        merged, which = st.eager_merge([x.promote().accum(fn.pack_cols, 1) for x in parts])
        which.consume()
        merged.promote().accum(fn.pack_rows, 1).consume()
    assert simulate(p).status == "failed"
    with pytest.raises(EvaluationError, match="do not fit pack_rows: a n; b n"):
        evaluate(p, decisions=Decisions({merged.producer.id: (0, 1)}))


@pytest.mark.parametrize("function", [fn.matmul, fn.matmul_t])
@pytest.mark.parametrize("init", [None, fn.empty((0, 3))])
def test_map_accum(function, init):
    a, b = matrix(4, 6), matrix(3, 6)
    right = b if function is fn.matmul_t else np.ascontiguousarray(b.T)
    with st.Program(compute_bw=8) as p:
        x = st.linear_load(a, (4, 2), shape=(1, 3), stride=(0, 1))
        tile = (3, 2) if function is fn.matmul_t else (2, 3)
        w = st.linear_load(right, tile, shape=(1, 3), stride=(0, 1))
        y = st.map_accum(function, x, w, 1, init)
        y.consume()
    np.testing.assert_allclose(data(run_both(p), y), a @ b.T, rtol=1e-5)


def test_signal_is_one():
    with st.Program(compute_bw=8) as p:
        x, _ = tiles((2, 2))
        y = x.accum(fn.signal, 1)
        y.consume()
    result = run_both(p)
    assert [t.payload.value for t in result.stream(y)] == [1, 1]


@pytest.mark.parametrize(("dtype", "kind"), [("bf16", ml_dtypes.bfloat16), ("f16", np.float16)])
def test_narrow_scalars_are_rounded_after_every_operator(dtype, kind):
    a = matrix(2, 2)
    with st.Program(compute_bw=8) as p:
        x = st.linear_load(st.spec(2, 2, dtype=dtype, name="x"), (2, 2))
        y = st.map(fn.exp, st.map(fn.exp, x))
        st.linear_store(y, "y")
    narrow = np.exp(np.exp(a.astype(kind).astype(np.float32)).astype(kind).astype(np.float32))
    stored = run_both(p, {"x": a}).stored["y"]
    assert stored.dtype == kind
    np.testing.assert_array_equal(stored, narrow.astype(kind))
    wide = run_both(p, {"x": a}, scalar="f32").stored["y"]
    assert wide.dtype == np.float32
    np.testing.assert_allclose(wide, np.exp(np.exp(a)), rtol=1e-6)


def test_sums_are_rounded_once():
    """256 + 1 is 256 in bf16; a sum kept in float32 does not lose the ones."""
    column = np.array([[256.0], [1], [1], [1], [1]])
    with st.Program(compute_bw=8) as p:
        x = st.linear_load(st.spec(5, 1, name="x"), (1, 1), shape=(1, 5), stride=(0, 1))
        st.linear_store(x.accum(fn.add, 1), "sum")
    assert float(evaluate(p, {"x": column}).stored["sum"][0, 0]) == 260.0


@pytest.mark.parametrize("reduce", ["accum", "scan"])
def test_sums_are_rounded_when_they_leave(reduce):
    with st.Program(compute_bw=8) as p:
        x = st.linear_load(st.spec(2, 1, name="x"), (1, 1), shape=(1, 2), stride=(0, 1))
        y = x.accum(fn.add, 1) if reduce == "accum" else x.scan(fn.add, 1)
        y.consume()
    sums = [t.payload.data[0, 0] for t in evaluate(p, {"x": [[256.0], [1]]}).stream(y)]
    assert sums[-1] == 256.0  # 257 has no bf16


def padded_tiles(valid: int, rows: int, cols: int) -> tuple[st.Stream, np.ndarray]:
    """One tile whose rows beyond ``valid`` are padding that holds other numbers."""
    a = matrix(rows, cols)
    return st.map(fn.set_offset, st.linear_load(a, (rows, cols)), st.metadata([[valid]])), a


def test_padding_rows_contribute_nothing_to_reductions():
    q = matrix(2, 4)
    with st.Program(compute_bw=8) as p:
        keys, k = padded_tiles(3, 5, 4)
        values, v = padded_tiles(3, 5, 4)
        query = st.linear_load(q, (2, 4))
        weights = st.map(fn.exp, st.map(fn.matmul_t, query, keys))
        norm = st.map(fn.row_sum, weights)
        out = st.map(fn.div, st.map_accum(fn.matmul, weights, values, 1), norm.flatten(0, 1))
        total = keys.accum(fn.add, 1)
        factor = keys.accum(fn.mul, 1)
        for y in (out, total, factor):
            y.consume()
    result = run_both(p)
    w = np.exp(q @ k[:3].T)
    np.testing.assert_allclose(data(result, out), w @ v[:3] / w.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(data(result, weights)[:, 3:], 0)
    np.testing.assert_array_equal(data(result, total), np.vstack([k[:3], np.zeros((2, 4))]))
    np.testing.assert_array_equal(data(result, factor), np.vstack([k[:3], np.ones((2, 4))]))


def test_padding_of_two_operands():
    """Elementwise: the larger number of valid rows, the smaller number of columns."""
    q = matrix(2, 5)
    with st.Program(compute_bw=8) as p:
        few, a = padded_tiles(2, 5, 5)
        many, b = padded_tiles(4, 5, 5)
        both = st.map(fn.mul, few, many)
        query = st.linear_load(q, (2, 5), shape=(1, 1), stride=(0, 1))
        narrow = st.map(fn.add, query, st.map(fn.matmul_t, query, few))
        product = st.map(fn.matmul, query, few)
        for y in (both, narrow, product):
            y.consume()
    result = run_both(p)
    assert result.stream(both)[0].payload.valid == 4
    np.testing.assert_array_equal(data(result, both), a * b)
    expected = np.hstack([q[:, :2] + q @ a[:2].T, np.zeros((2, 3))])
    np.testing.assert_allclose(data(result, narrow), expected, rtol=1e-5)
    np.testing.assert_allclose(data(result, product), q[:, :2] @ a[:2], rtol=1e-5)


def test_append_row_fills_the_first_padding_row():
    row = matrix(1, 4)
    with st.Program(compute_bw=8) as p:
        x, a = padded_tiles(2, 4, 4)
        y = st.map(fn.append_row, x, st.linear_load(row, (1, 4)))
        y.consume()
    before = a.copy()
    result = run_both(p)
    np.testing.assert_array_equal(a, before)
    np.testing.assert_array_equal(data(result, y), np.vstack([a[:2], row, a[3:]]))
    assert result.stream(y)[0].payload.valid == 3


@pytest.mark.parametrize(
    ("valid", "message"), [(4, "no room for another row: 4 of 4"), (5, "5 valid rows do not fit")]
)
def test_full_tiles_take_no_row(valid, message):
    with st.Program(compute_bw=8) as p:
        x, _ = padded_tiles(valid, 4, 4)
        st.map(fn.append_row, x, st.linear_load(matrix(1, 4), (1, 4))).consume()
    with pytest.raises(EvaluationError, match=message):
        evaluate(p)


def test_unpacking_drops_padding_rows_and_cuts_columns():
    with st.Program(compute_bw=8) as p:
        x, a = padded_tiles(2, 4, 3)
        valid, every = (x.flat_map(fn.unpack_rows(drop)) for drop in (True, False))
        cols = x.flat_map(fn.unpack_cols())
        for y in (valid, every, cols):
            y.consume()
    result = run_both(p)
    rows = [t.payload.data for t in result.stream(valid)]
    np.testing.assert_array_equal(np.vstack(rows), a[:2])
    assert [t.payload.valid for t in result.stream(every)] == [1, 1, 0, 0]
    assert [t.level for t in result.stream(every)] == [0, 0, 0, 1]
    assert [t.payload.data.shape for t in result.stream(cols)] == [(1, 4)] * 3
    assert str(cols.type) == "Tile[1x4 f32]"
    np.testing.assert_array_equal(np.vstack([t.payload.data for t in result.stream(cols)]), a.T)


def test_a_tile_without_valid_rows_is_not_dropped():
    """As in the timing model: its stop token could not be carried otherwise."""
    with st.Program(compute_bw=8) as p:
        x, _ = padded_tiles(0, 3, 2)
        y = x.flat_map(fn.unpack_rows(drop_padding=True))
        y.consume()
    assert len(run_both(p).stream(y)) == 3


def test_address_generators():
    with st.Program(compute_bw=8) as p:
        expert = st.selector(np.array([[0, 0, 1], [1, 0, 0]])).flat_map(fn.expert_addresses(2, 5))
        index, length = st.metadata([[1, 0]]), st.metadata([[2, 3]])
        reads = index.flat_map(fn.cache_read_addresses(10), length)
        last = length.flat_map(fn.last_tile_filter())
        write = st.map(fn.cache_write_address(10), index, length, compute_bw=0)
        for y in (expert, reads, last, write):
            y.consume()
    result = run_both(p)
    assert [(t.payload.value, t.level) for t in result.stream(expert)] == [
        (9, 1), (10, 2), (5, 1), (6, 2)
    ]  # fmt: skip
    assert [(t.payload.value, t.level) for t in result.stream(reads)] == [
        (10, 0), (11, 1), (0, 0), (1, 0), (2, 2)
    ]  # fmt: skip
    assert [(t.payload.indices, t.level) for t in result.stream(last)] == [
        ((1,), 0), ((0,), 1), ((1,), 0), ((1,), 0), ((0,), 2)
    ]  # fmt: skip
    assert [t.payload.value for t in result.stream(write)] == [11, 2]  # the last tile read


def test_a_length_of_zero_is_an_error():
    with st.Program() as p:
        st.metadata([2, 0]).flat_map(fn.last_tile_filter()).consume()
    with pytest.raises(EvaluationError, match="a length of 0 makes an empty inner dim"):
        evaluate(p)


@pytest.mark.parametrize(
    ("index", "length", "message"),
    [
        (0, 0, "a request of length 0 has no last tile"),
        (2**61, 1, r"the tiles of request \d+, of 4 tiles each, pass tile 2\*\*63 - 1"),
        (2**61 - 1, 5, r"the tiles of request \d+, of 4 tiles each, pass tile 2\*\*63 - 1"),
    ],
)
def test_an_address_that_no_tile_has_fails_in_timing_and_values(index, length, message):
    with st.Program(compute_bw=8) as p:
        a, b = st.metadata([1, index]), st.metadata([1, length])
        st.map(fn.cache_write_address(4), a, b).consume()
    with pytest.raises(EvaluationError, match=message):
        evaluate(p)
    result = simulate(p)
    assert result.status == "failed"
    assert re.search(message, str(result.diagnosis))


@pytest.mark.parametrize(("index", "length"), [(2**61, 1), (2**61 - 1, 5)])
def test_addresses_to_read_end_where_numbers_do(index, length):
    message = r"the tiles of request \d+, of 4 tiles each, pass tile 2\*\*63 - 1"
    with st.Program(compute_bw=8) as p:
        st.metadata([index]).flat_map(fn.cache_read_addresses(4), st.metadata([length])).consume()
    with pytest.raises(EvaluationError, match=message):
        evaluate(p)
    result = simulate(p)
    assert result.status == "failed"
    assert re.search(message, str(result.diagnosis))


def test_the_largest_address_is_the_same_in_timing_and_values():
    with st.Program(compute_bw=8) as p:
        last = st.map(fn.cache_write_address(4), st.metadata([2**61 - 1]), st.metadata([3]))
        kept = st.map(fn.set_offset, last, st.metadata([1]))
        # A length of 2**63 - 2 and index 0 fit once more; a lost number would be refused.
        st.map(fn.cache_write_address(1), st.metadata([0]), kept).consume()
    run_both(p)


def halves(tile: np.ndarray, valid: int) -> list[np.ndarray]:
    return [half[i : i + 1] for i in range(len(tile)) for half in np.hsplit(tile, 2)]


@pytest.mark.parametrize("kernel", [None, halves])
def test_a_general_stream_function_brings_its_kernel_or_cuts_row_major(kernel):
    cut = fn.emit(["rows", 2], (1, 2), kernel=kernel)
    with st.Program() as p:
        x, a = tiles((2, 2), 2, 4)
        y = x.flat_map(cut)
        y.consume()
    result = run_both(p)
    assert [t.level for t in result.stream(y)] == [0, 1, 0, 1, 0, 1, 0, 2] * 2
    pieces = np.vstack([t.payload.data for t in result.stream(y)])
    np.testing.assert_array_equal(pieces, a.reshape(-1, 2))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (None, "2 pieces of 1x3 do not make up Tile.*. Pass kernel= to fn.emit"),
        (lambda tile, valid: [tile[:1]], "made 1 pieces of sizes .*expected 2 of"),
        (lambda tile, valid: None, r"raised TypeError \(.*It returns a list of arrays"),
        (lambda tile, valid: tile[9], r"the kernel of emit.* raised IndexError \(.*for Tile\("),
    ],
)
def test_kernels_that_do_not_fit(kernel, message):
    with st.Program() as p:
        x, _ = tiles((2,), 2, 4)
        x.flat_map(fn.emit(["rows"], (1, 3), kernel=kernel)).consume()
    with pytest.raises(EvaluationError, match=message):
        evaluate(p)


@pytest.mark.parametrize("dims", [["length"], [2, "length"], ["length", 2]])
def test_no_pieces_at_all_are_an_error_in_timing_and_values(dims):
    with st.Program() as p:
        x, _ = tiles((2,), 1, 2)
        cut = fn.emit(dims, kernel=lambda tile, valid, length: [tile] * (len(dims) * length))
        x.flat_map(cut, st.metadata([1, 0])).consume()
    with pytest.raises(EvaluationError, match=r"emit#\d+: emit.* makes an empty inner dim"):
        evaluate(p)
    result = simulate(p)
    assert result.status == "failed"
    assert "empty inner dim" in str(result.diagnosis)


@pytest.mark.parametrize("length", [MAX_LENGTH + 1, 2**40])
def test_more_pieces_than_can_be_counted_are_an_error_in_timing_and_values(length):
    message = f"of {length} asks for more than 1048576 pieces along one dim"
    with st.Program() as p:
        x, _ = tiles((1,), 1, 2)
        cut = fn.emit(["length"], kernel=lambda tile, valid, length: [tile] * length)
        x.flat_map(cut, st.metadata([length])).consume()
    with pytest.raises(EvaluationError, match=message):
        evaluate(p)
    assert message in str(simulate(p).diagnosis)


def test_a_function_of_the_users_own_brings_its_values():
    twice = st.function("twice", "same", values=lambda x: 2 * x)
    with st.Program(compute_bw=8) as p:
        x, a = tiles((1,), 2, 2)
        y = st.map(twice, x)
        bare = st.map(st.function("bare", "same"), x)
        y.consume()
        bare.consume()
    with pytest.raises(EvaluationError, match="function bare has no values"):
        evaluate(p)
    with st.Program(compute_bw=8) as p:
        x, a = tiles((1,), 2, 2)
        y = st.map(twice, x)
        y.consume()
    np.testing.assert_array_equal(data(run_both(p), y), 2 * a)
