"""Options that several commands share, and the checks of their values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stepsim.errors import ArgError, OutputError

if TYPE_CHECKING:
    from stepsim.machine import Machine
    from stepsim.workloads import MoEShape

__all__ = [
    "ComputeBw",
    "Config",
    "FifoDepth",
    "Json",
    "Layer",
    "MachineName",
    "MemoryModel",
    "ModelName",
    "OptionalModel",
    "Overrides",
    "Step",
    "Tile",
    "TileInter",
    "check_output",
    "find_model",
    "parse_tile",
    "resolve_machine",
]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, no tables.")]
_MODEL = typer.Option(
    "--model", metavar="MODEL", help="mixtral-8x7b, qwen3-30b-a3b, ...; a wrong name lists all."
)
ModelName = Annotated[str, _MODEL]
OptionalModel = Annotated[str | None, _MODEL]
Layer = Annotated[int | None, typer.Option(help="Which layer of the trace.")]
Step = Annotated[int | None, typer.Option(help="Which forward pass of the trace.")]
Tile = Annotated[
    str,
    typer.Option(metavar="N|dynamic", help="Rows per tile, or as many as each expert has tokens."),
]
TileInter = Annotated[
    int | None,
    typer.Option(metavar="N", help="Columns per tile of the inner dimension. (default: 64)"),
]
ComputeBw = Annotated[
    int | None,
    typer.Option(metavar="N", help="FLOPs per cycle of each operator. (default: 4096)"),
]
FifoDepth = Annotated[
    int | None,
    typer.Option(metavar="N", help="Tokens each FIFO holds. (default: the machine's, or 2)"),
]
MachineName = Annotated[
    str, typer.Option("--machine", metavar="MACHINE", help="Name of a machine, or a YAML file.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the machine; repeatable."),
]
MemoryModel = Annotated[
    Literal["published", "paper"],
    typer.Option(help="How bytes and FLOPs are counted; times do not depend on it."),
]
Config = Annotated[
    Literal["published"] | None,
    typer.Option(help="Set what is not given as the published experiment of this point did."),
]


def find_model(name: str) -> MoEShape:
    """The shape of a model.

    Raises
    ------
    ArgError : no model has this name.
    """
    from difflib import get_close_matches

    from stepsim.workloads import MOE_SHAPES, moe_shape

    if name in MOE_SHAPES:
        return moe_shape(name)
    near = get_close_matches(name, MOE_SHAPES, n=1, cutoff=0.4)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    raise ArgError(f"--model: unknown model '{name}'{hint} Known: {', '.join(sorted(MOE_SHAPES))}")


def parse_tile(text: str) -> int | str:
    """Rows per tile, or ``"dynamic"``."""
    if text == "dynamic":
        return text
    try:
        rows = int(text)
    except ValueError:
        rows = 0
    if rows < 1:
        raise ArgError(f"--tile: expected a whole number from 1, or 'dynamic', found '{text}'")
    return rows


def resolve_machine(name: str, overrides: list[str] | None) -> Machine:
    """The machine of a run, with the changes of ``--set``."""
    from stepsim.machine import load_machine, parse_overrides

    return load_machine(name, parse_overrides(overrides or []))


def check_output(path: Path) -> None:
    """Refuse a file that surely cannot be written, before time is spent on its content.

    Raises
    ------
    OutputError : the folder is missing or no folder, or the path is a folder.
    """
    folder = path.parent
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise OutputError(f"{path}: cannot be written, {folder} {what}; make it first")
    if path.is_dir():
        raise OutputError(f"{path}: cannot be written, it is a folder; name a file in it")
