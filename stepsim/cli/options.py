"""Options that several commands share, and the checks of their values."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stepsim.errors import ArgError, OutputError

if TYPE_CHECKING:
    from stepsim.machine import Machine
    from stepsim.workloads import MoEShape

__all__ = [
    "AttentionBw",
    "ComputeBw",
    "Config",
    "Json",
    "KvTile",
    "Layer",
    "MaxLength",
    "MemoryModel",
    "ModelName",
    "OptionalModel",
    "SharedRegions",
    "Step",
    "TileInter",
    "check_counts",
    "check_divisor",
    "check_output",
    "depth",
    "find_model",
    "find_name",
    "number",
    "parse_tile",
    "resolve_depth",
]

_MOST_BITS = 40


def number(default: str | int, what: str) -> Any:
    """An option that takes a whole number; without it, ``default`` holds."""
    return typer.Option(metavar="N", help=f"{what} (default: {default})")


def depth(default: int) -> Any:
    """The option of the depth of FIFOs; see `resolve_depth`."""
    return number(f"the machine's, or {default}", "Tokens each FIFO holds.")


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, no tables.")]
_MODEL = typer.Option(
    "--model", metavar="MODEL", help="mixtral-8x7b, qwen3-30b-a3b, ...; a wrong name lists all."
)
ModelName = Annotated[str, _MODEL]
OptionalModel = Annotated[str | None, _MODEL]
Layer = Annotated[int | None, typer.Option(help="Which layer of the trace.")]
Step = Annotated[int | None, typer.Option(help="Which forward pass of the trace.")]

TileInter = Annotated[int | None, number(64, "Columns per tile of the inner dimension.")]
ComputeBw = Annotated[int | None, number(4096, "FLOPs per cycle of each operator.")]
SharedRegions = Annotated[
    int | None, number("one for each expert", "Regions of hardware that the experts share.")
]
KvTile = Annotated[int | None, number(32, "Cached tokens per tile.")]
MaxLength = Annotated[
    int | None, number("what the longest needs", "Tokens reserved in the cache of each request.")
]
AttentionBw = Annotated[int | None, number(2048, "FLOPs per cycle of each attention operator.")]
MemoryModel = Annotated[
    Literal["published", "paper"],
    typer.Option(
        help="How bytes and FLOPs are counted; times do not depend on it, nor do traffic_bytes "
        "and the values named executed_..., which are what the run did."
    ),
]
Config = Annotated[
    Literal["published"] | None,
    typer.Option(help="Set what is not given as the published experiment of this point did."),
]


def find_name(option: str, name: str, known: Collection[str]) -> str:
    """``name`` if it is known.

    Raises
    ------
    ArgError : it is not; the message has the nearest known name and all others.
    """
    from difflib import get_close_matches

    if name in known:
        return name
    near = get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    what = option.removeprefix("--")
    raise ArgError(f"{option}: unknown {what} '{name}'{hint} Known: {', '.join(known)}")


def find_model(name: str) -> MoEShape:
    """The shape of a mixture-of-experts model.

    Raises
    ------
    ArgError : no model has this name.
    """
    from stepsim.workloads import MOE_SHAPES, moe_shape

    return moe_shape(find_name("--model", name, sorted(MOE_SHAPES)))


def check_counts(**values: int | None) -> None:
    """Refuse options below 1 or so large that a run could not count; None means not given."""
    for name, value in values.items():
        if value is not None and not 1 <= value <= 1 << _MOST_BITS:
            option = name.replace("_", "-")
            top = f" to 2**{_MOST_BITS}" if value > 1 else ""
            raise ArgError(f"--{option}: expected a whole number from 1{top}, found {value}")


def check_divisor(option: str, value: int, whole: int, what: str) -> None:
    """Refuse a value that does not divide ``whole``, described by ``what``."""
    if value < 1 or whole % value:
        # Tiny divisors are never what was meant, unless there are no others.
        divisors = [n for n in range(min(8, whole), whole + 1) if whole % n == 0]
        near = sorted(sorted(divisors, key=lambda n: abs(n - value))[:3])
        nearest = "near ones are" if len(near) > 1 else "the nearest is"
        raise ArgError(
            f"{option}: expected a divisor of {what}, found {value}; "
            f"{nearest} {', '.join(map(str, near))}"
        )


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
    check_counts(tile=rows)
    return rows


def resolve_depth(given: int | None, machine: Machine, published: int | None, default: int) -> int:
    """Tokens per FIFO: the option, else the machine's, else the published one, else a default."""
    # Presets leave the depth open, so one in the machine was put there for this run.
    depths = (given, machine.fifo.depth, published, default)
    return next(depth for depth in depths if depth is not None)


def check_output(path: Path, suffix: str | None = None) -> None:
    """Refuse a file that surely cannot be written, before time is spent on its content.

    Raises
    ------
    OutputError : the folder is missing or no folder, the path is a folder, or its name does not
        end in ``suffix``.
    """
    folder = path.parent
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise OutputError(f"{path}: cannot be written, {folder} {what}; make it first")
    if path.is_dir():
        raise OutputError(f"{path}: cannot be written, it is a folder; name a file in it")
    if suffix is not None and path.suffix != suffix:
        raise OutputError(
            f"{path}: expected a name that ends in {suffix}, for example "
            f"{path.with_name((path.stem or 'result') + suffix)}; for JSON use --json > FILE"
        )
