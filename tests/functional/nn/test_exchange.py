"""Rows sent to the chips that need them, and results sent back: values, messages, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError
from stepsim.functional import evaluate
from tests.functional.nn.support import normal
from tests.on_chips import in_order, messages_of

CHIPS, D = 3, 4
COUNTS = (5, 1, 4)
TO = [
    np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [0, 1, 0]]),
    np.array([[0, 1, 0]]),
    np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 0, 1]]),
]
"""The chips that each row of each chip goes to."""

XS = [normal(count, D, seed=i) for i, count in enumerate(COUNTS)]


def streams() -> list[st.Stream]:
    made = []
    for i, x in enumerate(XS):
        with st.chip(i):
            made.append(st.linear_load(x, (1, D)).flatten(0, 1))
    return made


def expected_order(to: list[np.ndarray], j: int) -> list[tuple[int, int]]:
    """Row and source of what a chip gets."""
    return sorted((r, i) for i, table in enumerate(to) for r in np.flatnonzero(table[:, j]))


def test_rows_arrive_in_order() -> None:
    with st.Program("sent", compute_bw=64) as program:
        for j, x in enumerate(st.nn.dispatch_rows(streams(), TO)):
            with st.chip(j):
                st.linear_store(x, f"got.{j}")
    stored = evaluate(program).stored
    for j in range(CHIPS):
        rows = [XS[i][r] for r, i in expected_order(TO, j)]
        np.testing.assert_array_equal(stored[f"got.{j}"], np.array(rows))


def combined(to: list[np.ndarray], *, otherwise: bool = False) -> st.Program:
    """Chip j multiplies its rows by j + 1."""
    with st.Program("there and back", compute_bw=64) as program:
        xs = streams()
        got = st.nn.dispatch_rows(xs, to)
        results = []
        for j, x in enumerate(got):
            with st.chip(j):
                results.append(x.map(st.fn.mul_const(j + 1)))
        instead = None
        if otherwise:
            instead = []
            for i, x in enumerate(xs):
                with st.chip(i):
                    nowhere = (~to[i].any(axis=1)).astype(int)[:, None]
                    (own,) = st.partition(x, st.selector(nowhere))
                    instead.append(own.map(st.fn.mul_const(-1)))
        for i, y in enumerate(st.nn.combine_rows(results, to, otherwise=instead)):
            with st.chip(i):
                st.linear_store(y, f"sum.{i}")
    return program


def test_results_come_back_and_are_added_up() -> None:
    program = combined(TO)
    stored = evaluate(program, decisions=in_order(program)).stored
    for i, x in enumerate(XS):
        np.testing.assert_allclose(
            stored[f"sum.{i}"], x * (TO[i] @ np.arange(1, CHIPS + 1))[:, None], rtol=1e-6
        )
    assert program.metrics().flops == 2 * D * sum(int(table.sum()) for table in TO)


def test_messages_are_the_rows_that_leave() -> None:
    found = messages_of(combined(TO))
    for i in range(CHIPS):
        for j in range(CHIPS):
            sent = sum(n for to, n, each in found[i] if to == j and each == 4 * D)
            there, back = int(TO[i][:, j].sum()), int(TO[j][:, i].sum())
            assert sent == (there + back if i != j else 0)


def test_a_chip_may_get_nothing_and_a_row_may_go_nowhere() -> None:
    to = [table.copy() for table in TO]
    for table in to:
        table[:, 2] = 0
    program = combined(to, otherwise=True)
    stored = evaluate(program, decisions=in_order(program)).stored
    for i, x in enumerate(XS):
        factor = to[i] @ np.arange(1, CHIPS + 1)
        factor = np.where(to[i].any(axis=1), factor, -1)
        np.testing.assert_allclose(stored[f"sum.{i}"], x * factor[:, None], rtol=1e-6)


def nowhere() -> list[np.ndarray]:
    to = [table.copy() for table in TO]
    to[1][:] = 0
    return to


@pytest.mark.parametrize(
    ("to", "message"),
    [
        (TO[:2], "to must be a list of 3 arrays"),
        ([TO[0], TO[1], TO[2][:, :2]], "to\\[2\\] must be an array \\[rows, 3\\] of 0 and 1"),
        ([TO[0], TO[1], TO[2] * 2], "to\\[2\\] must be an array \\[rows, 3\\] of 0 and 1"),
        ([TO[0], TO[1], TO[2][:3]], "xs\\[2\\] is .*, to\\[2\\] has 3 rows"),
        ([TO[0], TO[1], [[1], [0, 1]]], "to\\[2\\] must be an array"),
    ],
)
def test_bad_destinations(to, message: str) -> None:
    with pytest.raises(ArgError, match=message), st.Program("bad"):
        st.nn.dispatch_rows(streams(), to)


def test_bad_results() -> None:
    with pytest.raises(ArgError, match=r"row 0 of xs\[1\] went nowhere"):
        combined(nowhere())
    with pytest.raises(ArgError, match="expected a row for each"), st.Program("bad"):
        st.nn.combine_rows(streams(), TO)
    with (
        pytest.raises(ArgError, match="otherwise must be a list"),
        st.Program("bad"),
    ):
        st.nn.combine_rows(streams(), TO, otherwise=[1, 2, 3])
