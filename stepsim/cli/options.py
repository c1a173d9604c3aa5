"""Options that several commands share, and the checks of their values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import stepsim.workloads
from stepsim.errors import ArgError, OutputError
from stepsim.paths import exists

if TYPE_CHECKING:
    from stepsim.workloads import MoEShape

_MOST_BITS = 40
_COUNTINGS = ("executed", "published", "paper")  # here, since their module loads pyarrow

Jobs = Annotated[int, typer.Option(metavar="N", min=1, help="Number of worker processes.")]
Backend = Annotated[
    Literal["local", "dask", "ray"], typer.Option(help="Backend that computes the runs.")
]
Address = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Address of a running dask scheduler or ray cluster."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Markdown = Annotated[
    bool,
    typer.Option("--markdown", help="Print Markdown for a comment on a pull request."),
]
FailAbove = Annotated[
    str | None,
    typer.Option(
        metavar="PCT%",
        help="Exit with code 1 if the metric of B is worse by more than this, for example 1%, if B "
        "fails where A succeeded, or if B lacks runs of A.",
    ),
]
AllowMissing = Annotated[
    bool,
    typer.Option("--allow-missing", help="With --fail-above: ignore runs of A that B lacks."),
]
Ensemble = Annotated[
    bool,
    typer.Option(
        "--ensemble",
        help="Treat differences in cycles within the spread of both ensembles as noise, also for "
        "--fail-above.",
    ),
]
Rows = Annotated[int, typer.Option(metavar="N", min=1, help="Number of rows to show.")]
SweepFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a sweep.")]
OptionalModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="Name, YAML file or config.json of a model; an unknown name lists all.",
    ),
]
Layer = Annotated[int | None, typer.Option(metavar="N", help="Use this layer of the trace.")]
Step = Annotated[
    int | None, typer.Option(metavar="N", help="Use this forward pass (step) of the trace.")
]


def _counting(found: str | None) -> str | None:
    if found is not None and found not in _COUNTINGS:
        raise ArgError(f"--counting: expected one of {', '.join(_COUNTINGS)}, found '{found}'")
    return found


Counting = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        callback=_counting,
        help=f"How bytes and FLOPs are counted: {', '.join(_COUNTINGS[:-1])} or {_COUNTINGS[-1]}; "
        "times do not depend on it. (default: executed, or published with --config published)",
    ),
]
Config = Annotated[
    Literal["published"] | None,
    typer.Option(help="Take the values that are not given from the published experiment."),
]


Where = Annotated[
    str | None,
    typer.Option(
        metavar="CONDITION",
        help="Use only runs that satisfy this condition: 'tile in (16, 32) and channels <= 32'.",
    ),
]
Cost = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=WEIGHT,...",
        help="Weights of columns in the metric cost, for example hbm_channels=1,onchip_bytes=1e-6; "
        "without it, the weights of the machine.",
    ),
]


def find_model(text: str) -> MoEShape:
    """The experts of a model: a name, a YAML file or a config.json.

    Raises
    ------
    ArgError : the model is unknown, or it has no experts.
    """
    try:
        return stepsim.workloads.Model.parse(text).moe
    except ArgError as error:
        raise ArgError(f"--model: {error}") from None


def check_counts(**values: int | None) -> None:
    """Refuse options below 1 or too large for the counters of a run; None means not given."""
    for name, value in values.items():
        if value is not None and not 1 <= value <= 1 << _MOST_BITS:
            option = name.replace("_", "-")
            top = f" to 2**{_MOST_BITS}" if value > 1 else ""
            raise ArgError(f"--{option}: expected a whole number from 1{top}, found {value}")


def check_folder(path: Path) -> None:
    """Refuse a folder of results that certainly cannot be made, before they are computed.

    Raises
    ------
    OutputError : the path, or one that it leads through, is something else, or may not be written.
    """
    known = next(one for one in (path, *path.parents) if exists(one, OutputError))
    if not known.is_dir():
        raise OutputError(f"{path}: cannot be made, {known} is not a folder; name another folder")
    if not os.access(known, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: cannot be written, {known} is protected; name another folder")


def check_output(path: Path, suffix: str | None = None) -> None:
    """Refuse a file that certainly cannot be written, before time is spent on its content.

    Raises
    ------
    OutputError : the folder is missing or not a folder, the path is a folder, or its name does not
        end in ``suffix``.
    """
    folder = path.parent
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise OutputError(f"{path}: cannot be written, {folder} {what}; make it first")
    if path.is_dir():
        raise OutputError(f"{path}: cannot be written, since it is a folder; name a file in it")
    if suffix is not None and path.suffix != suffix:
        raise OutputError(
            f"{path}: expected a name that ends in {suffix}, for example "
            f"{path.with_name((path.stem or 'result') + suffix)}; for JSON use --json > FILE"
        )


def refuse_unused(why: str, **options: object) -> None:
    """Refuse options that have no effect because of others; None, False and an empty list are those
    that were not given.

    Raises
    ------
    ArgError : one was given.
    """
    for name, value in options.items():
        if value is not None and value is not False and value != []:
            option = name.replace("_", "-")
            raise ArgError(f"--{option}: has no effect, since {why}; leave it out")
