"""Linear programs for FIFO depths on random networks: speed, memory, deadlocks, known traps."""

from __future__ import annotations

from itertools import pairwise

import pytest

from stepsim.errors import CompileError
from stepsim.reproduce.streamtensor.path_program import path_delays
from stepsim.reproduce.streamtensor.sizing_methods import greedy_depths
from stepsim.reproduce.streamtensor.stepping_runs import (
    blamed,
    network_problem,
    run_network,
    solved_network,
)
from stepsim.sizing import Trials
from stepsim.sizing.rates import (
    Fifo,
    FifoNetwork,
    SteppingKernel,
    depths_of_delays,
    intervals,
    lower_bounds,
    planned_depths,
    start_times,
)
from tests.sizing.drawn_networks import least_alone, rate_networks, same_rate_networks

FIVE = FifoNetwork(
    tuple(SteppingKernel(32, 1, latency) for latency in (5, 2, 11, 5, 11)),
    tuple(Fifo(*link) for link in ((0, 1), (0, 2), (1, 3), (2, 3), (1, 4))),
)


@pytest.mark.slow
def test_the_compact_form_is_the_program_over_paths() -> None:
    for network in same_rate_networks(5, 300, most_interval=4, tokens=8, most_kernels=8):
        bounds = lower_bounds(network, intervals(network, "normal"))
        compact, paths = (path_delays(network, bounds, form) for form in ("compact", "paths"))
        assert compact.objective == pytest.approx(paths.objective, abs=1e-6)


@pytest.mark.long
def test_kernels_of_one_interval_keep_their_speed() -> None:
    for network in same_rate_networks(6, 1000, most_interval=1, tokens=32):
        assert run_network(network, planned_depths(network)).makespan == network.cycles


@pytest.mark.slow
def test_conservative_depths_of_mixed_intervals_are_small_and_repaired_ones_fast() -> None:
    slots = dict.fromkeys(("full", "planned", "repaired", "greedy"), 0)
    slowdowns, runs = [], 0
    for network in same_rate_networks(7, 150, most_interval=4, tokens=64):
        planned = planned_depths(network, "conservative")
        makespan = run_network(network, planned).makespan
        assert makespan is not None
        slowdowns.append(makespan / network.cycles - 1)
        repaired = solved_network(network, planned)
        assert run_network(network, repaired.depths).makespan == network.cycles
        runs += repaired.simulations
        problem = network_problem(network)
        greedy = greedy_depths(problem, Trials(problem.judges), range(len(network.fifos)))
        slots["full"] += sum(network.tokens)
        slots["planned"] += sum(planned)
        slots["repaired"] += int(repaired.depths.sum())
        slots["greedy"] += int(greedy.sum())
    assert sum(slowdowns) <= 0.01 * len(slowdowns)
    assert slots["planned"] <= 0.05 * slots["full"]
    assert slots["repaired"] <= 0.06 * slots["full"]
    assert slots["repaired"] <= 1.3 * slots["greedy"]
    assert runs <= 5 * len(slowdowns)


def test_equal_optima_of_the_published_program_differ_in_speed() -> None:
    paces = intervals(FIVE, "normal")
    bounds = lower_bounds(FIVE, paces)
    published = path_delays(FIVE, bounds)
    # Both meet every path and the least sum; the first holds kernel 1 up, and so kernel 4.
    late, early = (15, 6, 3, 12, 3), (6, 6, 12, 12, 3)
    for delays in (late, early):
        assert sum(delays) == published.objective == 39
        ways = ((delays[0] + delays[2]), (delays[1] + delays[3]))
        assert min(ways) >= bounds[1] + bounds[3]
        assert all(delay >= bound for delay, bound in zip(delays, bounds, strict=True))
    assert run_network(FIVE, depths_of_delays(FIVE, late, paces)).makespan == 60
    assert run_network(FIVE, depths_of_delays(FIVE, early, paces)).makespan == 54
    assert run_network(FIVE, planned_depths(FIVE)).makespan == FIVE.cycles == 54


