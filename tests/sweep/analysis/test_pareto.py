"""Frontier and improvement distance against cases worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from stepsim.errors import ArgError
from stepsim.sweep import dominates, frontier, pareto_improvement_distance
from tests.property_profile import profile

CYCLES_AND_BYTES = [(8, 1), (4, 2), (4, 3), (2, 4), (3, 4), (1, 9)]


def test_frontier_by_hand() -> None:
    # (4, 3) is no better than (4, 2) anywhere, (3, 4) no better than (2, 4).
    assert frontier(CYCLES_AND_BYTES) == [5, 3, 1, 0]
    assert frontier([(1, 1)]) == [0]
    assert frontier([]) == []


def test_equal_points_stay_together() -> None:
    assert frontier([(2, 2), (1, 3), (2, 2), (2, 3)]) == [1, 0, 2]


def test_frontier_of_three_objectives() -> None:
    assert frontier([(1, 2, 3), (1, 2, 4), (2, 1, 3), (9, 9, 1)]) == [0, 2, 3]


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [((1, 1), (2, 2), True), ((1, 2), (2, 2), True), ((2, 2), (2, 2), False),
     ((1, 3), (2, 2), False), ((3, 3), (2, 2), False)],
)  # fmt: skip
def test_dominates(p: tuple[int, int], q: tuple[int, int], expected: bool) -> None:
    assert dominates(p, q) is expected


@pytest.mark.parametrize(
    ("point", "distance"),
    [
        # Against (4, 2): 4/2 and 2/2, so 2; (2, 4) gives 2, (1, 9) 4.5, (8, 1) 4.
        ((2, 2), 2.0),
        # One objective equal, the other a quarter better than (4, 2); the rest gain more.
        ((4, 1.6), 1.25),
        # On the frontier.
        ((4, 2), 1.0),
        # Behind it: (4, 2) is better in both; the nearer ratio is 4/5.
        ((5, 4), 0.8),
        # Good in one objective only: (1, 9) is 9/100 in the second but equal in the first.
        ((1, 100), 1.0),
    ],
)
def test_distance_by_hand(point: tuple[float, float], distance: float) -> None:
    assert pareto_improvement_distance(point, CYCLES_AND_BYTES) == pytest.approx(distance)


COSTS = st.tuples(*[st.integers(1, 1000)] * 2)


@profile(50)
@given(COSTS, st.lists(COSTS, min_size=1, max_size=12))
def test_only_the_frontier_matters(point: tuple[int, int], baseline: list[tuple[int, int]]) -> None:
    best = [baseline[i] for i in frontier(baseline)]
    distance = pareto_improvement_distance(point, baseline)
    assert distance == pareto_improvement_distance(point, best)
    # A point is beaten in everything exactly if its distance is below 1.
    assert (distance < 1) == any(all(b < p for b, p in zip(q, point, strict=True)) for q in best)
    for q in baseline:
        assert pareto_improvement_distance(q, baseline) <= 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pareto_improvement_distance((1, 2), []), "the baseline is empty"),
        (lambda: pareto_improvement_distance((1, 2), [(1,)]), "point 1 has 1 objectives, expect"),
        (lambda: pareto_improvement_distance((0, 2), [(1, 1)]), "point 0 has the cost 0 in obj"),
        (lambda: frontier([(1, 2), (3, float("inf"))]), "point 1 has the cost inf in objective 1"),
        (lambda: frontier([()]), "at least one"),
        (lambda: dominates((1, 2), (1, -2)), "point 1 has the cost -2 in objective 1"),
    ],
)
def test_bad_input(call, message) -> None:
    with pytest.raises(ArgError, match=message):
        call()
