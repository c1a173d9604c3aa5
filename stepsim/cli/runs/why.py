"""``stepsim why``: what bounds a workload, where its cycles go, and what would help."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import typer

import stepsim.explain
import stepsim.results
import stepsim.simulation
from stepsim.atomic import replacing
from stepsim.cli.console import note, print_json, show
from stepsim.cli.exit_codes import RUN_FAILED
from stepsim.cli.heartbeat import Heartbeat
from stepsim.cli.options import Config, Json, check_output
from stepsim.cli.runs.execution import NO_PATH, limits_of, settings_text
from stepsim.cli.runs.fifo_depths import (
    TakenFix,
    WrittenFix,
    check_written,
    machine_text,
)
from stepsim.cli.runs.placing import TakenPlace, read_place
from stepsim.cli.runs.ready_case import ready_case
from stepsim.cli.runs.workload_group import workload_app
from stepsim.cli.serving.why import why_service_command
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.cli.runs.workload import Choice
    from stepsim.explain import Why

_WIDTH: Final = 80


@dataclass(frozen=True, slots=True)
class WhyOptions:
    """The options of an explanation."""

    takes_fifo_depths: ClassVar[bool] = True

    config: Config = None
    fix: TakenFix = None
    place: TakenPlace = None
    max_cycles: Annotated[
        int | None, typer.Option(metavar="N", help="Stop every run after this many cycles.")
    ] = None
    max_seconds: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Stop every run after this wall time."),
    ] = None
    path: Annotated[
        bool,
        typer.Option("--path", help="Print the critical path, with repeated iterations folded."),
    ] = False
    what_if: Annotated[
        bool,
        typer.Option("--what-if", help="Print every change that was tried, and its effect."),
    ] = False
    json: Json = False
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Write the JSON object that --json prints."),
    ] = None
    write_fix: WrittenFix = None


def why_choice(choice: Choice, options: WhyOptions) -> None:
    """Build and simulate the chosen workload, and explain what bounds it."""
    limits = limits_of(options.max_cycles, options.max_seconds)
    if options.out is not None:
        check_output(options.out, ".json")
    check_written(options.write_fix)
    place = read_place(options.place)
    with Heartbeat() as heartbeat:
        case, traces = ready_case(
            choice, heartbeat, config=options.config, fix=options.fix, place=place
        )
        heartbeat.phase("simulating changes")
        found = stepsim.explain.explain(
            case.prepared,
            case.bound(traces.data),
            limits=stepsim.simulation.Limits(**limits),
            path=options.path,
            progress=heartbeat.progress,
        )
        document = {"machine": machine_text(case), **found.to_dict()}
        if options.path:
            lines = None if found.path is None else found.path.folded().splitlines()
            document["folded_path"] = lines
        if options.out is not None:
            _write(options.out, document)
        written = None if options.write_fix is None else _write_fix(options.write_fix, found)

    if options.json:
        print_json(document)
    else:
        show(str(found))
        if options.path:
            show("", NO_PATH if found.path is None else found.path.folded())
        if options.what_if and found.what_if is not None:
            show("", found.what_if.text(every=True))
        about = f"machine {machine_text(case)}", settings_text(case)
        show("", *(textwrap.fill(one, _WIDTH) for one in about))
    if written is not None:
        note(written)
    if found.status != "ok":
        note(f"run failed, status {found.status}")
        raise typer.Exit(RUN_FAILED)


def _write(path: Path, document: dict[str, Any]) -> None:
    """The file, complete or not at all."""
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    with replacing(path) as (part,):
        part.write_text(text, encoding="utf-8")


def _write_fix(path: Path, found: Why) -> str:
    """Write the best change that a program can have, or the least fix; returns what was done.

    Raises
    ------
    ArgError : nothing was found that a fix can have.
    """
    if found.fix is not None:
        found.fix.save(path)
        return f"wrote {path}: the least fix, {found.fix.cycles:,} cycles"
    best = next((one for one in found.suggestions if not one.is_of_data), None)
    if best is None:
        why = "no change that was tried makes the run shorter"
        if found.suggestions:
            why = "only another routing makes the run shorter, which is not part of a program"
        elif found.status not in stepsim.results.ENDED:
            why = f"the run ends with {found.status}"
        raise ArgError(f"--write-fix: {path} was not written: {why}; leave the option out")
    best.save(path)
    return f"wrote {path}: {best.description}, {best.cycles:,} cycles"


app = workload_app(
    "Explain what bounds a workload, where its cycles go, and what would help.\n\nWhat would help "
    "is measured by running it with changes. WORKLOAD and its parameters are "
    "those of `stepsim run`; `stepsim why moe --help` lists all options.",
    WhyOptions,
    why_choice,
    why_service_command,
)
