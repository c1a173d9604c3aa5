"""Make one run: build its program, simulate it, and measure it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepsim.collection import without_collection
from stepsim.machine import Machine, load_machine
from stepsim.reproduce.inputs import Inputs
from stepsim.reproduce.points import Run
from stepsim.simulation.case import Case, counting_of
from stepsim.workloads import resolve
from stepsim.workloads.loading import Source, find_workload

__all__ = ["Outcome", "machine_of", "make", "source_of", "weight_of"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run was and what it cost.

    Attributes
    ----------
    settings : parameters and machine, by column, as `stepsim.simulation.case.Case.describe` says.
    measures : columns of `stepsim.results.columns`.
    wall_seconds : the simulation alone.
    seconds : building, lowering, simulating and measuring.
    problem : why a run is not ok, else empty.
    """

    status: str
    settings: Mapping[str, Any]
    measures: Mapping[str, Any]
    program_hash: str
    wall_seconds: float
    seconds: float
    problem: str = ""

    @property
    def cycles(self) -> int:
        return int(self.measures["cycles"])


def source_of(run: Run) -> Source:
    """Where the workload of a run comes from; raises as `find_workload` does."""
    return find_workload(run.workload, Path(run.folder))


def machine_of(run: Run) -> Machine:
    """The machine of a run. Raises MachineError."""
    file = Path(run.folder, run.machine)
    return load_machine(file if run.folder and file.is_file() else run.machine, run.changes)


def weight_of(run: Run) -> float:
    """Rough cost, to start long runs first: hardware of every expert, and tiles to simulate."""
    source = source_of(run)
    workload, tile = source.load(), run.parameters.get("tile")
    with source.user_code():
        shape = workload.routing_shape(run.parameters)
    experts = 1 if shape is None else shape[0]
    height = tile if isinstance(tile, int) else 64
    return 2 * experts * len(workload.inputs) + 8 * (run.batch or 64) / height


def make(run: Run, inputs: Inputs) -> Outcome:
    """Build, simulate and measure.

    Raises
    ------
    ParameterError : parameters do not go together.
    TraceError : a trace cannot be used.
    UserCodeError : the workload is the user's, and raises.
    """
    with without_collection():
        return _made(run, inputs)


def _made(run: Run, inputs: Inputs) -> Outcome:
    begin = time.perf_counter()
    source, machine = source_of(run), machine_of(run)
    with source.user_code():
        data = inputs.data(run, source.load())
        resolved = resolve(
            source.load(), run.parameters, machine=machine, config=run.config, data=[data]
        )
    counting = counting_of(run.counting, run.config)
    case = Case(source, resolved, data, machine, counting)
    result = case.result(data)
    measured = case.measures(result, data)
    return Outcome(
        status=result.status,
        settings=case.describe(data),
        measures=measured,
        program_hash=str(result.provenance["program_hash"]),
        wall_seconds=result.wall_seconds,
        seconds=time.perf_counter() - begin,
        problem="" if result.diagnosis is None else str(result.diagnosis),
    )
