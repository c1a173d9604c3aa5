"""Two programs are compared by the names of their operators, not by their hashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import stepsim as st
from stepsim.results import Listing, listing_of, outline_of, program_changes
from stepsim.simulation import wired


def listing(
    change: Callable[[st.Stream], st.Stream] = lambda x: x,
    bw: int = 1024,
    depth: int = 2,
    **how: int,
) -> Listing:
    with st.Program("made", **{"compute_bw": 1024, **how}) as program:
        x = st.linear_load(st.spec(64, 64, name="x"), tile=(16, 64)).flatten(0, 1)
        h = change(x.map(st.fn.silu)).with_depth(depth)
        for i in range(3):
            h.map(st.fn.exp, label=f"act.{i}").consume()
        st.map(st.fn.add, x, h, label="residual", compute_bw=bw).consume()
    return listing_of(outline_of(wired(program)))


SAME = [
    "its operators and streams are the same by name; what differs is the data of its sources, or "
    "which input or lane of an operator a stream goes to"
]


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        (listing(), SAME),
        (listing(bw=8), ["residual: compute_bw 1024 -> 8"]),
        (listing(depth=9), [
            "stream silu -> broadcast(silu): depth 2 -> 9",
            "stream broadcast(silu) -> act.*: depth 2 -> 9",
            "stream broadcast(silu) -> residual: depth 2 -> 9",
        ]),
        (listing(compute_bw=8), [
            "default compute_bw 1024 -> 8", "silu, act.*: compute_bw 1024 -> 8",
        ]),
        (listing(lambda h: h.map(st.fn.exp)), [
            "added operator exp (map exp): silu -> exp, exp -> broadcast(exp)",
            "added operator broadcast(exp) (broadcast): exp -> broadcast(exp), "
            "broadcast(exp) -> act.*, broadcast(exp) -> residual",
            "removed operator broadcast(silu) (broadcast): silu -> broadcast(silu), "
            "broadcast(silu) -> act.*, broadcast(silu) -> residual",
        ]),
    ],
)  # fmt: skip
def test_what_differs_is_named(after: Listing, lines: list[str]) -> None:
    assert program_changes(listing(), after) == lines


def test_operators_of_one_name_are_matched_by_what_they_are() -> None:
    def chain(*rates: int) -> Listing:
        with st.Program("chain") as program:
            x = st.linear_load(st.spec(8, 64), tile=(1, 64))
            for rate in rates:
                x = x.map(st.fn.silu, compute_bw=rate)
            x.consume()
        return listing_of(outline_of(wired(program)))

    assert program_changes(chain(8, 16, 32), chain(8, 32)) == [
        "removed operator silu (2) (map silu): silu -> silu (2), silu (2) -> silu (3)",
        "added stream silu -> silu (2)",
    ]
    assert program_changes(chain(8, 16), chain(8, 32)) == ["silu (2): compute_bw 16 -> 32"]


def test_the_order_of_operands_is_not_taken_for_data() -> None:
    def difference(first: str, second: str) -> Listing:
        with st.Program("made", compute_bw=1024) as program:
            streams = {
                name: st.linear_load(st.spec(64, 64), tile=(16, 64), label=name) for name in "xy"
            }
            st.map(st.fn.sub, streams[first], streams[second], label="d").consume()
        return listing_of(outline_of(wired(program)))

    assert program_changes(difference("x", "y"), difference("y", "x")) == SAME


def test_a_missing_or_foreign_listing_is_said_plainly() -> None:
    (line,) = program_changes(None, listing(), ("the baseline", "this run"))
    assert "the baseline was written without an outline of the program" in line
    (line,) = program_changes(listing(), {**listing(), "version": 9})
    assert "the outline in B has version 9, this stepsim writes 1" in line


def of_own(**how: Any) -> Listing:
    gate = st.function("gate", **{"shape": "m n -> m n", "flops": lambda m, n: 4 * m * n, **how})
    with st.Program("own") as program:
        st.linear_load(st.spec(8, 64), tile=(2, 64)).map(gate).consume()
    return listing_of(outline_of(wired(program)))


GATE = "gate: fn gate (m n -> m n, 4*m*n FLOPs) -> gate"


@pytest.mark.parametrize(
    ("after", "line"),
    [
        (of_own(flops=lambda m, n: 8 * m * n + m), f"{GATE} (m n -> m n, 8*m*n + m FLOPs)"),
        (of_own(cycles=3), f"{GATE} (m n -> m n, 4*m*n FLOPs, 3 cycles)"),
        (of_own(dtype="f16"), f"{GATE} (m n -> m n, 4*m*n FLOPs, results of f16)"),
        (of_own(kind="tile"), f"{GATE} (m n -> m n, 4*m*n FLOPs, operands are tile)"),
        (of_own(valid="all"), f"{GATE} (m n -> m n, 4*m*n FLOPs, valid rows rows)"),
    ],
)
def test_functions_of_the_user_are_told_apart_by_their_terms(after: Listing, line: str) -> None:
    assert program_changes(of_own(), after)[0] == line
    # What a function computes takes no time.
    assert of_own(values=lambda x: 2 * x) == of_own()
