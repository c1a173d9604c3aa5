"""The search for depths on random networks: blame, repair, and what is proved."""

from __future__ import annotations

from itertools import product
from math import prod
from random import Random

import numpy as np
import pytest

from stepsim.reproduce.streamtensor.stepping_runs import (
    blamed,
    network_problem,
    run_network,
    solved_network,
)
from stepsim.sizing import Found, Problem, Trials, Verdict, solved
from stepsim.sizing.judge import STUCK
from tests.sizing.drawn_networks import rate_networks


def least(problem: Problem) -> Found:
    """The least depths, with as many runs as that takes."""
    found = solved(problem, problem.peaks, budget=100_000)
    assert found is not None
    assert found.proved
    return found


def test_only_a_blamed_fifo_can_help() -> None:
    random = Random(1)
    late = stuck = 0
    for network in rate_networks(21, 200):
        depths = [random.randint(1, peak) for peak in network.peaks]
        run = run_network(network, depths)
        if run.makespan == network.cycles:
            continue
        found = blamed(run)
        assert found
        freed = [depth if fifo in found else None for fifo, depth in enumerate(depths)]
        again = run_network(network, freed)
        if run.deadlock:
            assert again.deadlock
            stuck += 1
        else:
            assert run.makespan is not None
            assert again.makespan is None or again.makespan >= run.makespan
            late += 1
    assert min(late, stuck) > 10


@pytest.mark.slow
def test_nothing_is_less_than_what_is_proved() -> None:
    tried = 0
    for network in rate_networks(22, 120):
        problem = network_problem(network, weights=[fifo.bits for fifo in network.fifos])
        # Where others are shallow, a FIFO may need more than it held without bounds.
        most = [min(peak + 2, n) for peak, n in zip(network.peaks, network.tokens, strict=True)]
        if prod(most) > 1000:
            continue
        trials = Trials(problem.judges)
        choices = map(np.array, product(*(range(1, top + 1) for top in most)))
        best = min(problem.cost(choice) for choice in choices if trials.enough(choice))
        found = least(problem)
        assert trials.enough(found.depths)
        cost = problem.cost(found.depths)
        assert cost == best if (found.depths <= most).all() else cost < best
        tried += 1
    assert tried > 15


def test_a_slowdown_buys_slots() -> None:
    fewer = 0
    for network in rate_networks(23, 40):
        one, other = (
            least(network_problem(network, slowdown=each)).depths.sum() for each in (0.0, 0.1)
        )
        assert other <= one
        fewer += other < one
    assert fewer > 5


@pytest.mark.parametrize("budget", [0, 3])
def test_a_budget_ends_the_search_with_depths_that_are_enough(budget: int) -> None:
    unproved = 0
    for network in rate_networks(24, 100):
        found = solved_network(network, network.peaks, budget=budget)
        assert run_network(network, found.depths).makespan == network.cycles
        assert found.simulations <= budget + 1
        unproved += not found.proved
    assert unproved > 5


def test_few_runs_shrink_most_of_deep_fifos() -> None:
    """One FIFO of many must be deep; bounding each alone would take all of the runs."""
    deep = np.full(32, 1 << 16)
    needed = np.ones(32, np.int64)
    needed[5] = 100
    made = Problem(
        judges=[
            lambda depths: Verdict(bool((depths >= needed).all()), 1, lambda: needed - depths > 0)
        ],
        weights=np.ones(32, np.int64),
        peaks=deep,
        most=deep,
    )
    found = solved(made, deep, budget=60)
    assert found is not None
    assert made.cost(found.depths) < 300


def test_shallow_depths_that_are_enough_replace_planned_ones() -> None:
    runs = []

    def judge(depths: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Verdict:
        runs.append(depths.tolist())
        return Verdict(depths[0] >= 3, 1, lambda: np.array([1]))

    made = Problem([judge], np.ones(1, np.int64), np.array([50]), np.array([50]))
    found = solved(made, [50], shallow=[np.array([2]), np.array([4])], budget=0)
    assert found is not None
    assert found.depths.tolist() == [4]
    assert runs[:2] == [[2], [4]]
    assert [50] not in runs
    none = solved(made, [50], shallow=[np.array([2])], budget=0)
    assert none is not None
    assert none.depths.tolist() == [50]


def test_a_deadlock_of_shallow_depths_deepens_only_full_fifos() -> None:
    """Two shortcuts, of which the second deadlocks once the first is deep; a load is full too."""
    runs = []

    def judge(depths: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Verdict:
        runs.append(depths.tolist())
        if depths[0] < 40:
            return Verdict(False, 1, lambda: np.array([STUCK, 0, STUCK, 0]))
        return Verdict(depths[1] >= 40, 1, lambda: np.array([0, STUCK, STUCK, 9]))

    peaks = np.array([50, 60, 1000, 70])
    made = Problem([judge], np.ones(4, np.int64), peaks, peaks)
    shallow, raised = np.array([1, 1, 64, 1]), np.array([50, 60, 64, 70])
    found = solved(made, peaks, shallow=[shallow], raised=raised, budget=0)
    assert found is not None
    assert runs == [[1, 1, 64, 1], [50, 1, 64, 1], [50, 60, 64, 1]]
    assert found.depths.tolist() == [50, 60, 64, 1]
    kept = solved(made, peaks, shallow=[shallow], budget=0)
    assert kept is not None
    assert kept.depths.tolist() == peaks.tolist()
