"""What the user assumes is checked against the run."""

from __future__ import annotations

import numpy as np

import stepsim as st


def _partitioned(table: list[int], claimed: int) -> st.Program:
    with st.Program("claim", compute_bw=64) as program:
        route = st.routing(np.array(table).reshape(-1, 1), experts=2)
        rows = st.linear_load(st.spec(len(table), 64), tile=(1, 64)).flatten(0, 1)
        first, second = st.partition(rows, route.multihot())
        st.consume(first.assume_shape(claimed))
        st.consume(second)
    return program


def test_an_assumption_that_holds_changes_nothing() -> None:
    result = st.simulate(_partitioned([0, 1, 0], 2))
    assert result.status == "ok"
    assert result.diagnosis is None


def test_an_assumption_that_does_not_hold_fails_the_run() -> None:
    result = st.simulate(_partitioned([0, 1, 1], 2))
    assert result.status == "failed"
    text = str(result.diagnosis)
    assert "has shape [2]' does not hold: n0 = 1, 2 in this run" in text
    assert "test_assumptions.py" in text


def test_runs_keep_the_tokens_of_one_stream_for_a_symbol() -> None:
    with st.Program("chain", compute_bw=64) as program:
        route = st.routing(np.array([[0], [1], [1]]), experts=2)
        rows = st.linear_load(st.spec(3, 64), tile=(1, 64)).flatten(0, 1)
        first, second = st.partition(rows, route.multihot())
        for _ in range(5):
            second = second.promote().flatten(0, 1)
        st.consume(first)
        st.consume(second.assume_shape(1))
    prepared = st.prepare(program)
    assert len(prepared.keep) == 1
    assert prepared.run().status == "failed"
    others = np.array([[0], [0], [1]])
    bindings = [{program.routings[0]: table} for table in (others, others[::-1])]
    assert [totals.status for totals in prepared.run_many(bindings)] == ["ok", "ok"]
    assert "n1 = 2, 1 in this run" in prepared.run().reason