def softmax(row: int, rows: int) -> FifoNetwork:
    """A row is summed, and its tokens wait for the sum in FIFO 2."""
    steps = row * rows
    return FifoNetwork(
        tuple(SteppingKernel(steps, 1, 1, name) for name in ("exp", "sum", "divide")),
        (Fifo(0, 1), Fifo(1, 2, row, row), Fifo(0, 2)),
    )


@pytest.mark.parametrize("row", [4, 16, 64, 128])
def test_a_bypass_holds_a_row(row: int) -> None:
    network = softmax(row, rows=4)
    short = run_network(network, (1, 1, row - 1))
    assert short.deadlock
    assert 2 in blamed(short)
    assert not run_network(network, (1, 1, row)).deadlock
    for equalization in ("normal", "effective", "conservative"):
        depths = planned_depths(network, equalization)
        assert row <= depths[2] <= row + 3
        assert run_network(network, depths).makespan == network.cycles


@pytest.mark.long
def test_random_rate_changes_never_deadlock_with_effective_intervals() -> None:
    networks = list(rate_networks(8, 600))
    own = fast = 0
    for network in networks:
        depths = planned_depths(network)
        run = run_network(network, depths)
        assert not run.deadlock
        fast += run.makespan == network.cycles
        repaired = solved_network(network, depths).depths
        assert run_network(network, repaired).makespan == network.cycles
        own += run_network(network, planned_depths(network, "normal")).deadlock
    assert fast >= 0.95 * len(networks)
    # With the intervals of kernels by themselves a reduction's delay is too short (0b, item 7).
    assert own > 10


@pytest.mark.slow
def test_a_slot_less_than_the_least_without_deadlock_deadlocks() -> None:
    tight = 0
    for network in rate_networks(9, 150):
        for fifo in range(len(network.fifos)):
            depth = least_alone(network, fifo)
            if depth == 1:
                continue
            tight += 1
            depths: list[int | None] = [None] * len(network.fifos)
            depths[fifo] = depth - 1
            run = run_network(network, depths)
            assert run.deadlock
            assert blamed(run) == {fifo}
            # What is planned is never below it.
            assert planned_depths(network)[fifo] >= depth
    assert tight > 50


def test_sources_may_start_when_it_is_best() -> None:
    # Kernel 1 has no input; its token is needed once kernel 2 has had that of kernel 0.
    network = FifoNetwork(
        tuple(SteppingKernel(8, 1, latency) for latency in (20, 1, 1)), (Fifo(0, 2), Fifo(1, 2))
    )
    bounds = lower_bounds(network, intervals(network))
    assert start_times(network, bounds) == (0, 0, 21)
    assert start_times(network, bounds, sources="free") == (0, 19, 21)


@pytest.mark.slow
def test_too_many_paths_and_uneven_rates_are_refused() -> None:
    layers = [range(4 * k, 4 * k + 4) for k in range(10)]
    links = [(a, b) for one, other in pairwise(layers) for a in one for b in other]
    network = FifoNetwork((SteppingKernel(1, 1, 1),) * 40, tuple(Fifo(*link) for link in links))
    bounds = lower_bounds(network, intervals(network))
    with pytest.raises(CompileError, match=r'40 kernels has more than 100000 paths; use form="com'):
        path_delays(network, bounds, "paths")
    with pytest.raises(CompileError, match=r"FIFO 0: 'a' pushes a token every 2 of its 8 steps"):
        FifoNetwork((SteppingKernel(8, 1, 1, "a"), SteppingKernel(8, 1, 1)), (Fifo(0, 1, 2),))
    with pytest.raises(CompileError, match="FIFO 0 must lead from a kernel to a later one of 1"):
        FifoNetwork((SteppingKernel(8, 1, 1),), (Fifo(0, 0),))
    with pytest.raises(CompileError, match="kernel 'a': expected 1 step or more"):
        FifoNetwork((SteppingKernel(0, 1, 1, "a"),), ())
    with pytest.raises(CompileError, match=r"one number from 1, or None, for each of 5 FIFOs"):
        run_network(FIVE, [1, 0, 1, 1, 1])
