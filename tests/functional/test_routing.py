"""Partition, reassemble, eager merge and parallelize on values; recorded orders; feedback."""

from __future__ import annotations

import hypothesis.strategies as hypothesis
import numpy as np
import pytest
from hypothesis import given

import stepsim.graph as st
from stepsim.errors import EvaluationError
from stepsim.functional import Decisions, Selection, evaluate, needs_decisions
from stepsim.graph import fn
from stepsim.lowering import lower
from stepsim.machine import load_machine
from stepsim.simulation import prepare, run_functional, simulate
from tests.engine_backend import run_engine
from tests.functional.support import numbers, run_both, text, tiles
from tests.oracle.compare import assert_same
from tests.oracle.interpreter import interpret
from tests.property_profile import profile


def test_broadcasts_copy_values_and_levels_one_cycle_later():
    def run(explicit: bool) -> int:
        with st.Program(compute_bw=1) as p:
            x, _ = tiles((2, 2))
            copies = st.broadcast(x, 3) if explicit else [x] * 3
            for copy in copies:
                copy.map(fn.silu).consume()
        result = run_both(p)
        assert [text(result, copy) for copy in copies] == ["a b S1 c d S1"] * 3
        return simulate(p).cycles

    with st.Program(compute_bw=1) as alone:
        x, _ = tiles((2, 2))
        x.map(fn.silu).consume()
    assert run(True) == run(False)
    assert run(True) == simulate(alone).cycles + 1


def test_partition_copies_drops_and_cuts_levels():
    flags = np.array([[[1, 0], [1, 1]], [[0, 0], [0, 1]]])
    with st.Program() as p:
        x, _ = tiles((2, 2, 2))
        left, right = st.partition(x, st.selector(flags))
        left.consume()
        right.consume()
    result = run_both(p)
    assert text(result, left) == "a b S1 c d S1"
    assert text(result, right) == "c d S1 g h S1"


def test_partition_at_rank_0_with_a_deep_selector():
    with st.Program() as p:
        x, _ = tiles((2, 2))
        left, right = st.partition(x, st.selector(np.array([[[1, 0], [0, 1]], [[1, 0], [1, 0]]])))
        left.consume()
        right.consume()
    result = run_both(p)
    assert (text(result, left), text(result, right)) == ("a c d", "b")


def test_reassemble_puts_chunks_in_recorded_order():
    with st.Program() as p:
        x, _ = tiles((2, 2))
        y, _ = tiles((2, 2))
        which = st.selector(np.array([[[1, 1], [1, 1]]]))
        out = st.reassemble([x, y], which)
        out.consume()
    orders = Decisions(joins={out.producer.id: ((1, 0), (0, 1))})
    result = evaluate(p, decisions=orders)
    assert [t.level for t in result.stream(out)] == [0, 1, 0, 2, 0, 1, 0, 3]
    assert text(result, out) == "a b S1 a b S2 c d S1 c d S3"
    taken = [t.payload for t in result.stream(out)]
    first_of_y = result.stream(y)[0].payload
    assert taken[0] is first_of_y
    assert taken[4] is not result.stream(y)[2].payload
    assert run_both(p).shape(out) == (1, 2, 2, 2)


def test_reassemble_of_single_tokens_and_one_hot_selectors_needs_no_decisions():
    with st.Program() as p:
        x, _ = tiles((2,))
        y, _ = tiles((1,))
        out = st.reassemble([x, y], st.selector(np.array([[1, 0], [0, 1], [1, 0]])))
        out.consume()
    assert not needs_decisions(p)
    assert text(run_functional(p), out) == "a S1 a S1 b S1"
    assert text(run_both(p), out) == "a S1 a S1 b S1"


def merge_program() -> tuple[st.Program, st.Stream, st.Stream]:
    with st.Program() as p:
        x, _ = tiles((2, 2))
        y, _ = tiles((1, 2))
        merged, which = st.eager_merge([x, y])
        merged.consume()
        which.consume()
    return p, merged, which


@pytest.mark.parametrize(
    ("order", "tokens"),
    [
        ((0, 1, 0), "a b S1 a b S1 c d S1"),
        ((1, 0, 0), "a b S1 a b S1 c d S1"),
        ((0, 0, 1), "a b S1 c d S1 a b S1"),
    ],
)
def test_eager_merge_replays_an_order(order, tokens):
    p, merged, which = merge_program()
    result = evaluate(p, decisions=Decisions(merges={merged.producer.id: order}))
    assert text(result, merged) == tokens
    assert [t.payload for t in result.stream(which)] == [Selection((i,), 2) for i in order]


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        (None, "the order in which chunks arrive is not known"),
        (Decisions(), "the order in which chunks arrive is not known"),
        (Decisions(merges={2: (0, 1, 1)}), "in1 ended after 2 tokens"),
        (Decisions(merges={2: (0, 1)}), "it ended with 2 tokens left in in0"),
        (Decisions(merges={2: (0, 2)}), "a recorded decision names input 2 of 2"),
        (Decisions(program_hash="0"), "come from a run of another program"),
    ],
)
def test_missing_and_wrong_decisions_are_errors(decisions, message):
    p, _, _ = merge_program()
    with pytest.raises(EvaluationError, match=message):
        evaluate(p, decisions=decisions)


