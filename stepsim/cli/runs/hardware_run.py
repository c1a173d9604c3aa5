"""``--level hardware``: the hardware units of the operators of a program, cycle by cycle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import typer

import stepsim.hardware
import stepsim.machine
import stepsim.report
import stepsim.simulation
from stepsim.cli.console import note, print_json, show
from stepsim.cli.exit_codes import RUN_FAILED
from stepsim.cli.heartbeat import Heartbeat
from stepsim.cli.options import check_output
from stepsim.cli.runs.disturbing import check_effect, disturbances
from stepsim.cli.runs.execution import nested, record_of, settings_text
from stepsim.cli.runs.recorded import RecordOptions
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.cli.runs.execution import RunOptions
    from stepsim.cli.runs.workload import Choice
    from stepsim.results import Result
    from stepsim.simulation import Case

_OF_TILES = ("compute_bw", "fifo_depth", "pack_bw", "par_dispatch")
"""Parameters of workloads that set the timing of operators on logical tiles."""


def run_on_hardware(choice: Choice, options: RunOptions) -> int:
    """Build, simulate and print the choice at the hardware level; returns its cycles.

    Raises
    ------
    ArgError : an option or parameter that has no effect at this level.
    LoweringError : operators without a hardware unit.
    """
    _refuse_options(choice, options)
    disturbed = disturbances(options.ensemble, stepsim.hardware)
    if options.out is not None:
        check_output(options.out, ".parquet")
    machine = choice.machine.load_hardware()
    with Heartbeat() as heartbeat:
        heartbeat.phase("building the program")
        traces = choice.read(required=True)
        case = choice.case(
            traces, choice.default_machine(options.config), options.config, options.counting
        )
        _refuse_parameters(case)
        heartbeat.phase("simulating")
        program = case.built.program
        if disturbed is not None:
            check_effect(
                disturbed, stepsim.hardware, stepsim.hardware.on_hardware(program, machine)
            )
        result = stepsim.hardware.simulate(program, machine, max_cycles=options.max_cycles)
        record = record_of(case, traces, result, ())
        record |= stepsim.hardware.measures(result, record["flops"])
        record |= {**stepsim.machine.machine_columns(machine), "fix": None}
        record |= _without_tiles(record)
        spread = None
        if disturbed is not None and result.status == "ok":
            heartbeat.phase("simulating disturbed runs")
            spread = stepsim.hardware.ensemble(
                program, machine, max_cycles=options.max_cycles, **disturbed
            )
            record |= {**spread.columns(), "ensemble": spread.to_dict()}
        if options.out is not None:
            heartbeat.phase("writing")
            stepsim.report.write_run(
                options.out, record, stepsim.simulation.parameter_columns(choice.workload), result
            )
    if options.json:
        commands = dict(result.hardware.dram_commands)
        print_json(nested(record) | {"level": "hardware", "dram_commands": commands})
    else:
        _show(case, record, result)
        if spread is not None:
            show("", str(spread))
    if result.status != "ok":
        note(f"run failed, {result.diagnosis}")
        raise typer.Exit(RUN_FAILED)
    return int(result.cycles)


def _refuse_options(choice: Choice, options: RunOptions) -> None:
    """Refuse options that have no effect at this level."""
    given: list[str] = [
        f"--{one.name}" for one in fields(RecordOptions) if getattr(options, one.name)
    ]
    if options.why:
        raise ArgError(
            "--why explains runs at the tile level; leave --level hardware out, and give --machine "
            "hdl-arbiter for the last step before it"
        )
    given += ["--max-seconds"] * (options.max_seconds is not None)
    given += ["--fifo-depth"] * (choice.fifo_depths is not None)
    given += ["--fix"] * (options.fix is not None)
    given += ["--place"] * (options.place is not None)
    _refuse(given)
    if options.counting == "paper":
        raise ArgError(
            "--counting paper has no effect with --level hardware, where every operator receives "
            "data, so that it counts as executed does; leave it out"
        )


def _without_tiles(record: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the record without parameters that have no effect at this level."""
    found: dict[str, Any] = {name: None for name in _OF_TILES if name in record}
    for column in ("parameters", "origins"):
        kept = json.loads(record[column])
        found[column] = json.dumps(
            {name: value for name, value in kept.items() if name not in _OF_TILES}, sort_keys=True
        )
    return found


def _refuse_parameters(case: Case) -> None:
    origins: Mapping[str, str] = case.resolved.origins
    _refuse([f"--{name.replace('_', '-')}" for name in _OF_TILES if origins.get(name) == "given"])


def _refuse(given: Sequence[str]) -> None:
    if given:
        noun = "has" if len(given) == 1 else "have"
        raise ArgError(
            f"{', '.join(given)} {noun} no effect with --level hardware, whose machine states all "
            "times; change it with --set, as in --machine hdl-fair --set fifo_depth=4"
        )


def _show(case: Case, record: dict[str, Any], result: Result) -> None:
    run = result.hardware
    commands = ", ".join(
        f"{count:,} {name.upper()}" for name, count in run.dram_commands.items() if count
    )
    show(
        f"machine {record['machine']} (hardware level)",
        f"{settings_text(case, without=_OF_TILES)}\n",
        stepsim.report.run_table(record, case.source.text),
        "",
        f"{run.reads:,} reads and {run.writes:,} writes of "
        f"{run.machine.memory.request_bytes} bytes; DRAM commands: {commands or 'none'}",
    )
