"""Searches for depths of random networks: blame, repair, and what is proved."""

from __future__ import annotations

from itertools import product
from math import prod
from random import Random

import pytest

from stepsim.errors import CompileError
from stepsim.sizing.blame import blamed
from stepsim.sizing.network import Fifo, FifoNetwork, SteppingKernel
from stepsim.sizing.network_search import Search
from tests.sizing.drawn_networks import rate_networks


def test_only_a_blamed_fifo_can_help() -> None:
    random = Random(1)
    late = stuck = 0
    for network in rate_networks(21, 200):
        search = Search(network)
        depths = [random.randint(1, peak) for peak in network.peaks]
        if search.enough(depths):
            continue
        run = network.run(depths)
        found = blamed(run)
        assert found
        freed = [depth if fifo in found else None for fifo, depth in enumerate(depths)]
        again = network.run(freed)
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
        weights = [fifo.bits for fifo in network.fifos]
        search = Search(network, weights=weights)
        # Where others are shallow, a FIFO may need more than it held without bounds.
        most = [min(peak + 2, n) for peak, n in zip(network.peaks, network.tokens, strict=True)]
        if prod(most) > 1000:
            continue
        choices = product(*(range(1, top + 1) for top in most))
        best = min(search.cost(choice) for choice in choices if search.enough(choice))
        for sized in (Search(network, weights=weights).least(), search.shrunk(network.peaks)):
            assert sized.proved
            assert search.enough(sized.depths)
            inside = all(d <= top for d, top in zip(sized.depths, most, strict=True))
            assert search.cost(sized.depths) == best if inside else search.cost(sized.depths) < best
        tried += 1
    assert tried > 15


def test_a_slowdown_buys_slots() -> None:
    fewer = 0
    for network in rate_networks(23, 40):
        exact, slower = Search(network), Search(network, slowdown=0.1)
        assert slower.target == int(exact.target * 1.1 + 1e-9)
        one, other = exact.least(), slower.least()
        assert sum(other.depths) <= sum(one.depths)
        fewer += sum(other.depths) < sum(one.depths)
    assert fewer > 5


def test_a_budget_ends_the_search_with_depths_that_are_enough() -> None:
    unproved = 0
    for network in rate_networks(24, 100):
        search = Search(network)
        sized = search.shrunk(network.peaks, budget=0)
        assert search.enough(sized.depths)
        unproved += not sized.proved
    assert unproved > 5


def test_too_few_runs_are_said() -> None:
    # Kernel 3 waits for both branches; the short one has to hold what the long one delays.
    network = FifoNetwork(
        tuple(SteppingKernel(16, 1, latency) for latency in (1, 12, 1, 1)),
        (Fifo(0, 1), Fifo(0, 2), Fifo(1, 3), Fifo(2, 3)),
    )
    least = Search(network).least()
    assert sum(least.depths) > 4
    with pytest.raises(CompileError, match="4 FIFOs are not proved after 0 runs; allow more"):
        Search(network).least(most_runs=0)