def test_reassemble_decisions_must_fit_the_selectors():
    with st.Program() as p:
        x, _ = tiles((1,))
        y, _ = tiles((1,))
        out = st.reassemble([x, y], st.selector(np.array([[1, 1]])))
        out.consume()
    with pytest.raises(EvaluationError, match="2 chunks arrive for selector 0 in no known order"):
        evaluate(p)
    with pytest.raises(EvaluationError, match=r"selects \[0, 1\], the recorded order is \[0\]"):
        evaluate(p, decisions=Decisions(joins={out.producer.id: ((0,),)}))


def test_recorded_decisions_follow_arrival():
    """The slow input of a merge comes last, whatever its index; equal stamps: lower index."""
    with st.Program(compute_bw=1) as p:
        slow, _ = tiles((1,), 4, 4)
        fast, _ = tiles((1,), 4, 4)
        late = st.map(fn.exp, slow)
        merged, which = st.eager_merge([late, fast])
        merged.consume()
        which.consume()
        joined = st.reassemble(
            [st.map(fn.exp, fast), fast, fast], st.selector(np.array([[1, 1, 1]]))
        )
        joined.consume()
    decisions = prepare(p).decisions()
    assert decisions.merges == {merged.producer.id: (1, 0)}
    assert decisions.joins == {joined.producer.id: ((1, 2, 0),)}
    result = run_functional(p)
    assert numbers(result.stream(joined))[2][0] == pytest.approx(np.e)


def test_parallelize_deals_outermost_subtensors():
    with st.Program() as p:
        x, _ = tiles((4, 2))
        y, _ = tiles((4,))
        in_turn = [*st.parallelize(x, 2), *st.parallelize(y, 2)]
        for z in in_turn:
            z.consume()
    result = run_both(p)
    assert [text(result, z) for z in in_turn] == [
        "a b S1 e f S1", "c d S1 g h S1", "a c", "b d"
    ]  # fmt: skip


def test_parallelize_leaves_outputs_short_or_empty():
    with st.Program(compute_bw=1) as p:
        x, _ = tiles((5, 2))
        y, _ = tiles((2,))
        in_turn = [*st.parallelize(x, 3), *st.parallelize(y, 3)]
        for z in in_turn:
            z.consume()
    result = run_both(p)
    assert [text(result, z) for z in in_turn] == [
        "a b S1 g h S1", "c d S1 i j S1", "e f S1", "a", "b", ""
    ]  # fmt: skip


@profile(20, 500)
@given(
    hypothesis.integers(1, 9), hypothesis.lists(hypothesis.integers(1, 3), max_size=2),
    hypothesis.integers(1, 6),
)  # fmt: skip
def test_parallelize_of_any_number_of_subtensors(outer, inner, n):
    """Shapes, totals and outputs are what slices of numpy hold, also for what follows."""
    with st.Program(compute_bw=1) as p:
        x, array = tiles((outer, *inner))
        in_turn = st.parallelize(x, n)
        grown = [st.map(fn.add, z, z) for z in in_turn]
        for z in grown:
            z.consume()
    result = run_both(p)
    whole = array.reshape(outer, *inner)
    for r, z in enumerate(grown):
        assert tuple(int(d) for d in z.shape) == whole[r::n].shape
        assert [v for v, _ in numbers(result.stream(z))] == (2 * whole[r::n]).ravel().tolist()
    timed = simulate(p)
    assert (timed.status, timed.flops) == ("ok", p.metrics().flops)
    _, network = lower(p, load_machine("sda-1024"))
    assert_same(run_engine(network), interpret(network), accounts=True)


def feedback_program(rounds: int) -> tuple[st.Program, st.Stream]:
    """A counter: one token goes round, and leaves after ``rounds`` more turns."""
    turns = np.array([[1, 0]] * rounds + [[0, 1]])
    with st.Program(compute_bw=1) as p:
        start, _ = tiles((1,))
        back = st.feedback(start.type, [p.dim("turns")])
        entering, source = st.eager_merge([start, back])
        source.consume()
        grown = st.map(fn.add, entering, entering)
        total = grown.assume_shape(len(turns))
        again, out = st.partition(total, st.selector(turns))
        p.assume_equal(again.shape[0], back.shape[0])
        back.connect(again)
        out.consume()
    return p, out


@pytest.mark.parametrize("turns", [1, 5])
def test_feedback_goes_round(turns):
    p, out = feedback_program(turns)
    result = run_both(p)
    assert numbers(result.stream(out)) == [(2.0 ** (turns + 1), 0)]


def test_a_loop_without_a_first_token_is_a_deadlock():
    with st.Program(compute_bw=1) as p:
        start, _ = tiles((1,))
        back = st.feedback(start.type, [1])
        out = st.map(fn.add, start, back)
        back.connect(out)
    with pytest.raises(EvaluationError) as error:
        evaluate(p)
    assert "deadlock: 1 operators wait" in str(error.value)
    assert "add#2 waits for in2 from add#2" in str(error.value)


def test_a_timing_run_that_gets_stuck_has_no_decisions():
    with st.Program(compute_bw=1) as p:
        start, _ = tiles((1,))
        back = st.feedback(start.type, [1])
        back.connect(st.map(fn.add, start, back))
    with pytest.raises(EvaluationError, match="the timing run ended with a deadlock"):
        prepare(p).decisions()
