"""Affine reads of buffers, the forms of linear loads, counters: values against numpy.

``run_both`` compares every token with that of the timing run.
"""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import EvaluationError
from stepsim.functional import evaluate
from stepsim.graph import fn
from stepsim.machine import load_machine
from stepsim.simulation import simulate
from tests.functional.support import numbers, run_both, tiles

A = np.arange(24, dtype=np.float32).reshape(4, 6)


def firsts(result, stream) -> list[int]:
    """The first scalar of every tile."""
    return [int(token.payload.data[0, 0]) for token in result.stream(stream)]


def levels(result, stream) -> list[int]:
    return [token.level for token in result.stream(stream)]


def test_a_walk_reads_the_buffer_as_numpy_strides_do():
    with st.Program() as p:
        x, _ = tiles((2, 3, 4))
        y = x.bufferize(2).streamify(shape=(4, 3), stride=(1, 4))
        y.consume()
    result = run_both(p)
    whole = np.arange(1, 25).reshape(2, 3, 4)
    np.testing.assert_array_equal(firsts(result, y), whole.swapaxes(1, 2).ravel())
    assert result.shape(y) == (2, 4, 3)


def test_repeats_are_nested_around_linear_and_affine_reads():
    with st.Program() as p:
        buffers = tiles((2, 3))[0].bufferize(1)
        linear = buffers.streamify(repeat=[2, 2])
        walked = buffers.streamify(repeat=[2, 3], shape=(2,), stride=(2,))
        linear.consume()
        walked.consume()
    result = run_both(p)
    rows = np.arange(1, 7).reshape(2, 1, 1, 3)
    np.testing.assert_array_equal(firsts(result, linear), np.tile(rows, (1, 2, 2, 1)).ravel())
    assert levels(result, linear) == [0, 0, 1, 0, 0, 2, 0, 0, 1, 0, 0, 3] * 2
    expected = np.tile(rows[..., ::2], (1, 2, 3, 1))
    np.testing.assert_array_equal(firsts(result, walked), expected.ravel())
    assert result.shape(walked) == (2, 2, 3, 2)


def test_ragged_buffers_are_repeated_in_nests():
    with st.Program() as p:
        lengths = st.metadata([1, 3])
        rows = st.random_load(lengths.flat_map(fn.counter()), A, (1, 6))
        y = rows.bufferize(1).streamify(repeat=[2, 2])
        y.consume()
    result = run_both(p)
    assert firsts(result, y) == [0] * 4 + [0, 6, 12] * 4
    assert levels(result, y) == [1, 2, 1, 3, 0, 0, 1, 0, 0, 2, 0, 0, 1, 0, 0, 3]


def test_a_reference_reads_along_the_walk():
    with st.Program() as p:
        buffers = tiles((2, 2, 2))[0].bufferize(2)
        ref, _ = tiles((2, 2))
        y = buffers.streamify(ref, shape=(2,), stride=(2,))
        y.consume()
    result = run_both(p)
    assert numbers(result.stream(y)) == [
        (1, 0), (3, 1), (1, 0), (3, 2), (5, 0), (7, 1), (5, 0), (7, 2),
    ]  # fmt: skip


def test_a_reference_of_the_same_dims_reads_every_buffer_once():
    with st.Program() as p:
        buffers = tiles((3, 2))[0].bufferize(1)
        slow = tiles((3, 4))[0].accum(fn.pack_rows, 1)
        y = buffers.streamify(slow)
        y.consume()
    result = run_both(p)
    assert numbers(result.stream(y)) == [(1, 0), (2, 1), (3, 0), (4, 1), (5, 0), (6, 1)]


def test_transposed_loads_deliver_the_transposed_tile():
    with st.Program() as p:
        x = st.linear_load(A, (2, 3), transposed=True)
        ref, _ = tiles((2,))
        again = st.linear_load(A, (4, 3), ref=ref, transposed=True, bypass=True)
        st.linear_store(x, "out")
        again.consume()
    result = run_both(p)
    tiles_ = A.reshape(2, 2, 2, 3).swapaxes(1, 2)
    found = np.stack([t.payload.data for t in result.stream(x)]).reshape(2, 2, 3, 2)
    np.testing.assert_array_equal(found, tiles_.swapaxes(2, 3))
    halves = [t.payload.data for t in result.stream(again)]
    np.testing.assert_array_equal(halves, [A[:, :3].T, A[:, 3:].T] * 2)
    assert result.stored["out"].shape == (6, 4)


def test_the_trigger_rank_says_at_which_stops_the_walk_is_read():
    with st.Program() as p:
        ref, _ = tiles((2, 2, 3))
        made = [st.linear_load(A, (4, 6), ref=ref, trigger_rank=rank) for rank in range(3)]
        for x in made:
            x.consume()
    result = run_both(p)
    assert [result.shape(x) for x in made] == [(2, 2, 3, 1, 1), (2, 2, 1, 1), (2, 1, 1)]
    assert [levels(result, x) for x in made[1:]] == [[2, 3, 2, 3], [2, 2]]


