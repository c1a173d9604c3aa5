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
