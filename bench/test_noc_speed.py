"""Networks alone, in CPU time of the compiled engines; printed with ``-s``.

Goals on a quiet core: `link` 5 M hops of segments per second; `npe` a trace of Wormhole in
milliseconds. Limits are half of them, for cores that are not quiet.
"""

from __future__ import annotations

import time

import pytest

from bench.yardsticks import link_traffic, uniform_packets
from stepsim.kernels import run_link_traffic
from stepsim.machine import load_network
from stepsim.noc import simulate
from stepsim.reproduce.noc.cases import recorded_traces
from tests.shared import NOC_CASES, recorded

_TURNS = 5
_GOAL = 5.0
_MILLISECONDS = 10.0


@pytest.mark.parametrize("flits", [1, 4, 16])
@pytest.mark.parametrize("load", [0.2, 0.4])
def test_link_speed(flits: int, load: float) -> None:
    created, source, to = uniform_packets(flits, load, 1_000_000)
    fastest, hops = float("inf"), 0
    for _ in range(_TURNS):
        traffic = link_traffic(created, source, to, flits)
        start = time.process_time()
        hops = run_link_traffic(traffic)
        fastest = min(fastest, time.process_time() - start)
    millions = hops / fastest / 1e6
    print(f"{flits} flits, load {load}: {hops:,} hops, {millions:.1f} M/s (goal {_GOAL:g})")
    assert millions > _GOAL / 2


@recorded(NOC_CASES)
@pytest.mark.parametrize("model", ["npe", "flow", "link"])
def test_trace_speed(model: str) -> None:
    traces = [trace for _, trace in recorded_traces(NOC_CASES)]
    ready = [(trace.traffic("wormhole"), load_network("wormhole")) for trace in traces]
    fastest = float("inf")
    for _ in range(_TURNS):
        start = time.process_time()
        for traffic, network in ready:
            simulate(traffic, network, model=model)
        fastest = min(fastest, time.process_time() - start)
    each = 1e3 * fastest / len(traces)
    print(f"{model}: {len(traces)} traces in {fastest:.3f} s, {each:.2f} ms each")
    assert each < 2 * _MILLISECONDS
