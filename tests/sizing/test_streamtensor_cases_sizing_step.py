"""Networks of units with bounded FIFOs: the engine, and the model of stepping kernels beside it."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

from tests.design.cases import each_case, network_of
from tests.sizing.sizing_cases import runs_of, sizing_case, uniform_depth

UNITS_AROUND = 2
"""Cycles by which a run of units takes longer than the kernels that they stand for."""


@each_case("sizing_step")
def test_streamtensor_cases_units(case: dict[str, Any]) -> None:
    units, expected = sizing_case(case), case["expected"]
    sized = runs_of(units.network, units.sized)
    assert sized.cycles == (expected["unbounded_cycles"],)
    (runs,) = sized.run([np.array(run["depths"]) for run in expected["runs"]])
    for status, cycles, run in zip(runs.status, runs.cycles, expected["runs"], strict=True):
        assert (status == "deadlock") == run["deadlock"]
        assert run["deadlock"] or cycles == run["cycles"]
    assert uniform_depth(sized) == expected["min_uniform_depth_full_speed"]
    fifos = len(units.sized)
    ends = (d for d in count(1) if sized.run([np.full(fifos, d)])[0].status[0] == "ok")
    assert next(ends) == expected["min_uniform_depth_no_deadlock"]


@each_case("sizing_step")
def test_streamtensor_cases_kernels_of_units(case: dict[str, Any]) -> None:
    makespan, expected = network_of(case).cycles, case["expected"]
    assert makespan == expected["makespan_of_the_kernel_model"]
    assert makespan + UNITS_AROUND == expected["unbounded_cycles"]
