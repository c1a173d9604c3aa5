"""Every recorded run of ASTRA-sim, analytical networks and collectives, to the ns."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from stepsim.machine import Chips
from stepsim.noc import simulate_chips, simulate_collective
from tests.shared import NOC_CASES, recorded

pytestmark = recorded(NOC_CASES)

_TOPOLOGIES = {"Ring": "ring", "FullyConnected": "fully-connected", "Switch": "switch"}
_ALGORITHMS = {"halvingDoubling": "halving-doubling"}


def _chips(dims: list[Any]) -> Chips:
    topology, count, bandwidth, latency = zip(*dims, strict=True)
    return Chips(
        topology=[_TOPOLOGIES[one] for one in topology], count=count,
        gib_per_s=bandwidth, latency_ns=latency,
    )  # fmt: skip


def _one(case: dict[str, Any]) -> Chips:
    return _chips([[case[name] for name in ("topology", "n", "bandwidth", "latency")]])


def _columns(names: str, case: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(names.split(), zip(*case["messages"], strict=True), strict=True))


def _of_messages(case: dict[str, Any]) -> None:
    run = simulate_chips(_columns("time source destination bytes", case), _one(case))
    assert run.arrived_ns.tolist() == case["arrival"]
    assert run.last_event_ns == case["last_event"]


def _of_delays(case: dict[str, Any]) -> None:
    messages = _columns("source destination bytes", case)
    run = simulate_chips(messages, _chips(case["dims"]), congestion=False)
    assert run.arrived_ns.tolist() == case["delay"]


def _of_collective(case: dict[str, Any]) -> None:
    kind = case["kind"].replace("_", "-")
    adds = kind in ("all-reduce", "reduce-scatter")
    run = simulate_collective(
        kind, case["size"], _one(case),
        algorithm=_ALGORITHMS.get(case["algorithm"], case["algorithm"]),
        splits=case["splits"], endpoint_ns=case["endpoint_delay"],
        memory_gbps=case["local_mem_bw"] if adds else None,
    )  # fmt: skip
    assert run.finish_ns.tolist() == case["finish"]


_FILES: dict[str, Callable[[dict[str, Any]], None]] = {
    "analytical_aware": _of_messages,
    "analytical_unaware": _of_delays,
    "analytical_collective": _of_collective,
}


@pytest.mark.parametrize("name", _FILES)
def test_noc_cases_of_chips(name: str) -> None:
    lines = (NOC_CASES / f"{name}.jsonl").read_text("utf-8").splitlines()
    cases = [json.loads(line) for line in lines]
    assert cases
    wrong = []
    for case in cases:
        try:
            _FILES[name](case)
        except AssertionError:
            wrong.append(case["id"])
    assert not wrong, f"{len(wrong)} of {len(cases)} cases: {wrong[:10]}"