def test_requests_of_a_transposed_load_are_those_of_the_stored_rows():
    """5 rows of one request each, 1 per cycle: the last is asked for at 5 and back 18 later."""
    times = {}
    for transposed in (False, True):
        with st.Program() as p:
            array = np.ones((5, 32), np.float16)
            st.linear_load(array, (5, 32), transposed=transposed).consume()
        run = simulate(p)
        times[transposed] = run.cycles
        assert (run.offchip_bytes, p.metrics().off_chip_traffic) == (320, 320)
    assert times == {False: 26, True: 26}


def test_a_load_that_bypasses_the_memory_moves_nothing_off_chip():
    with st.Program() as p:
        st.linear_load(A, (1, 6), bypass=True).consume()
    run = simulate(p)
    assert (run.offchip_bytes, p.metrics().off_chip_traffic) == (0, 0)
    # All four tiles are there at 1, and the sink takes one per cycle from there.
    assert run.cycles == simulate(p, fifo_depth=4).cycles == 5


def test_counters_count():
    with st.Program() as p:
        plain, ref = st.counter(4), tiles((1, 2))[0]
        again = st.counter(2, ref=ref)
        up = st.metadata([[2, 1]]).flat_map(fn.counter())
        for x in (plain, again, up):
            x.consume()
    result = run_both(p)
    assert numbers(result.stream(plain)) == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert numbers(result.stream(again)) == [(0, 0), (1, 1), (0, 0), (1, 2)]
    assert numbers(result.stream(up)) == [(0, 0), (1, 1), (0, 2)]


@pytest.mark.parametrize("by", ["selectors", "indices", "integers"])
def test_addresses_of_a_view_pick_the_rows_of_its_slab(by):
    data = np.arange(32, dtype=np.float32).reshape(16, 2)
    with st.Program() as p:
        if by == "selectors":
            chosen = st.routing([[2], [0]], experts=3).onehot().flatten(0, 1)
        elif by == "indices":
            chosen = st.selector([[0, 0, 1], [1, 0, 0]], as_indices=True)
        else:
            chosen = st.metadata([2, 0])
        view = chosen.flat_map(fn.view_addresses((2, 2), (3, 1), slab=4, base=1))
        rows = st.random_load(view, data, (1, 2))
        rows.consume()
    result = run_both(p)
    picked = [1 + 4 * e + place % 4 for e in (2, 0) for place in (0, 1, 3, 4)]
    assert firsts(result, view) == picked
    found = np.concatenate([t.payload.data for t in result.stream(rows)])
    np.testing.assert_array_equal(found, data[picked])
    assert result.shape(rows) == (2, 2, 2)


def test_lengths_of_zero_are_diagnosed():
    with st.Program() as p:
        st.metadata([2, 0]).flat_map(fn.counter()).consume()
    run = simulate(p)
    assert run.status == "failed"
    assert "a length of 0 makes an empty inner dim" in str(run.diagnosis)
    with pytest.raises(EvaluationError, match="a length of 0 makes an empty inner dim"):
        evaluate(p)


def test_slabs_beyond_all_addresses_are_diagnosed():
    with st.Program() as p:
        far = st.metadata([2**62])
        far.flat_map(fn.view_addresses((2,), (1,), slab=2, base=0)).consume()
    run = simulate(p)
    assert "pass tile 2**63 - 1" in str(run.diagnosis)
    with pytest.raises(EvaluationError, match="pass tile 2"):
        evaluate(p)


def everything() -> st.Program:
    """Every operator of this page once."""
    with st.Program("everything", compute_bw=4) as p:
        x, _ = tiles((2, 3, 4))
        b = x.bufferize(2)
        b.streamify(shape=(4, 3), stride=(1, 4)).consume()
        b.streamify(repeat=3).consume()
        b.streamify(repeat=[2, 2]).consume()
        st.linear_load(A, (2, 3), ref=x, trigger_rank=1, transposed=True).consume()
        st.linear_load(A, (2, 3), ref=x, bypass=True).consume()
        numbers = st.counter(3, ref=x).flat_map(fn.view_addresses((2,), (1,), slab=2))
        st.random_load(numbers, A, (1, 1)).consume()
    return p


def test_the_model_of_the_machine_changes_neither_times_nor_values():
    p = everything()
    runs = [
        simulate(p, machine=load_machine("sda-1024", {"model": model}))
        for model in ("step-2025", "step-2026")
    ]
    assert runs[0].cycles == runs[1].cycles
    assert runs[0].provenance["machine"]["model"] == "step-2025"
    assert runs[1].provenance["machine"]["model"] == "step-2026"
