"""Gather, scatter and the largest values by numbers that a run computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stepsim.design import GraphBuilder, Ref
from stepsim.errors import CompileError
from tests.design.compiled import same_on_tiles

X = np.random.default_rng(6).normal(size=(4, 6))
Made = Callable[[GraphBuilder, Ref, Ref, Ref], Ref]


def _scattered(add: bool) -> Any:
    found = np.zeros((4, 6))
    chosen = np.argsort(-X, axis=1)[:, :2]
    np.put_along_axis(found, chosen, np.take_along_axis(X, chosen, 1), 1)
    return found


CASES: dict[str, tuple[Made, Any, int]] = {
    # of x, the places of its largest two and positions; what numpy makes; FLOPs
    "places": (lambda b, x, two, at: two, np.argsort(-X, axis=1)[:, :2], 0),
    "gather": (lambda b, x, two, at: b.gather(x, two, at), -np.sort(-X, axis=1)[:, :2], 3 * 8 * 6),
    "scatter": (
        lambda b, x, two, at: b.scatter(b.gather(x, two, at), two, at, 6),
        _scattered(True),
        3 * 8 * 6 + 3 * 24 * 2,
    ),
    "take": (
        lambda b, x, two, at: b.take(b.transpose(x), b.select(two, 1, 0), at),
        X.T[X.argmax(1)],
        3 * 4 * 4 * 6,
    ),
    "add_rows": (
        lambda b, x, two, at: b.add_rows(x, b.select(two, 1, 1), at, 6),
        np.eye(6)[np.argsort(-X, axis=1)[:, 1]].T @ X,
        3 * 6 * 6 * 4,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_numbers_of_a_run_choose(name: str) -> None:
    make, expected, flops = CASES[name]
    b = GraphBuilder("chosen", dtype="f32")
    x, positions = b.input("x", X.shape), b.input("positions", (6,))
    two = b.ranked(b.rank(x, positions), positions, 2)
    b.output(make(b, x, two, positions), "y")
    graph, values = b.graph(), {"x": X, "positions": np.arange(6)}
    np.testing.assert_allclose(graph.evaluate(values)["y"], expected, atol=1e-6)
    # Six for each pair of values, three for each of six values at each of two places, and its own.
    assert graph.flops == 4 * (6 * 6 * 6 + 3 * 6 * 2) + flops
    same_on_tiles(graph, values)


OUTSIDE: dict[str, Callable[[GraphBuilder, Ref, Ref, Ref], Ref]] = {
    "take": lambda b, x, i, at: b.take(b.transpose(x), b.select(i, 1, 0), at),
    "gather": lambda b, x, i, at: b.gather(x, i, at),
    "scatter": lambda b, x, i, at: b.scatter(b.slice(x, 1, 0, 2), i, at, 6),
    "add_rows": lambda b, x, i, at: b.add_rows(x, b.select(i, 1, 0), at, 6),
}


@pytest.mark.parametrize("number", [-1, 6, 2.5, np.nan])
@pytest.mark.parametrize("name", OUTSIDE)
def test_numbers_that_are_no_position_are_named(name: str, number: float) -> None:
    b = GraphBuilder("chosen", dtype="f32")
    x, positions, i = b.input("x", X.shape), b.input("positions", (6,)), b.input("i", (4, 2))
    b.output(OUTSIDE[name](b, x, b.scale(i, 1.0), positions), "y")
    graph, values = b.graph(), {"x": X, "positions": np.arange(6)}
    good = np.array([[1, 0], [2, 4], [5, 3], [0, 1]])
    graph.evaluate({**values, "i": good})
    wrong = good.astype(float)
    wrong[2, 0] = number
    said = f"operator '{name}'.*: {number:g} of 'scale' is not one of its positions, 0 to 5; give"
    with pytest.raises(CompileError, match=said):
        graph.evaluate({**values, "i": wrong})


def test_of_equal_values_the_first_comes_first() -> None:
    b = GraphBuilder("chosen", dtype="f32")
    x, positions = b.input("x", (5,)), b.input("positions", (5,))
    rank = b.rank(x, positions, least=True)
    b.output(rank, "rank")
    b.output(b.ranked(rank, positions, 3, x), "y")
    found = b.graph().evaluate({"x": [2, 1, 2, -np.inf, 1], "positions": range(5)})
    assert found["rank"].tolist() == [3, 1, 4, 0, 2]
    assert found["y"].tolist() == [-np.inf, 1, 1]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda b, x, at: b.ranked(b.rank(x, at), at, 9), "count is 9; use an int from 1 to 6"),
        (lambda b, x, at: b.take(x, x, b.slice(at, 0, 0, 3), 1), "give the numbers from 0 to 5"),
        (lambda b, x, at: b.gather(x, at, at), "has 1 axes, expected 2; reshape it"),
        (lambda b, x, at: b.einsum(["ab", "bb"], "a", x, x), "give each axis a letter of its own"),
        (lambda b, x, at: b.einsum(["ab"], "a", x, x), "1 texts for 2 inputs"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, said: str) -> None:
    b = GraphBuilder("chosen", dtype="f32")
    with pytest.raises(CompileError) as caught:
        make(b, b.input("x", (6, 6)), b.input("positions", (6,)))
    assert said in str(caught.value)
