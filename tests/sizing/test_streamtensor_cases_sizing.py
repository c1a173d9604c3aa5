"""Networks of stepping kernels: runs, searches and linear programs against independent values."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import pytest

from stepsim.reproduce.streamtensor.path_program import path_delays
from stepsim.reproduce.streamtensor.sizing_methods import greedy_depths
from stepsim.reproduce.streamtensor.stepping_runs import (
    NetworkRun,
    network_problem,
    run_network,
    solved_network,
)
from stepsim.sizing import Trials, solved
from stepsim.sizing.rates import (
    asap,
    depths_of_starts,
    intervals,
    lower_bounds,
    planned_depths,
    start_times,
)
from tests.design.cases import cases_of, each_case, needs_cases, network_of, ratio
from tests.sizing.drawn_networks import least_alone, least_uniform

TOLERANCE = 1e-6
MOST_MEAN_SLOTS = 1.05
SOURCES: tuple[Literal["zero", "free"], ...] = ("zero", "free")


def weighted(delays: Sequence[int], weights: Sequence[float] | None) -> float:
    """The sum of delays."""
    every = [1.0] * len(delays) if weights is None else weights
    return sum(delay * weight for delay, weight in zip(delays, every, strict=True))


@each_case("sizing")
def test_streamtensor_cases_runs(case: dict[str, Any]) -> None:
    network, expected = network_of(case), case["expected"]
    fifos = len(network.fifos)
    starts = [int(takes[0]) for takes in network.takes]
    assert {
        "makespan": network.cycles,
        "start": starts,
        "first_step_done": [
            start + kernel.latency for start, kernel in zip(starts, network.kernels, strict=True)
        ],
        "peak": list(network.peaks),
    } == expected["unbounded"]
    unbounded = run_network(network, [None] * fifos)
    assert (unbounded.makespan, unbounded.takes) == (
        network.cycles,
        [takes.tolist() for takes in network.takes],
    )
    assert list(network.tokens) == expected["tokens"]
    for depth in (1, 2):
        run = run_network(network, [depth] * fifos)
        assert {"deadlock": run.deadlock, "makespan": run.makespan} == expected[f"depth{depth}"]
    for bounded in expected["bounded_runs"]:
        assert run_network(network, bounded["depths"]).makespan == bounded["makespan"]


@each_case("sizing")
def test_streamtensor_cases_searches(case: dict[str, Any]) -> None:
    network, expected = network_of(case), case["expected"]
    fifos = range(len(network.fifos))

    def fast(run: NetworkRun) -> bool:
        return run.makespan == network.cycles

    assert least_uniform(network) == expected["min_uniform_depth_no_deadlock"]
    assert least_uniform(network, fast) == expected["min_uniform_depth_full_speed"]
    assert [least_alone(network, e, fast) for e in fifos] == expected["edge_min_full_speed"]
    assert [least_alone(network, e) for e in fifos] == expected["edge_min_no_deadlock"]
    problem = network_problem(network)
    greedy = greedy_depths(problem, Trials(problem.judges), fifos).tolist()
    assert {"total": sum(greedy), "depths": greedy} == expected["greedy_slots"]
    least = solved(problem, network.peaks, budget=100_000)
    assert least is not None
    assert least.proved
    assert least.depths.sum() == expected["min_slots"]["total"]
    assert fast(run_network(network, least.depths))


@each_case("sizing")
def test_streamtensor_cases_linear_programs(case: dict[str, Any]) -> None:
    network, expected = network_of(case), case["expected"]
    own, lp = intervals(network, "normal"), expected["lp"]
    bounds = lower_bounds(network, own)
    assert (bounds, asap(network, bounds)) == (lp["edge_lower_bound"], lp["asap"])
    bits = [
        float(Fraction(f.bits, f.out_period * network.kernels[f.producer].interval))
        for f in network.fifos
    ]
    for sources in SOURCES:
        for name, weights in (("unit", None), ("bits", bits)):
            times = start_times(network, bounds, weights, sources=sources)
            delays = [times[fifo.consumer] - times[fifo.producer] for fifo in network.fifos]
            assert weighted(delays, weights) == pytest.approx(
                ratio(lp[f"{name}_sources_{sources}"]), abs=TOLERANCE
            )
            assert all(delay >= bound for delay, bound in zip(delays, bounds, strict=True))
            for kernel, earliest in enumerate(lp["asap"]):
                assert network.outputs[kernel] or times[kernel] <= earliest
                assert network.inputs[kernel] or sources == "free" or not times[kernel]
    for form in ("compact", "paths"):
        published = path_delays(network, bounds, form)
        assert published.objective == pytest.approx(ratio(lp["paths_published"]), abs=TOLERANCE)
    effective, lp = intervals(network, "effective"), expected["lp_effective"]
    assert [float(each) for each in effective] == [ratio(each) for each in lp["interval"]]
    later = lower_bounds(network, effective)
    assert (later, asap(network, later)) == (lp["edge_lower_bound"], lp["asap"])
    for sources in SOURCES:
        times = start_times(network, later, sources=sources)
        delays = [times[fifo.consumer] - times[fifo.producer] for fifo in network.fifos]
        assert sum(delays) == pytest.approx(ratio(lp[f"unit_sources_{sources}"]), abs=TOLERANCE)
    starts = {
        "asap": asap(network, bounds),
        "asap_effective": asap(network, later),
        "simulated_start": [int(takes[0]) for takes in network.takes],
    }
    for name, begun in starts.items():
        depths = depths_of_starts(network, begun, own)
        assert {
            "depths": list(depths),
            "total": sum(depths),
            "makespan": run_network(network, depths).makespan,
        } == expected["sized"][name]


@needs_cases("sizing")
def test_streamtensor_cases_planned_repaired_and_shrunk() -> None:
    cases = cases_of("sizing")
    ratios = []
    for case in cases:
        network, least = network_of(case), case["expected"]["min_slots"]["total"]
        planned = planned_depths(network, "conservative")
        depths = solved_network(network, planned, budget=2000).depths
        assert run_network(network, depths).makespan == network.cycles
        assert depths.sum() >= least
        ratios.append(depths.sum() / least)
    assert sum(ratios) <= MOST_MEAN_SLOTS * len(ratios)
