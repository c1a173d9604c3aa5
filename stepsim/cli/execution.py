"""One simulated run from the command line: checks, progress, output, exit code."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepsim.cli.console import note, print_json, show
from stepsim.cli.exit_codes import RUN_FAILED
from stepsim.cli.options import Config, Counting, Json, check_counts, check_output
from stepsim.errors import ArgError, OutputError

if TYPE_CHECKING:
    from stepsim.cli.inputs import Traces
    from stepsim.cli.workload import Choice
    from stepsim.report.busiest import BusyUnit
    from stepsim.results import Result
    from stepsim.simulation.case import Case

__all__ = ["RunOptions", "nested", "run_choice", "settings_text"]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options that all runs share, as given."""

    counting: Counting = None
    config: Config = None
    max_cycles: Annotated[
        int | None, typer.Option(metavar="N", help="Stop after this many cycles.")
    ] = None
    max_seconds: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Stop after this wall time.")
    ] = None
    json: Json = False
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.parquet",
            help="Write what --json prints as one row, and tables of units and FIFOs beside it.",
        ),
    ] = None


def run_choice(choice: Choice, options: RunOptions) -> None:
    """Build, simulate and print what was chosen."""
    from stepsim.cli.heartbeat import LOADING_ENGINE, Heartbeat

    limits = _limits(options.max_cycles, options.max_seconds)
    if options.out is not None:
        check_output(options.out, ".parquet")
    with Heartbeat() as heartbeat:
        heartbeat.phase("loading")
        machine = choice.load_machine(options.config)
        traces = choice.read(required=True)
        heartbeat.phase("building the program")
        case = choice.case(traces, machine, options.config, options.counting)
        from stepsim.report.busiest import busiest_units
        from stepsim.simulation import Limits, warm_up

        heartbeat.phase(LOADING_ENGINE)
        warm_up()
        heartbeat.phase("simulating")
        result = case.result(traces.data, limits=Limits(**limits), progress=heartbeat.progress)
        busiest = busiest_units(result.tables.unit_columns)
        record = _record(case, traces, result, busiest)
        if options.out is not None:
            heartbeat.phase("writing")
            from stepsim.report.run_file import write_run
            from stepsim.simulation.case import parameter_columns

            try:
                write_run(options.out, record, parameter_columns(choice.workload), result)
            except UnicodeEncodeError as error:
                # A file name may have bytes that are no text.
                raise OutputError(
                    f"{options.out}: cannot be written: {error.object!r} is no text in UTF-8; "
                    "rename the file"
                ) from None

    if options.json:
        note(f"machine {machine.summary()}")
        print_json(nested(record))
    else:
        _show(case, record, busiest)
    for sentence in result.notes:
        note(sentence)
    if result.status != "ok":
        note(f"run failed, status {result.status}: {result.diagnosis}")
        raise typer.Exit(RUN_FAILED)


def _record(
    case: Case, traces: Traces, result: Result, busiest: tuple[BusyUnit, ...]
) -> dict[str, Any]:
    """All that is known of the run: what ``--json`` prints and ``--out`` keeps."""
    from stepsim._version import MODEL_VERSION, __version__

    return {
        "status": result.status,
        **case.measures(result, traces.data),
        "undelivered_tokens": result.undelivered_tokens,
        "wall_seconds": result.wall_seconds,
        **case.describe(traces.data),
        **traces.columns,
        **traces.facts,
        "diagnosis": None if result.diagnosis is None else result.diagnosis.to_dict(),
        "program_hash": result.provenance["program_hash"],
        "image_hash": result.provenance["image_hash"],
        "stepsim_version": __version__,
        "model_version": str(MODEL_VERSION),
        "provenance": dict(result.provenance),
        "busiest_units": [asdict(unit) for unit in busiest],
    }


def nested(record: dict[str, Any]) -> dict[str, Any]:
    """The record with what is JSON text in tables as objects."""
    import json

    nested = ("parameters", "origins", "machine_json", "model_json")
    return {**record, **{name: json.loads(record[name] or "null") for name in nested}}


def settings_text(case: Case) -> str:
    """The parameters in words; those that were not given say where they come from."""
    from stepsim.workloads.parameters import fields_of

    parts = []
    workload, origins = case.resolved.workload, case.resolved.origins
    for name, field in fields_of(type(workload)).items():
        value = case.built.parameters.get(name, getattr(workload, name))
        if value is None:
            continue
        origin = origins[name]
        unit = field.param.unit if "/" in field.param.unit else ""
        shown = " ".join(filter(None, (field.option[2:], str(field.column_value(value)), unit)))
        told = origin.replace("_", "-")
        parts.append(shown if origin in ("given", "default") else f"{shown} ({told})")
    return ", ".join(parts)


def _limits(max_cycles: int | None, max_seconds: float | None) -> dict[str, Any]:
    check_counts(max_cycles=max_cycles)
    if max_seconds is not None and not 0 < max_seconds < math.inf:
        raise ArgError(f"--max-seconds: expected a number above 0, found {max_seconds:g}")
    given = {"max_cycles": max_cycles, "max_wall_seconds": max_seconds}
    return {name: value for name, value in given.items() if value is not None}


def _show(case: Case, record: dict[str, Any], busiest: tuple[BusyUnit, ...]) -> None:
    from stepsim.report.tables import run_table, units_table
    from stepsim.workloads.parameters import KV_LENGTHS

    title, inputs = case.source.text, case.resolved.workload.inputs
    if inputs:
        title += f", {record['batch']:,} {'requests' if KV_LENGTHS in inputs else 'tokens'}"
    show(
        f"machine {case.machine.summary()}",
        f"{settings_text(case)}\n",
        run_table(record, title),
        "",
        units_table(busiest, record["cycles"]),
    )
