"""One simulated run from the command line: checks, progress, output, exit code."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

import typer

import stepsim.explain
import stepsim.report
import stepsim.results
import stepsim.simulation
import stepsim.sizing
import stepsim.workloads
from stepsim._version import MODEL_VERSION, __version__
from stepsim.cli.console import note, print_json, show
from stepsim.cli.exit_codes import RUN_FAILED
from stepsim.cli.heartbeat import Heartbeat
from stepsim.cli.options import Config, Counting, Json, check_counts, check_output
from stepsim.cli.runs.disturbing import check_effect, disturbances
from stepsim.cli.runs.fifo_depths import (
    TakenFix,
    machine_text,
    named_depths,
)
from stepsim.cli.runs.placing import TakenPlace, place_column, read_place
from stepsim.cli.runs.ready_case import ready_case
from stepsim.cli.runs.recorded import RecordOptions
from stepsim.errors import ArgError, OutputError
from stepsim.frozen import frozen

if TYPE_CHECKING:
    import pyarrow as pa

    from stepsim.cli.runs.inputs import Traces
    from stepsim.cli.runs.workload import Choice
    from stepsim.explain import Why
    from stepsim.report import BusyUnit
    from stepsim.results import Result
    from stepsim.simulation import Case
    from stepsim.sizing import DeadlockFix

NO_PATH: Final = "no critical path: a limit stopped the run that was recorded; raise the limit"

_TIMELINE_ROWS: Final = 100

_FIX_SECONDS: Final = 3.0
"""Time for the search of the least fix of a deadlock."""


@frozen
class RunOptions(RecordOptions):
    """The options that all runs share, as given."""

    takes_fifo_depths: ClassVar[bool] = True

    counting: Counting = None
    config: Config = None
    fix: TakenFix = None
    place: TakenPlace = None
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
            help="Write the values of --json as one row, and tables of units and FIFOs next to it.",
        ),
    ] = None
    why: Annotated[
        bool,
        typer.Option(
            "--why",
            help="Explain what bounds the run and what would help, as `stepsim why` does; with "
            "--json and --out under the key why.",
        ),
    ] = False
    level: Annotated[
        Literal["tile", "hardware"],
        typer.Option(
            help="tile: operators fire on logical tiles; hardware: their hardware units "
            "pass tiles of 16 x 16, cycle by cycle, on a machine of the hardware level. It takes "
            "programs of loads without reference, elementwise maps, products of matrices, sums, "
            "repeats, dims of size 1 and stores."
        ),
    ] = "tile"
    ensemble: Annotated[
        str | None,
        typer.Option(
            metavar="N[,KEY=VALUE]...",
            help="Also simulate N disturbed runs and print the spread of their cycles; the "
            "seed and the bounds of disturbances may follow, as in 32,seed=7,fifo.depth=0:2.",
        ),
    ] = None


def run_choice(choice: Choice, options: RunOptions) -> int:
    """Build, simulate and print the chosen workload; returns its cycles."""
    limits = limits_of(options.max_cycles, options.max_seconds)
    if options.out is not None:
        check_output(options.out, ".parquet")
    options.check(options.out)
    disturbed = disturbances(options.ensemble, stepsim.simulation)
    place = read_place(options.place)
    with Heartbeat() as heartbeat:
        case, traces = ready_case(
            choice,
            heartbeat,
            config=options.config,
            counting=options.counting,
            fix=options.fix,
            place=place,
            check=lambda built: options.check_streams(
                [fifo.name for fifo in built.prepared.wiring.fifos]
            ),
        )
        if disturbed is not None:
            check_effect(disturbed, stepsim.simulation, case.prepared)
        heartbeat.phase("simulating")
        result = case.result(
            traces.data,
            limits=stepsim.simulation.Limits(**limits),
            progress=heartbeat.progress,
            record=options.is_recorded,
        )
        options.check_span(result.cycles)
        busiest = stepsim.report.busiest_units(result.tables.unit_columns)
        record = record_of(case, traces, result, busiest) | place_column(place)
        found = None
        if options.why:
            heartbeat.phase("simulating changes")
            found = _why(case, traces, limits, heartbeat)
            record["why"] = found.to_dict()
        fix = None if found is None else found.fix
        if fix is None and result.status == "deadlock":
            heartbeat.phase("searching for the least fix of the deadlock")
            fix = _fix(case, traces, result, limits)
        record["fix"] = None if fix is None else fix.to_dict()
        spread = None
        if disturbed is not None and result.status in stepsim.results.ENDED:
            heartbeat.phase("simulating disturbed runs")
            spread = stepsim.simulation.ensemble_of(
                case.prepared,
                case.bound(traces.data),
                **disturbed,
                limits=stepsim.simulation.Limits(**limits),
            )
            record |= {**spread.columns(), "ensemble": spread.to_dict()}

        @cache
        def segments() -> pa.Table | None:
            return _path(case, traces, limits, result)

        if options.out is not None:
            heartbeat.phase("writing")
            try:
                stepsim.report.write_run(
                    options.out,
                    record,
                    stepsim.simulation.parameter_columns(choice.workload),
                    result,
                    _TIMELINE_ROWS if options.record else None,
                    segments() if options.record else None,
                )
            except UnicodeEncodeError as error:
                # A file name may have bytes that are not valid UTF-8.
                raise OutputError(
                    f"{options.out}: cannot be written: {error.object!r} is not valid UTF-8; "
                    "rename the file"
                ) from None
        options.write(result, heartbeat.phase, segments)

    if options.json:
        note(f"machine {machine_text(case)}")
        print_json(nested(record))
    else:
        _show(case, record, busiest, result, found)
        if found is None and fix is not None:
            _show_fix(fix)
        if spread is not None:
            show("", str(spread))
    for sentence in result.notes:
        note(sentence)
    if result.status != "ok":
        ending = "infeasible" if result.status == "infeasible" else "run failed"
        note(f"{ending}, {result.diagnosis}")
        raise typer.Exit(RUN_FAILED)
    return int(result.cycles)


def _why(case: Case, traces: Traces, limits: dict[str, Any], heartbeat: Heartbeat) -> Why:
    """Explain what bounds the run, by running it with changes."""
    return stepsim.explain.explain(
        case.prepared,
        case.bound(traces.data),
        limits=stepsim.simulation.Limits(**limits),
        progress=heartbeat.progress,
    )


def _fix(
    case: Case, traces: Traces, result: Result, limits: dict[str, Any]
) -> stepsim.sizing.DeadlockFix:
    """The least fix of a deadlock, if it can be found in a short time."""
    if result.wall_seconds > _FIX_SECONDS / 2:
        seconds = f"one run takes {result.wall_seconds:.1f} s"
        return stepsim.sizing.DeadlockFix(
            result.program, "not found", result.diagnosis, reason=seconds
        )
    # The time limit is dropped: this deadlock took less, and must be reached again.
    return stepsim.sizing.fix_deadlock(
        case.prepared,
        bindings=case.bound(traces.data),
        limits=stepsim.simulation.Limits(max_cycles=limits.get("max_cycles")),
        max_seconds=_FIX_SECONDS,
    )


def _show_fix(fix: DeadlockFix) -> None:
    show("", *fix.sentences)
    if fix.status == "not found" or (fix.status == "fixed" and not fix.is_least):
        show("`stepsim why` and st.fix_deadlock search for longer")
    if fix.status == "fixed":
        show("`stepsim why --write-fix FILE.yaml` writes the least fix, for --fix")


def _path(case: Case, traces: Traces, limits: dict[str, Any], result: Result) -> pa.Table | None:
    """The critical path of a run, found by recording it once more with paces.

    None, with a note, where a limit of wall time stopped that run elsewhere.
    """
    indices = case.bound(traces.data)
    found = stepsim.explain.critical_path(
        case.prepared, bindings=indices, limits=stepsim.simulation.Limits(**limits)
    )
    # A run is infeasible for what the machine has, which its path does not ask.
    status = "ok" if result.status == "infeasible" else result.status
    if (found.status, found.cycles) != (status, result.cycles):
        note(NO_PATH)
        return None
    return found.segments


def record_of(
    case: Case, traces: Traces, result: Result, busiest: tuple[BusyUnit, ...]
) -> dict[str, Any]:
    """The record of the run that ``--json`` prints and ``--out`` writes."""
    return {
        "status": result.status,
        **case.measures(result, traces.data),
        "onchip_peak_bytes": result.onchip_peak_bytes,
        "undelivered_tokens": result.undelivered_tokens,
        **named_depths(case),
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
    """The record, with objects in place of the JSON text that tables have."""
    nested = ("parameters", "origins", "machine_json", "model_json")
    return {**record, **{name: json.loads(record[name] or "null") for name in nested}}


def settings_text(case: Case, without: Collection[str] = ()) -> str:
    """The parameters in words, with the origin of those that were not given.

    ``without`` names those that have no effect.
    """
    parts = []
    workload, origins = case.resolved.workload, case.resolved.origins
    columns = workload.columns()
    for name, field in stepsim.workloads.fields_of(type(workload)).items():
        value = case.built.parameters.get(name, columns[name])
        if value is None or name in without:
            continue
        origin = origins[name]
        unit = field.param.unit if "/" in field.param.unit else ""
        shown = " ".join(filter(None, (field.option[2:], str(field.column_value(value)), unit)))
        source = origin.replace("_", "-")
        parts.append(shown if origin in ("given", "default") else f"{shown} ({source})")
    return ", ".join(parts)


def left_out_text(case: Case) -> str:
    """What the program lacks of the layer that it stands for; empty if it says nothing on it."""
    found = case.built.parameters.get("left_out")
    return f"left out: {found}" if found else ""


def limits_of(max_cycles: int | None, max_seconds: float | None) -> dict[str, Any]:
    """The limits that were given, as arguments of `Limits`.

    Raises
    ------
    ArgError : a number is out of range.
    """
    check_counts(max_cycles=max_cycles)
    if max_seconds is not None and not 0 < max_seconds < math.inf:
        raise ArgError(f"--max-seconds: expected a number above 0, found {max_seconds:g}")
    given = {"max_cycles": max_cycles, "max_wall_seconds": max_seconds}
    return {name: value for name, value in given.items() if value is not None}


def _show(
    case: Case,
    record: dict[str, Any],
    busiest: tuple[BusyUnit, ...],
    result: Result,
    found: Why | None,
) -> None:
    title, inputs = case.source.text, case.resolved.workload.inputs
    if inputs:
        noun = "requests" if stepsim.workloads.KV_LENGTHS in inputs else "tokens"
        title += f", {record['batch']:,} {noun}"
    show(
        f"machine {machine_text(case)}",
        "\n".join(filter(None, (settings_text(case), left_out_text(case)))) + "\n",
        stepsim.report.run_table(record, title),
        "",
        stepsim.report.units_table(busiest, record["cycles"]),
    )
    if getattr(case.resolved.workload, "plan", None) is not None:
        show("", "on-chip memory is that of buffers; `stepsim compile` adds that of FIFOs")
    if found is not None:
        show("", str(found))
    elif result.status == "ok" and result.cycles:
        resource = stepsim.report.busiest_resource(
            busiest, result.cycles, result.bus_bytes, result.peak_bytes
        )
        network = result.network_summary
        show("", resource, *(() if network is None else (network,)))
        show("`stepsim why` says what bounds the run and what would help")
