"""Every assume_* is checked; measured dims are shown."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import AssumptionError, EvaluationError
from stepsim.functional import evaluate
from stepsim.functional.registry import evaluator_of
from stepsim.graph import fn
from tests.functional.support import tiles


def split(outputs: list[int]) -> list[st.Stream]:
    x, _ = tiles((len(outputs),))
    table = st.routing(np.array(outputs)[:, np.newaxis], 2)
    return st.partition(x, table.multihot())


def pair_program(outputs: list[int]) -> st.Program:
    with st.Program("pair", compute_bw=1) as p:
        left, right = split(outputs)
        p.assume_equal(left.shape[0], right.shape[0])
        st.map(fn.add, left, right).consume()
    return p


def test_assumptions_that_hold():
    result = evaluate(pair_program([0, 1, 1, 0]))
    assert result.undecided == ()


def test_the_message_has_name_values_and_line():
    with pytest.raises(AssumptionError) as error:
        evaluate(pair_program([0, 1, 1, 1]))
    message = str(error.value)
    assert "the assumption 'n0 == n1' does not hold: n0 = 1, n1 = 3 in this run" in message
    assert "test_assumptions.py:" in message
    assert isinstance(error.value.__cause__, EvaluationError)  # where the run got stuck


def test_an_assumption_is_checked_even_if_nothing_gets_stuck():
    with st.Program() as p:
        left, right = split([0, 1, 1, 1])
        p.assume_equal(left.shape[0], 2)
        left.consume()
        right.consume()
    with pytest.raises(AssumptionError, match="n0 == 2' does not hold: n0 = 1, 2 in this run"):
        evaluate(p)


@pytest.mark.parametrize(("shape", "holds"), [((2, 2), True), ((2, 3), False)])
def test_shapes_of_ragged_streams(shape, holds):
    with st.Program() as p:
        index, length = st.metadata([0, 0]), st.metadata([2, 2])
        reads = index.flat_map(fn.cache_read_addresses(1), length)
        reads.assume_shape(*shape).consume()
    if holds:
        evaluate(p)
    else:
        with pytest.raises(AssumptionError, match=r"~len = 2, 3 in this run"):
            evaluate(p)


@pytest.mark.parametrize("lengths", [[1, 3], [2, 3]])
def test_ragged_sizes_are_listed(lengths):
    with st.Program() as p:
        index, length = st.metadata([0, 0]), st.metadata(lengths)
        index.flat_map(fn.cache_read_addresses(1), length).assume_shape(2, 2).consume()
    with pytest.raises(AssumptionError, match=rf"~len = \[{lengths[0]}, 3\], 2 in"):
        evaluate(p)


def test_streams_of_equal_length_and_unequal_shape():
    def vectors(lengths: list[int]) -> st.Stream:
        rows = st.metadata([0, 0]).flat_map(fn.cache_read_addresses(1), st.metadata(lengths))
        return st.random_load(rows, np.ones((4, 1), np.float32), (1, 1))

    with st.Program(compute_bw=1) as p:
        left, right = vectors([1, 3]), vectors([2, 2])
        p.assume_equal(left.shape[1], right.shape[1])
        st.map(fn.add, left, right).consume()
    with pytest.raises(AssumptionError, match=r"~len = \[1, 3\], ~len_2 = 2 in") as error:
        evaluate(p)
    assert "token 0 has stop level 1 in in1 and 0 in in2" in str(error.value.__cause__)


def test_one_dim_for_two_streams_of_different_length():
    with st.Program() as p:
        left, right = split([0, 1, 1, 1])
        d = p.dim("same")
        left.assume_shape(d).consume()
        right.assume_shape(d).consume()
    with pytest.raises(AssumptionError, match=r"has shape \[same\]' does not hold"):
        evaluate(p)


def test_sums_and_totals():
    """Expressions over symbols, and the total of a ragged dim."""
    with st.Program() as p:
        left, right = split([0, 1, 1])
        p.assume_equal(st.Dim(left.shape[0].expr + 2 * right.shape[0].expr), 5)
        length = st.metadata([1, 3])
        reads = st.metadata([0, 0]).flat_map(fn.cache_read_addresses(1), length)
        p.assume_equal(st.Dim(reads.shape[1].total), 4)
        for x in (left, right, reads):
            x.consume()
    assert evaluate(p).undecided == ()


def test_sizes_that_no_stream_has_are_reported():
    with st.Program() as p:
        x, _ = tiles((1,))
        x.consume()
        p.assume_equal(p.dim("unused"), 3)
    (only,) = evaluate(p).undecided
    assert only.startswith("unused == 3 (")


def test_open_programs_are_refused():
    with st.Program() as p:
        tiles((1,))[0].consume()
        with pytest.raises(EvaluationError, match="is still open"):
            evaluate(p)


def test_printed_streams_are_kept():
    with st.Program() as p:
        tiles((3,))[0].print(label="look")
    (title,) = evaluate(p).printed
    assert title == "look#1"
    assert len(evaluate(p).printed[title]) == 3


def test_every_operator_of_the_graph_has_an_evaluator():
    def concrete(kind: type) -> set[type]:
        own = {kind} if kind.name != "?" and not kind.__name__.startswith("_") else set()
        return own.union(*(concrete(k) for k in kind.__subclasses__()))

    graph = {k for k in concrete(st.Operator) if k.__module__.startswith("stepsim.")}
    placeholders = {k for k in graph if k.__name__ == "FeedbackSource"}
    without = set()
    for kind in graph:
        try:
            evaluator_of(kind.__new__(kind))
        except EvaluationError:
            without.add(kind)
    assert without == placeholders
    assert len(graph) > 25


def test_an_operator_without_evaluator_says_so():
    class Odd(st.Operator):
        name = "odd"

    odd = Odd()
    with pytest.raises(EvaluationError, match="odd#-1 has no evaluator"):
        evaluator_of(odd)
