"""``stepsim graph``: a picture of a workload's program, before any run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

import stepsim.report
import stepsim.results
import stepsim.simulation
from stepsim.arguments import counted
from stepsim.cli.console import note, show
from stepsim.cli.options import Config, check_output
from stepsim.cli.runs.workload_group import workload_app
from stepsim.errors import OutputError

if TYPE_CHECKING:
    from stepsim.cli.runs.workload import Choice

_SUFFIXES: Final = (".svg", ".html")


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """Where the picture goes."""

    config: Config = None
    out: Annotated[
        Path,
        typer.Option(metavar="FILE.svg|FILE.html", help="SVG or HTML file to write."),
    ] = Path("graph.svg")


def graph_choice(choice: Choice, options: GraphOptions) -> None:
    """Draw the program of the chosen workload."""
    if options.out.suffix not in _SUFFIXES:
        raise OutputError(
            f"--out {options.out}: expected a name that ends in {' or '.join(_SUFFIXES)}, for "
            f"example {options.out.with_name((options.out.stem or 'graph') + '.svg')}"
        )
    check_output(options.out)
    machine, traces = choice.load_machine(options.config), choice.read(required=False)
    case = choice.case(traces, machine, options.config, None)
    outline = stepsim.results.outline_of(stepsim.simulation.wired(case.built.program))
    stepsim.report.write_picture(options.out, outline, case.built.program.name)
    boxes = outline["boxes"]
    copies = sum(one["units"] for one in boxes if one["operators"] == ["broadcast"])
    drawn = f"{len(case.built.program.operators):,} operators"
    drawn += f" and {counted(copies, 'broadcast')}" if copies else ""
    show(f"wrote {options.out}: {drawn} in {len(boxes):,} boxes")
    for sentence in case.built.notes:
        note(sentence)


app = workload_app(
    "Draw the program of a workload, without simulating it.\n\nLanes and parts of one call are one "
    "box; edges have shapes and element types, and operators whose labels begin alike a frame. "
    "WORKLOAD and its options are those of `stepsim run`.",
    GraphOptions,
    graph_choice,
)
