"""The options ``--fifo-depth``, ``--fix`` and ``--write-fix``: depths and other changes of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepsim.arguments import counted, is_depth_plan
from stepsim.cli.options import check_output
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.simulation import Case
    from stepsim.workloads import Field

_METAVAR = "N|auto|FILE.yaml"
_ALSO = "auto finds the least bytes; FILE.yaml, as written by `stepsim size`, has depths by name"


def depth_field(known: Mapping[str, Field], name: str) -> tuple[str, Any, None]:
    """The option, as a field of a dataclass."""
    if name in known:
        about = known[name]
        text = about.param.help[:1].upper() + about.param.help[1:]
        option = typer.Option(
            about.option,
            metavar=_METAVAR,
            help=f"{text}; {_ALSO}. (default: {about.default_text()})",
        )
    else:
        also = _ALSO[:1].upper() + _ALSO[1:]
        option = typer.Option("--fifo-depth", metavar=_METAVAR.partition("|")[2], help=f"{also}.")
    return name, Annotated[str | None, option], None


def taken_depths(name: str, known: Mapping[str, Field], given: Any) -> tuple[str | None, Any]:
    """``auto`` or a file, if the option has it, and the parameters without it."""
    text = getattr(given, name) if name else None
    if text is None or (name in known and not is_depth_plan(text)):
        return None, given
    if not is_depth_plan(text):
        raise ArgError(
            f"--fifo-depth: expected auto or FILE.yaml, found '{text}'; this workload has no "
            "parameter for one depth of all FIFOs; --set fifo.depth=N changes that of the machine"
        )
    return text, replace(given, **{name: None})


TakenFix = Annotated[
    Path | None,
    typer.Option(
        "--fix", metavar="FILE.yaml", help="Make the changes of a file of --write-fix before a run."
    ),
]

WrittenFix = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.yaml", help="Write what was found, for --fix of `stepsim run` and sweeps."
    ),
]


def check_written(path: Path | None) -> None:
    """Refuse a file for --write-fix that cannot be one.

    Raises
    ------
    OutputError : it has another suffix, or its folder does not exist.
    """
    if path is not None:
        check_output(path, ".yaml")


_ORIGINS = {
    "machine": "of the machine",
    "program": "of the program",
    "default": "by default",
    "call": "as given",
}
"""Where the depth of FIFOs that state none comes from, in words."""


def machine_text(case: Case) -> str:
    """The machine in one line, with the FIFO depth of this run and its origin."""
    prepared = case.prepared
    depth = f"{prepared.fifo_depth} {_ORIGINS[prepared.fifo_depth_from]}"
    if prepared.fifo_depths:
        depth += f", and of {counted(len(prepared.fifo_depths), 'FIFO')} by name"
    changes = "".join(
        f"; {name} of {counted(len(values), 'operator')} by the fix"
        for name, values in (
            ("compute_bw", prepared.compute_bw),
            ("par_dispatch", prepared.par_dispatch),
        )
        if values
    )
    placement = prepared.placement
    if placement is not None:
        tiles = len({tile for own in placement.tiles.values() for tile in own})
        changes += (
            f"; {counted(len(placement.operators), 'operator')} on {counted(tiles, 'tile')} of "
            f"network '{placement.network.name}'"
        )
    return case.machine.summary(depth) + changes


def named_depths(case: Case) -> dict[str, Any]:
    """The column of the depths that were given by name, if there are any."""
    depths = case.prepared.fifo_depths
    return {"fifo_depths": dict(depths)} if depths else {}
