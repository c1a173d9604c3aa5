"""``stepsim place``: places of a workload's operators on the network of a machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

import stepsim.design
import stepsim.placement
import stepsim.report
import stepsim.simulation
from stepsim.cli.console import note, print_json, show
from stepsim.cli.heartbeat import Heartbeat
from stepsim.cli.options import Config, Json, check_output
from stepsim.cli.runs.ready_case import ready_case
from stepsim.cli.runs.workload_group import workload_app
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.cli.runs.workload import Choice


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """The search of a placement, as given."""

    takes_fifo_depths: ClassVar[bool] = False

    config: Config = None
    per_tile: Annotated[int, typer.Option(metavar="N", help="Operators that a tile may hold.")] = 1
    search_seed: Annotated[int, typer.Option(metavar="N", help="Seed of the search.")] = 0
    effort: Annotated[
        float, typer.Option(metavar="X", help="Length of the search, as a multiple of the usual.")
    ] = 1.0
    tiles: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPERATOR=N",
            help="Put an operator on N tiles, of which each stream takes the nearest; it computes "
            "as fast as on one. Repeatable.",
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.yaml", help="Write the placement to this file."),
    ] = None
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg", help="Draw operators on the grid and the loads of its links."
        ),
    ] = None
    json: Json = False


def place_choice(choice: Choice, options: PlaceOptions) -> None:
    """Find, write and print places for the chosen workload."""
    for path, suffix in ((options.out, ".yaml"), (options.picture, ".svg")):
        if path is not None:
            check_output(path, suffix)
    with Heartbeat() as heartbeat:
        case, traces = ready_case(
            choice,
            heartbeat,
            config=options.config,
            check_machine=stepsim.placement.check_machine,
        )
        plan = getattr(choice.workload, "plan", None)
        heartbeat.phase("placing operators")
        found = stepsim.placement.placed(
            case.prepared,
            case.bound(traces.data),
            per_tile=options.per_tile,
            seed=options.search_seed,
            effort=options.effort,
            tiles=_tiles_of(options.tiles),
            **({} if plan is None else stepsim.design.die_regions(plan, case.prepared)),
        )
        if options.out is not None:
            found.placement.save(options.out)
        if options.picture is not None:
            stepsim.report.draw_placement(found, options.picture)
    if options.json:
        streams = [{"stream": name, "bytes": size} for name, size in found.busiest_streams]
        print_json(found.metrics() | {"busiest_link_streams": streams})
    else:
        show(str(found))
    for path in (options.out, options.picture):
        if path is not None:
            note(f"wrote {path}")
    for sentence in case.built.notes:
        note(sentence)


def _tiles_of(given: list[str] | None) -> dict[str, int] | None:
    """Numbers of tiles by operator, as given; None without any.

    Raises
    ------
    ArgError : one is not an operator, "=" and a number, or an operator is named twice.
    """
    found: dict[str, int] = {}
    for text in given or ():
        name, _, count = text.rpartition("=")
        if not name or not count.isdecimal() or name in found:
            raise ArgError(
                f"--tiles: expected OPERATOR=N, as in silu#2=4, once for each operator; found "
                f"'{text}'"
            )
        found[name] = int(count)
    return found or None


app = workload_app(
    "Find places for the operators of a workload on the network of a machine.\n\nThe search "
    "minimizes the bytes over the busiest link, then bytes x hops. WORKLOAD and its "
    "parameters are those of `stepsim run`; the machine needs a network, as --set "
    "noc=mesh gives it.",
    PlaceOptions,
    place_choice,
)
