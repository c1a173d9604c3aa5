"""Bindings are checked once: every way to run a program says the same of the same mistake."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.errors import ArgError
from stepsim.functional import evaluate
from stepsim.graph import wire
from stepsim.simulation import prepare, run_functional, simulate

ENTRANCES: dict[str, Callable[[st.Program, Any], object]] = {
    "simulate": lambda program, bindings: simulate(program, bindings=bindings),
    "run": lambda program, bindings: prepare(program).run(bindings),
    "run_with_units": lambda program, bindings: prepare(program).run_with_units(bindings),
    "result": lambda program, bindings: prepare(program).result(bindings),
    "image": lambda program, bindings: prepare(program).image(bindings),
    "decisions": lambda program, bindings: prepare(program).decisions(bindings),
    "run_functional": lambda program, bindings: run_functional(program, bindings=bindings),
    "evaluate": lambda program, bindings: evaluate(program, bindings=bindings),
    "wire": wire,
}


def routed() -> tuple[st.Program, st.graph.Routing]:
    """Four rows, each to one of two experts."""
    with st.Program("routed", compute_bw=1) as program:
        table = st.routing(st.spec(4, 1), experts=2)
        table.multihot(label="route").consume()
    return program, table


OF = "<Routing 'routing': 4 rows, top 1 of 2, unbound>"
ROWS = [[0], [1], [1], [0]]

# What is bound, given the routing of the program, and what is said of it.
BAD: list[tuple[Callable[[st.graph.Routing], Any], str]] = [
    (lambda r: None, f"route#0: {OF} has no indices. Pass bindings={{routing: array of "
                     "shape (4, 1)}"),
    (lambda r: {}, f"route#0: {OF} has no indices"),
    (lambda r: ROWS, "program 'routed': bindings must be a mapping {routing: array "
                     "[rows, k]}, found [[0], [1]"),
    (lambda r: {"routing": ROWS}, "program 'routed': keys of bindings are Routing objects, found "
                                  "the text 'routing'; pass what st.routing returned (it has "
                                  "routing)"),
    (lambda r: {routed()[1]: ROWS}, f"program 'routed' has no {OF}; bindings are keyed by"),
    (lambda r: {r: ROWS, 7: ROWS}, "program 'routed': keys of bindings are Routing objects, found "
                                  "7; pass"),
    (lambda r: {r: None}, f"{OF}: the index array has shape (), expected (4, 1)"),
    (lambda r: {r: [[0], [1]]}, f"{OF}: the index array has shape (2, 1), expected (4, 1)"),
    (lambda r: {r: [0, 1, 1, 0]}, f"{OF}: the index array has shape (4,), expected (4, 1)"),
    (lambda r: {r: [[0], [1, 0], [1], [0]]}, f"{OF}: the rows of the index array differ in length"),
    (lambda r: {r: [[0.0], [1.0], [1.0], [0.0]]}, f"{OF}: indices must be integers, found float64"),
    (lambda r: {r: [["0"]] * 4}, f"{OF}: indices must be integers, found <U1"),
    (lambda r: {r: [[2**70]] * 4}, f"{OF}: indices must be integers, found object"),
    (lambda r: {r: [[0], [1], [2], [0]]}, f"{OF}: row 2, slot 0 names expert 2; experts are 0..1"),
    (lambda r: {r: np.full((4, 1), 2**64 - 1, np.uint64)}, f"{OF}: row 0, slot 0 names expert "
                                                            "18446744073709551615"),
    (lambda r: {r: [[0], [-1], [1], [0]]}, f"{OF}: row 1, slot 0 names expert -1"),
]  # fmt: skip


@pytest.mark.parametrize(("bound", "message"), BAD, ids=[str(i) for i in range(len(BAD))])
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_every_entrance_says_the_same(
    entrance: str, bound: Callable[[st.graph.Routing], Any], message: str
) -> None:
    program, table = routed()
    with pytest.raises(ArgError, match=f"^{re.escape(message)}"):
        ENTRANCES[entrance](program, bound(table))


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_an_expert_that_is_named_twice_is_refused(entrance: str) -> None:
    with st.Program("pairs", compute_bw=1) as program:
        table = st.routing(st.spec(2, 2), experts=3)
        table.multihot().consume()
    with pytest.raises(ArgError, match=r"row 1 names an expert twice: \[2, 2\]"):
        ENTRANCES[entrance](program, {table: [[0, 1], [2, 2]]})


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_a_routing_that_nothing_reads_needs_no_indices(entrance: str) -> None:
    with st.Program("idle", compute_bw=1) as program:
        idle = st.routing(st.spec(2, 1), experts=2)
        st.routing([[0], [1]], experts=2).multihot().consume()
    ENTRANCES[entrance](program, None)
    with pytest.raises(ArgError, match="the index array has shape"):
        ENTRANCES[entrance](program, {idle: [[0]]})


def test_declared_maximum_of_rows() -> None:
    with st.Program("declared") as program:
        table = st.routing(st.spec(4, 1), experts=2, max_rows=3)
        for part in st.partition(st.metadata(np.arange(4)), table.multihot()):
            part.consume()
    assert st.simulate(program, bindings={table: [[0], [0], [1], [0]]}).status == "ok"
    with pytest.raises(ArgError, match="expert 0 gets 4 rows, but at most 3 are declared"):
        st.simulate(program, bindings={table: np.zeros((4, 1), int)})
    with st.Program("wrong"):
        with pytest.raises(ArgError, match="max_rows is 0, expected an int from 1"):
            st.routing(st.spec(4, 1), experts=2, max_rows=0)
        with pytest.raises(ArgError, match="2 experts of at most 1 rows cannot take 4 rows"):
            st.routing(st.spec(4, 1), experts=2, max_rows=1)
        with pytest.raises(ArgError, match="expert 1 gets 3 rows, but at most 2"):
            st.routing([[1], [1], [0], [1]], experts=2, max_rows=2)
