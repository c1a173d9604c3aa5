"""Unrolling: the heap and the optimum against independent values."""

from __future__ import annotations

from typing import Any

import pytest

from stepsim.design.passes.loops.unrolling import Unrollable, exact, heap_skip, heap_stop
from stepsim.errors import CompileError
from tests.design.cases import each_case


@each_case("dse")
def test_streamtensor_cases_unrolling(case: dict[str, Any]) -> None:
    kernels = [
        Unrollable(k["macs"], tuple(k["factors"]), k["unit_cost"], k["fixed"], f"k{i}")
        for i, k in enumerate(case["kernels"])
    ]
    expected, budget = case["expected"], case["budget"]
    if not expected["feasible"]:
        for method in (exact, heap_stop, heap_skip):
            with pytest.raises(CompileError, match=f"budget of {budget} is less"):
                method(kernels, budget)
        return
    best = exact(kernels, budget)
    assert best.latency == expected["min_max_latency"]
    assert best.resource == expected["min_resource_at_latency"]
    assert list(best.factors) == expected["witness_factors"]
    for method, name in ((heap_stop, "heap_stop"), (heap_skip, "heap_skip")):
        found, heap = method(kernels, budget), expected[name]
        assert list(found.factors) == heap["factors"]
        assert (found.latency, found.resource) == (heap["latency"], heap["resource"])
    stop = heap_stop(kernels, budget)
    assert (stop.latency == best.latency) == expected["heap_stop_is_minmax_optimal"]
    assert stop.resource - best.resource == expected["heap_stop_resource_excess"]
