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
from stepsim.sizing import Found, Problem, Trials, solved
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
