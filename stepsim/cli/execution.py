"""One simulated run from the command line: checks, progress, output, exit code."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepsim.cli.console import note, print_json, show
from stepsim.cli.machine_choice import DEFAULT_MACHINE, MachineChoice
from stepsim.cli.options import Config, Json, MemoryModel, check_counts, check_output
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.cli.case import Case
    from stepsim.machine import Machine
    from stepsim.report.summary import RunSummary
    from stepsim.results import Result

__all__ = ["Prepare", "RunOptions", "run_case"]

Prepare = Callable[["Machine", Callable[[str], None]], "Case"]
"""Builds the case for a machine; the second argument takes the name of the step that begins."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options that all runs share, as given."""

    memory_model: MemoryModel = "published"
    config: Config = None
    max_cycles: Annotated[int | None, typer.Option(help="Stop after this many cycles.")] = None
    max_seconds: Annotated[float | None, typer.Option(help="Stop after this wall time.")] = None
    json: Json = False
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.parquet",
            help="Write what --json prints as a row, and beside it accounts of units and queues.",
        ),
    ] = None


def run_case(
    prepare: Prepare,
    machine: MachineChoice,
    options: RunOptions,
    default_machine: str = DEFAULT_MACHINE,
) -> None:
    """Build, simulate and print; ``default_machine`` is the one to take when none is given."""
    from stepsim.cli.heartbeat import LOADING_ENGINE, Heartbeat

    limits = _limits(options.max_cycles, options.max_seconds)
    if options.out is not None:
        check_output(options.out, ".parquet")
    with Heartbeat() as heartbeat:
        heartbeat.phase("loading")
        target = machine.load(default_machine)
        case = prepare(target, heartbeat.phase)
        from stepsim.report.summary import summarize
        from stepsim.simulation import Limits, simulate, warm_up

        if case.numbers is None:
            raise AssertionError("a case that runs has all its inputs")
        heartbeat.phase(LOADING_ENGINE)
        warm_up()
        heartbeat.phase("simulating")
        result = simulate(
            case.program, machine=target, limits=Limits(**limits), progress=heartbeat.progress
        )
        summary = summarize(result, case.numbers)
        record = _record(summary, result, target, case, options)
        if options.out is not None:
            heartbeat.phase("writing")
            from stepsim.report.run_file import write_run

            write_run(options.out, record, result)

    if options.json:
        note(f"machine {target.summary()}")
        print_json(record)
    else:
        _show(summary, target, case)
    for remark in case.remarks:
        note(remark)
    if result.status != "ok":
        from stepsim.cli.main import RUN_FAILED

        note(f"run failed, status {result.status}: {result.diagnosis}")
        raise typer.Exit(RUN_FAILED)


def _record(
    summary: RunSummary, result: Result, machine: Machine, case: Case, options: RunOptions
) -> dict[str, Any]:
    """All that is known of the run: what ``--json`` prints and ``--out`` keeps."""
    return {
        **summary.to_dict(),
        "machine": {**machine.to_dict(), "peak_bandwidth": machine.peak_bandwidth},
        **case.parameters,
        "diagnosis": None if result.diagnosis is None else result.diagnosis.to_dict(),
        "provenance": dict(result.provenance),
        "workload": case.workload,
        "memory_model": options.memory_model,
        "config": options.config,
        **case.inputs,
        "busiest_units": [asdict(unit) for unit in summary.busiest],
    }


def _limits(max_cycles: int | None, max_seconds: float | None) -> dict[str, Any]:
    check_counts(max_cycles=max_cycles)
    if max_seconds is not None and not 0 < max_seconds < math.inf:
        raise ArgError(f"--max-seconds: expected a number above 0, found {max_seconds:g}")
    given = {"max_cycles": max_cycles, "max_wall_seconds": max_seconds}
    return {name: value for name, value in given.items() if value is not None}


def _show(summary: RunSummary, machine: Machine, case: Case) -> None:
    from stepsim.report.tables import run_table, units_table

    show(
        f"machine {machine.summary()}",
        f"{case.settings}\n",
        run_table(summary, case.title),
        "",
        units_table(summary.busiest, summary.cycles),
    )
