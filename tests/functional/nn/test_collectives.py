"""Collectives of streams on several chips: values, messages and bytes by formula, bad input."""

from __future__ import annotations

from dataclasses import replace
from math import log2

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, DimError, DTypeError
from stepsim.functional import evaluate
from stepsim.machine import Chips, load_machine
from stepsim.noc import simulate_collective
from stepsim.simulation import simulate
from tests.functional.nn.support import normal
from tests.on_chips import messages_of, moved

ROWS, TILES, COLUMNS = 2, 3, 24
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
STEPS = {
    ("ring", "all_reduce"): lambda n: [2 * (n - 1) * [1 / n]],
    ("ring", "all_gather"): lambda n: [(n - 1) * [1]],
    ("ring", "reduce_scatter"): lambda n: [(n - 1) * [1 / n]],
    ("ring", "all_to_all"): lambda n: [n * (n - 1) // 2 * [1 / n]],
    ("direct", "all_to_all"): lambda n: [(n - 1) * [1 / n]],
}
"""Messages of a chip, as shares of what it has."""


def shares(kind: str, algorithm: str, n: int) -> list[float]:
    """The sizes of the messages of a chip, as in the table of the page on networks of chips."""
    if algorithm != "halving-doubling":
        key = (algorithm, kind) if (algorithm, kind) in STEPS else ("ring", kind)
        return STEPS[key](n)[0]
    halves = [1 / 2**k for k in range(1, round(log2(n)) + 1)]
    if kind == "all_gather":
        return [2**k for k in range(round(log2(n)))]
    return halves if kind == "reduce_scatter" else halves * 2


def expected(kind: str, xs: np.ndarray) -> list[np.ndarray]:
    n, total = len(xs), xs.sum(axis=0)
    if kind == "all_reduce":
        return [total] * n
    if kind == "all_gather":
        return [np.concatenate(list(xs), axis=1)] * n
    if kind == "reduce_scatter":
        return np.split(total, n, axis=1)
    parts = [np.split(x, n, axis=1) for x in xs]
    return [np.concatenate([own[j] for own in parts], axis=1) for j in range(n)]


def built(kind: str, xs: np.ndarray, **options: object) -> tuple[st.Program, list[st.Stream]]:
    """The collective of one stream on each chip, stored as ``y.<chip>``."""
    with st.Program(kind, compute_bw=64) as program:
        streams = []
        for i, x in enumerate(xs):
            with st.chip(i):
                streams.append(st.linear_load(x, (ROWS, x.shape[1])).flatten(0, 1))
        ys = getattr(st.nn, kind)(streams, **options)
        for i, y in enumerate(ys):
            with st.chip(i):
                st.linear_store(y.reshape(1), f"y.{i}")
    return program, ys


CASES = [
    (kind, algorithm, n)
    for kind in KINDS
    for algorithm in ("ring", "direct", "halving-doubling")
    for n in (1, 2, 3, 4, 8)
    if algorithm != "halving-doubling" or (kind != "all_to_all" and n != 3)
]


@pytest.mark.parametrize(("kind", "algorithm", "n"), CASES)
def test_values_and_messages(kind: str, algorithm: str, n: int) -> None:
    xs = np.stack([normal(ROWS * TILES, COLUMNS, seed=i) for i in range(n)])
    program, _ = built(kind, xs, algorithm=algorithm)
    stored = evaluate(program).stored
    for i, y in enumerate(expected(kind, xs)):
        np.testing.assert_allclose(stored[f"y.{i}"], y, rtol=1e-5, atol=1e-5)
    whole = ROWS * COLUMNS * 4
    sizes = sorted(round(share * whole) for share in shares(kind, algorithm, n)) if n > 1 else []
    found = messages_of(program)
    for i in range(n):
        sent = sorted(each for _, count, each in found[i] for _ in range(count // TILES))
        assert sent == sizes
        assert moved(found[i]) == (TILES * len(sizes), TILES * sum(sizes))


@pytest.mark.parametrize("algorithm", ["ring", "direct", "halving-doubling"])
def test_sums_are_counted_once_on_each_chip(algorithm: str) -> None:
    xs = np.stack([normal(ROWS * TILES, COLUMNS, seed=i) for i in range(4)])
    for kind in ("all_reduce", "reduce_scatter"):
        program, _ = built(kind, xs, algorithm=algorithm)
        assert program.metrics().flops == TILES * ROWS * COLUMNS * 3


def test_a_ring_sends_to_the_next_chip_alone() -> None:
    xs = np.stack([normal(ROWS, COLUMNS, seed=i) for i in range(4)])
    for kind in KINDS:
        program, _ = built(kind, xs)
        for i, sent in messages_of(program).items():
            assert {to for to, _, _ in sent} == {(i + 1) % 4}


@pytest.mark.slow
def test_more_chips_than_one_function_takes() -> None:
    xs = np.stack([normal(ROWS, 130, seed=i) for i in range(65)])
    program, _ = built("all_reduce", xs, algorithm="direct")
    np.testing.assert_allclose(
        evaluate(program).stored["y.64"], xs.sum(axis=0), rtol=1e-4, atol=1e-4
    )


def test_chips_can_be_named() -> None:
    with st.Program("named", compute_bw=64):
        xs = [st.linear_load(np.full((1, 4), i, "f4"), (1, 4)).flatten(0, 1) for i in (1, 2)]
        ys = st.nn.all_reduce(xs, chips=[5, 3])
        for y in ys:
            y.consume()
    assert [y.producer.chip for y in ys] == [5, 3]


def _xs(n: int = 3, columns: int = COLUMNS, **changes: int) -> list[st.Stream]:
    made = []
    for i in range(n):
        with st.chip(changes.get(f"chip{i}", i)):
            size = changes.get(f"columns{i}", columns)
            tensor = st.spec(changes.get(f"rows{i}", 4), size)
            made.append(st.linear_load(tensor, (2, size)).flatten(0, 1))
    return made


@pytest.mark.parametrize(
    ("kind", "make", "options", "error", "message"),
    [
        ("all_reduce", lambda: _xs(columns=25), {}, ArgError, "3 chips do not divide the 25 col"),
        ("all_to_all", lambda: _xs(columns=25), {}, ArgError, "3 chips do not divide the 25 col"),
        ("all_reduce", _xs, {"algorithm": "tree"}, ArgError, "algorithm must be one of 'ring'"),
        (
            "all_gather", _xs, {"algorithm": "halving-doubling"}, ArgError,
            "needs a number of chips that is a power of two, found 3",
        ),
        (
            "all_to_all", lambda: _xs(4), {"algorithm": "halving-doubling"}, ArgError,
            "has no steps for all_to_all",
        ),
        ("all_reduce", lambda: _xs(rows1=6), {}, DimError, "xs\\[1\\]"),
        ("all_reduce", lambda: _xs(columns2=48), {}, DTypeError, "xs\\[2\\] carries tiles of"),
        ("all_reduce", lambda: _xs(chip2=0), {}, ArgError, "xs\\[0\\] and xs\\[2\\] are both on"),
        ("all_reduce", _xs, {"chips": [0, 1]}, ArgError, "chips must be a list of the 3 chips"),
        ("all_reduce", _xs, {"chips": [0, 1, -1]}, ArgError, "chips\\[2\\]"),
        ("all_reduce", list, {}, ArgError, "xs is empty"),
    ],
)  # fmt: skip
def test_bad_collectives(kind, make, options, error, message) -> None:
    with pytest.raises(error, match=message), st.Program("bad", compute_bw=64):
        getattr(st.nn, kind)(make(), **options)


COUNT_OF_STEPS = {
    ("ring", "all_reduce"): lambda n: 2 * n + 1,
    ("ring", "all_gather"): lambda n: n - 1,
    ("ring", "reduce_scatter"): lambda n: n + 1,
    ("direct", "all_reduce"): lambda n: 5,
    ("direct", "all_gather"): lambda n: 1,
    ("direct", "reduce_scatter"): lambda n: 3,
    ("direct", "all_to_all"): lambda n: 3,
}
"""Cycles of operators beyond the closed forms, in which an endpoint takes 1 ns here."""


@pytest.mark.parametrize("n", [4, 8])
@pytest.mark.parametrize(("algorithm", "kind"), COUNT_OF_STEPS)
def test_time_is_that_of_the_closed_forms(algorithm: str, kind: str, n: int) -> None:
    chips = Chips(topology="fully-connected", count=n, gib_per_s=50, latency_ns=500)
    machine = replace(load_machine("sda-1024"), clock_ghz=1.0, chips=chips)
    columns = 1 << 14

    def cycles(collective: bool) -> int:
        with st.Program(kind, compute_bw=1 << 40) as program:
            xs = []
            for i in range(n if collective else 1):
                with st.chip(i):
                    loaded = st.linear_load(st.spec(1, columns, dtype="f32"), (1, columns))
                    xs.append(loaded.flatten(0, 1).map(st.fn.neg))
            for i, y in enumerate(
                getattr(st.nn, kind)(xs, algorithm=algorithm) if collective else xs
            ):
                with st.chip(i):
                    y.consume()
        return simulate(program, machine).cycles

    free = {"memory_gbps": 1e9} if "reduce" in kind else {}
    alone = simulate_collective(
        kind.replace("_", "-"), 4 * columns, chips, algorithm=algorithm, endpoint_ns=1, **free
    )
    steps = COUNT_OF_STEPS[algorithm, kind](n)
    assert cycles(collective=True) - cycles(collective=False) == alone.ns + steps


def test_a_ring_of_all_to_all_does_not_wait_for_what_it_does_not_need() -> None:
    """Parts follow each other on a link; in the closed form each waits for one to arrive."""
    chips = Chips(topology="ring", count=8, gib_per_s=50, latency_ns=500)
    machine = replace(load_machine("sda-1024"), clock_ghz=1.0, chips=chips)
    xs = np.zeros((8, 1, 1 << 12), np.float32)
    with st.Program("exchange", compute_bw=1 << 40) as program:
        streams = []
        for i in range(8):
            with st.chip(i):
                streams.append(st.linear_load(xs[i], (1, 1 << 12)).flatten(0, 1))
        for i, y in enumerate(st.nn.all_to_all(streams)):
            with st.chip(i):
                y.consume()
    alone = simulate_collective("all-to-all", 4 << 12, chips, endpoint_ns=1)
    assert simulate(program, machine).cycles < alone.ns
