"""One run: build its program, simulate it, and measure it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepsim import hardware
from stepsim.collection import without_collection
from stepsim.machine import Machine, load_machine, machine_columns
from stepsim.reproduce.inputs import Inputs
from stepsim.reproduce.points import Run
from stepsim.simulation import Case, counting_of, usual_machine
from stepsim.workloads import Data, Source, find_workload, resolve


@dataclass(frozen=True, slots=True)
class Outcome:
    """Settings and measurements of a run.

    Attributes
    ----------
    settings : parameters and machine, by column, as from `stepsim.simulation.Case.describe`.
    measures : columns of `stepsim.results.columns`.
    wall_seconds : time of the simulation alone.
    seconds : time of building, lowering, simulating and measuring.
    problem : why a run is not ok; else empty.
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
    """The source of the workload of a run; raises as `find_workload`."""
    return find_workload(run.workload, Path(run.folder))


def machine_of(run: Run) -> Machine | hardware.Machine:
    """The machine of a run, for its level. Raises MachineError."""
    file = Path(run.folder, run.machine)
    named = file if run.folder and file.is_file() else run.machine
    if run.level == "hardware":
        return hardware.load_machine(named, run.changes)
    return load_machine(named, run.changes)


def weight_of(run: Run) -> float:
    """Rough cost, for starting long runs first: hardware of every expert, and tiles to simulate."""
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
    ParameterError : parameters are inconsistent.
    TraceError : a trace cannot be used.
    UserCodeError : the workload is the user's, and raises.
    """
    with without_collection():
        return _made(run, inputs)


def _made(run: Run, inputs: Inputs) -> Outcome:
    begin = time.perf_counter()
    source, machine = source_of(run), machine_of(run)
    with source.user_code():
        workload = source.load()
        data = inputs.data(run, workload)
    counting = counting_of(run.counting, run.config)
    if isinstance(machine, hardware.Machine):
        tile_level = load_machine(usual_machine(workload, run.config))
        case = _case(run, source, data, tile_level, counting)
        case.require_one_program("the hardware level")
        result = hardware.simulate(case.built.program, machine)
        settings = case.describe(data) | machine_columns(machine)
        measures = case.measures(result, data)
        measures |= hardware.measures(result, measures["flops"])
        measures["memory_reads"] = result.hardware.reads
    else:
        case = _case(run, source, data, machine, counting)
        result = case.result(data)
        settings, measures = case.describe(data), case.measures(result, data)
    return Outcome(
        status=result.status,
        settings=settings,
        measures=measures,
        program_hash=str(result.provenance["program_hash"]),
        wall_seconds=result.wall_seconds,
        seconds=time.perf_counter() - begin,
        problem="" if result.diagnosis is None else str(result.diagnosis),
    )


def _case(run: Run, source: Source, data: Data, machine: Machine, counting: str) -> Case:
    with source.user_code():
        resolved = resolve(
            source.load(), run.parameters, machine=machine, config=run.config, data=[data]
        )
    return Case(source, resolved, data, machine, counting)
