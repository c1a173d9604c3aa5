"""Values of scans in all forms, row statistics and accumulations in buffers, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError
from stepsim.graph import Program, fn
from tests.functional.support import run_both, tiles

RNG = np.random.default_rng(0)


def _loaded(dims: tuple[int, ...], rows: int, cols: int) -> tuple[st.Stream, Any]:
    """A stream of random tiles, and the tiles as an array [..., rows, cols]."""
    array = RNG.normal(size=(*dims, rows, cols)).astype(np.float32)
    whole = array.reshape(-1, cols)
    steps = [int(np.prod(dims[i + 1 :])) for i in range(len(dims))]
    return st.linear_load(whole, (rows, cols), shape=dims, stride=steps), array


def _found(result: Any, stream: st.Stream, part: int | None = None) -> Any:
    tokens = result.stream(stream)
    return np.array([(t.payload if part is None else t.payload[part]).data for t in tokens])


def test_exclusive_scan_shows_the_state_before_an_element() -> None:
    with Program("p", compute_bw=4) as p:
        x, array = _loaded((2, 3), 2, 4)
        y = x.scan(fn.add, 1, exclusive=True)
        y.consume()
    sums = np.cumsum(array, axis=1) - array
    np.testing.assert_allclose(_found(run_both(p), y), sums.reshape(6, 2, 4), atol=1e-6)
    assert y.shape == x.shape


def test_two_taps_show_the_state_after_and_before() -> None:
    with Program("p", compute_bw=4) as p:
        x, array = _loaded((2, 3), 2, 4)
        after, before = x.scan(fn.max, 1, taps=2, write_back=True)
        after.consume()
        before.consume()
    result = run_both(p)
    running = np.maximum.accumulate(array, axis=1)
    np.testing.assert_array_equal(_found(result, after), running.reshape(6, 2, 4))
    first = np.full((2, 1, 2, 4), -np.inf)
    prior = np.concatenate([first, running[:, :-1]], axis=1)
    np.testing.assert_array_equal(_found(result, before), prior.reshape(6, 2, 4))


@pytest.mark.parametrize("exclusive", [False, True])
def test_second_stream_meets_what_is_shown(exclusive: bool) -> None:
    with Program("p", compute_bw=4) as p:
        x, array = _loaded((2, 3), 2, 4)
        y, other = _loaded((2, 3), 2, 4)
        made = x.scan(fn.add, 1, exclusive=exclusive, second=y, then=fn.sub)
        made.consume()
    sums = np.cumsum(array, axis=1) - (array if exclusive else 0)
    np.testing.assert_allclose(
        _found(run_both(p), made), (other - sums).reshape(6, 2, 4), atol=1e-6
    )


def test_states_of_two_tiles_reach_the_second_function() -> None:
    both = st.function(
        "both", "m n, m 1; m n -> m n, m 1", lambda m, n: 2 * m * n,
        values=lambda a, b, x: (a + x, b + x.sum(axis=1, keepdims=True)),
    )  # fmt: skip
    scaled = st.function(
        "scaled", "m n, m n, m 1 -> m n", lambda m, n: 2 * m * n, values=lambda y, a, b: y * a + b
    )
    start = (fn.zero((2, 4)), fn.zero((2, 1)))
    with Program("p", compute_bw=4) as p:
        x, array = _loaded((2, 3), 2, 4)
        y, other = _loaded((2, 3), 2, 4)
        made = x.scan(both, 1, start, second=y, then=scaled)
        prior = x.scan(both, 1, start, exclusive=True)
        made.consume()
        prior.consume()
    result = run_both(p)
    a, b = np.cumsum(array, axis=1), np.cumsum(array.sum(axis=3, keepdims=True), axis=1)
    np.testing.assert_allclose(_found(result, made), (other * a + b).reshape(6, 2, 4), atol=1e-5)
    before = (a - array).reshape(6, 2, 4)
    np.testing.assert_allclose(_found(result, prior, 0), before, atol=1e-5)
    assert p.metrics().flops == 6 * (16 + 16) + 6 * 16


def test_counts_say_how_long_groups_are() -> None:
    with Program("p", compute_bw=4) as p:
        lengths = st.metadata([2, 1, 3])
        rows = np.arange(12, dtype=np.float32).reshape(6, 2)
        first = st.metadata([0, 1, 1])
        x = st.random_load(first.flat_map(fn.cache_read_addresses(2), lengths), rows, (1, 2))
        y = x.scan(fn.add, 1, counts=lengths)
        y.consume()
    addresses = [[0, 1], [2], [2, 3, 4]]
    wanted = np.concatenate([np.cumsum(rows[a], axis=0) for a in addresses])
    np.testing.assert_allclose(_found(run_both(p), y)[:, 0], wanted)


def test_wrong_count_fails_in_both() -> None:
    with Program("p", compute_bw=4) as p:
        x, _ = tiles((2, 2), 1, 1)
        x.scan(fn.add, 1, counts=st.metadata([2, 3])).consume()
    assert run_both(p) is None


@pytest.mark.parametrize("count", [None, 24, 20])
@pytest.mark.parametrize("rows", [1, 4])
def test_row_statistics(rows: int, count: int | None) -> None:
    with Program("p", compute_bw=4) as p:
        x, array = _loaded((2, 3), rows, 8)
        mean, var = x.row_stat("mean", 1, count), x.row_stat("var", 1, count, write_back=True)
        mean.consume()
        var.consume()
    result = run_both(p)
    flat = array.transpose(0, 2, 1, 3).reshape(2, rows, 24).astype(np.float64)
    n = count or 24
    sums = flat.sum(axis=2, keepdims=True) / n
    squares = (flat**2).sum(axis=2, keepdims=True) / n - sums**2
    np.testing.assert_allclose(_found(result, mean), sums, atol=1e-6)
    np.testing.assert_allclose(_found(result, var), squares, atol=1e-5)
    assert p.metrics().flops == 4 * 6 * rows * 8 + 2 * 5 * rows


def test_row_statistics_leave_out_padding() -> None:
    with Program("p", compute_bw=4) as p:
        array = RNG.normal(size=(5, 4)).astype(np.float32)
        x = st.map(fn.set_offset, st.linear_load(array, (5, 4)), st.metadata([[3]]))
        made = [
            y.row_stat(stat, 1) for stat in ("mean", "var") for y in (x, st.map(fn.transpose, x))
        ]
        for y in made:
            y.consume()
    result = run_both(p)
    wanted = [array.mean(axis=1), array[:3].mean(axis=0), array.var(axis=1), array[:3].var(axis=0)]
    valid = []
    for y, numbers in zip(made, wanted, strict=True):
        tile = result.stream(y)[0].payload
        valid.append(tile.valid)
        np.testing.assert_allclose(tile.data[: tile.valid, 0], numbers[: tile.valid], atol=1e-6)
    assert valid == [3, 4, 3, 4]


@pytest.mark.parametrize("kept", [1, 2])
def test_buffers_sum_the_dims_around_them(kept: int) -> None:
    with Program("p", compute_bw=4) as p:
        x, array = _loaded((2, 3, 2, 4), 2, 2)
        sums = x.accum_buffer(fn.add, 3, kept)
        y = sums.streamify()
        y.consume()
    summed = array.sum(axis=1) if kept == 2 else array.sum(axis=(1, 2))
    np.testing.assert_allclose(_found(run_both(p), y), summed.reshape(-1, 2, 2), atol=1e-5)
    assert p.metrics().flops == 48 * 4


def test_buffers_start_empty_or_from_a_state() -> None:
    with Program("p", compute_bw=4) as p:
        x, array = _loaded((2, 3), 2, 2)
        top = x.promote().accum_buffer(fn.max, 2, init=fn.neg_infinity((2, 2)))
        own = x.promote().accum_buffer(fn.add, 2, init=fn.empty((0, 0)), write_back=True)
        ends = top.streamify(), own.streamify()
        for y in ends:
            y.consume()
    result = run_both(p)
    np.testing.assert_array_equal(_found(result, ends[0]), array.max(axis=0))
    np.testing.assert_allclose(_found(result, ends[1]), array.sum(axis=0), atol=1e-6)


def test_empty_streams_make_empty_streams() -> None:
    with Program("p", compute_bw=4) as p:
        x, _ = tiles((2, 2), 2, 2)
        none, rest = st.partition(x, st.selector([[0, 1], [0, 1]]))
        rest.consume()
        made = [
            none.scan(fn.add, 1, exclusive=True), *none.scan(fn.add, 1, taps=2),
            none.scan(fn.add, 1, second=none, then=fn.mul), none.row_stat("var", 1),
            none.accum_buffer(fn.add, 1).streamify(),
        ]  # fmt: skip
        for y in made:
            y.consume()
    result = run_both(p)
    assert [result.stream(y) for y in made] == [[]] * len(made)


def test_row_statistics_hold_a_sum_or_two() -> None:
    held = []
    for stat in ("mean", "var"):
        with Program("statistic", compute_bw=8) as program:
            x = st.linear_load(st.spec(8, 16, dtype="f32"), tile=(4, 16))
            x.row_stat(stat, 1).consume()
        held.append(int(program.metrics().on_chip_memory))
    assert held[1] - held[0] == 4 * 4  # one more column of four f32


def test_the_second_function_of_a_scan_has_no_states() -> None:
    summing = st.function("summing", "m n; m n -> m n", lambda m, n: m * n, values=lambda a, b: a)
    with Program("scans", compute_bw=8) as program:
        x = st.linear_load(st.spec(8, 16, dtype="f32"), tile=(4, 16))
        with pytest.raises(ArgError, match="'summing' cannot be used in the second step of a scan"):
            x.scan(fn.add, 1, second=x, then=summing)
        x.consume()
    assert len(program.operators) == 2
