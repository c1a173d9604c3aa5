"""Networks of stepping kernels: runs, searches and linear programs against independent values."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

import pytest

from stepsim.sizing.linear_programs import (
    asap,
    depths_of,
    intervals,
    lower_bounds,
    path_delays,
    planned_depths,
    start_times,
)
from stepsim.sizing.network_search import Search
from tests.design.cases import cases_of, each_case, needs_cases, network_of, ratio

TOLERANCE = 1e-6
MOST_MEAN_SLOTS = 1.05
SOURCES: tuple[Literal["zero", "free"], ...] = ("zero", "free")


@each_case("sizing")
def test_streamtensor_cases_runs(case: dict[str, Any]) -> None:
    network, expected = network_of(case), case["expected"]
    unbounded = network.unbounded
    fifos = len(network.fifos)
    assert {
        "makespan": unbounded.makespan,
        "start": list(unbounded.starts),
        "first_step_done": [done[0] for done in unbounded.dones],
        "peak": [unbounded.peak(fifo) for fifo in range(fifos)],
    } == expected["unbounded"]
    assert list(network.tokens) == expected["tokens"]
    for depth in (1, 2):
        run = network.run([depth] * fifos)
        assert {"deadlock": run.deadlock, "makespan": run.makespan} == expected[f"depth{depth}"]
    for bounded in expected["bounded_runs"]:
        assert network.run(bounded["depths"]).makespan == bounded["makespan"]


@each_case("sizing")
def test_streamtensor_cases_searches(case: dict[str, Any]) -> None:
    network, expected = network_of(case), case["expected"]
    search = Search(network)
    fifos = range(len(network.fifos))
    assert search.uniform(search.ends) == expected["min_uniform_depth_no_deadlock"]
    assert search.uniform(search.enough) == expected["min_uniform_depth_full_speed"]
    assert [search.alone(e, search.enough) for e in fifos] == expected["edge_min_full_speed"]
    assert [search.alone(e, search.ends) for e in fifos] == expected["edge_min_no_deadlock"]
    greedy = search.greedy(network.peaks)
    assert {"total": sum(greedy), "depths": list(greedy)} == expected["greedy_slots"]
    least = Search(network).least()
    assert sum(least.depths) == expected["min_slots"]["total"]
    assert search.enough(least.depths)


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
            found = start_times(network, bounds, weights, sources=sources)
            assert found.objective == pytest.approx(
                ratio(lp[f"{name}_sources_{sources}"]), abs=TOLERANCE
            )
            for fifo, bound in zip(network.fifos, bounds, strict=True):
                assert found.times[fifo.consumer] - found.times[fifo.producer] >= bound
            for kernel, earliest in enumerate(lp["asap"]):
                assert network.outputs[kernel] or found.times[kernel] <= earliest
                assert network.inputs[kernel] or sources == "free" or not found.times[kernel]
    for form in ("compact", "paths"):
        published = path_delays(network, bounds, form)
        assert published.objective == pytest.approx(ratio(lp["paths_published"]), abs=TOLERANCE)
    effective, lp = intervals(network, "effective"), expected["lp_effective"]
    assert [float(each) for each in effective] == [ratio(each) for each in lp["interval"]]
    later = lower_bounds(network, effective)
    assert (later, asap(network, later)) == (lp["edge_lower_bound"], lp["asap"])
    for sources in SOURCES:
        found = start_times(network, later, sources=sources)
        assert found.objective == pytest.approx(ratio(lp[f"unit_sources_{sources}"]), abs=TOLERANCE)
    starts = {
        "asap": asap(network, bounds),
        "asap_effective": asap(network, later),
        "simulated_start": network.unbounded.starts,
    }
    for name, times in starts.items():
        depths = depths_of(network, times, own)
        assert {
            "depths": list(depths),
            "total": sum(depths),
            "makespan": network.run(depths).makespan,
        } == expected["sized"][name]


@needs_cases("sizing")
def test_streamtensor_cases_planned_repaired_and_shrunk() -> None:
    cases = cases_of("sizing")
    ratios = []
    for case in cases:
        network, least = network_of(case), case["expected"]["min_slots"]["total"]
        search = Search(network)
        repaired = search.repaired(planned_depths(network, "conservative"))
        depths = search.shrunk(repaired.depths).depths
        assert network.run(depths).makespan == case["expected"]["unbounded"]["makespan"]
        assert sum(depths) >= least
        ratios.append(sum(depths) / least)
    assert sum(ratios) <= MOST_MEAN_SLOTS * len(ratios)
