"""Make one run: build its program, simulate it, and measure it as the published figures do."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stepsim.machine import load_machine
from stepsim.reproduce.inputs import Inputs
from stepsim.reproduce.points import Run
from stepsim.simulation.case import Case
from stepsim.workloads import resolve
from stepsim.workloads.loading import find_workload

__all__ = ["Outcome", "make"]


COUNTING = "published"
"""How bytes and FLOPs are counted, to compare with the figures."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run cost, as the published figures count it.

    Attributes
    ----------
    measures : columns of `stepsim.results.columns`.
    wall_seconds : the simulation alone.
    seconds : building, lowering, simulating and measuring.
    problem : why a run is not ok, else empty.
    """

    status: str
    measures: Mapping[str, Any]
    program_hash: str
    wall_seconds: float
    seconds: float
    problem: str = ""

    @property
    def cycles(self) -> int:
        return int(self.measures["cycles"])


def make(run: Run, inputs: Inputs) -> Outcome:
    """Build, simulate and measure.

    Raises
    ------
    TraceError : a trace cannot be used.
    """
    begin = time.perf_counter()
    data = inputs.data(run)
    source = find_workload(run.workload)
    machine = load_machine(run.machine, {"closure_slack": run.closure_slack})
    resolved = resolve(source.load(), run.given, machine=machine, config="published", data=[data])
    case = Case(source, resolved, data, machine, COUNTING)
    result = case.result(data)
    measured = case.measures(result, data)
    return Outcome(
        status=result.status,
        measures=measured,
        program_hash=str(result.provenance["program_hash"]),
        wall_seconds=result.wall_seconds,
        seconds=time.perf_counter() - begin,
        problem="" if result.diagnosis is None else str(result.diagnosis),
    )
