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
    "DEFAULT_MACHINE",
    "AttentionBw",
    "AttentionDepth",
    "AttentionRegions",
    "Block",
    "ComputeBw",
    "Config",
    "DataType",
    "DecoderStrategy",
    "DecoderTile",
    "Every",
    "ExpertRegions",
    "FifoDepth",
    "Graph",
    "Hidden",
    "Intermediate",
    "Json",
    "KvBatch",
    "KvColumn",
    "KvStep",
    "KvTile",
    "KvWindow",
    "Layer",
    "MachineName",
    "MaxCycles",
    "MaxLength",
    "MaxSeconds",
    "MemoryModel",
    "MicroBatches",
    "ModelName",
    "MoeBw",
    "MoeRegions",
    "OptionalModel",
    "Out",
    "Overrides",
    "ParDispatch",
    "QkvBw",
    "Regions",
    "Step",
    "Strategy",
    "SwigluBatch",
    "SwigluDepth",
    "Tile",
    "TileColumns",
    "TileInter",
    "TileRows",
    "TokenBatch",
    "Variant",
    "Window",
    "check_counts",
    "check_divisor",
    "check_output",
    "check_window",
    "find_model",
    "find_name",
    "parse_tile",
    "resolve_depth",
    "resolve_machine",
]

DEFAULT_MACHINE = "sda-1024"

_MOST_BITS = 40


def _number(default: str | int, what: str) -> Any:
    """An option that takes a whole number."""
    return typer.Option(metavar="N", help=f"{what} (default: {default})")


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, no tables.")]
_MODEL = typer.Option(
    "--model", metavar="MODEL", help="mixtral-8x7b, qwen3-30b-a3b, ...; a wrong name lists all."
)
ModelName = Annotated[str, _MODEL]
OptionalModel = Annotated[str | None, _MODEL]
Layer = Annotated[int | None, typer.Option(help="Which layer of the trace.")]
Step = Annotated[int | None, typer.Option(help="Which forward pass of the trace.")]
TokenBatch = Annotated[
    int | None,
    typer.Option("--batch", metavar="N", help="Only N tokens of the trace, by default the first."),
]
Window = Annotated[
    int | None,
    typer.Option(
        metavar="I", help="Which batch of N consecutive tokens of the trace, from 0; with --batch."
    ),
]
Tile = Annotated[
    str,
    typer.Option(metavar="N|dynamic", help="Rows per tile, or as many as each expert has tokens."),
]
TileInter = Annotated[int | None, _number(64, "Columns per tile of the inner dimension.")]
ComputeBw = Annotated[int | None, _number(4096, "FLOPs per cycle of each operator.")]
FifoDepth = Annotated[int | None, _number("the machine's, or 2", "Tokens each FIFO holds.")]
MoeRegions = Annotated[
    int | None, _number("one for each expert", "Regions of hardware that the experts share.")
]
ExpertRegions = MoeRegions

Strategy = Annotated[
    str,
    typer.Option(
        metavar="coarse|interleaved|dynamic",
        help="Requests go to regions in blocks, in turn, or to the region that is free first.",
    ),
]
Regions = Annotated[
    int | None, _number(4, "Regions to use; coarse builds only as many as there are blocks.")
]
KvBatch = Annotated[
    int | None, typer.Option("--batch", metavar="N", help="Only the first N requests of the file.")
]
KvColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="Column of a CSV file that holds the lengths.")
]
KvStep = Annotated[
    int | None, typer.Option(metavar="STEP", help="Which step of a file of `trace replay`.")
]
KvWindow = Annotated[
    int | None,
    typer.Option(
        metavar="I", help="Which batch of N consecutive requests of the file, from 0; with --batch."
    ),
]
KvTile = Annotated[int | None, _number(32, "Cached tokens per tile.")]
Block = Annotated[int | None, _number(16, "Requests of a block; for coarse only.")]
MicroBatches = Annotated[
    str | None,
    typer.Option(
        metavar="N+N", help="Sizes of joined micro-batches, as 64+16; blocks start anew in each."
    ),
]
MaxLength = Annotated[
    int | None, _number("what the longest needs", "Tokens reserved in the cache of each request.")
]
AttentionBw = Annotated[int | None, _number(2048, "FLOPs per cycle of each attention operator.")]
AttentionDepth = Annotated[int | None, _number("the machine's, or 1", "Tokens each FIFO holds.")]
SwigluDepth = AttentionDepth

SwigluBatch = Annotated[int | None, typer.Option("--batch", metavar="N", help="Rows.")]
Hidden = Annotated[int | None, typer.Option(metavar="N", help="Width of rows; is not tiled.")]
Intermediate = Annotated[int | None, typer.Option(metavar="N", help="Inner dimension.")]
TileRows = Annotated[int, typer.Option("--tile", metavar="N", help="Rows per tile.")]
TileColumns = Annotated[
    int, typer.Option("--tile-inter", metavar="N", help="Columns per tile of the inner dimension.")
]
ParDispatch = Annotated[int | None, _number(4, "Requests that a memory operator makes per cycle.")]
DataType = Annotated[Literal["f32", "bf16"], typer.Option(help="Type of all scalars.")]

Variant = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Of the published figure: memory-matched, performance-matched or dynamic.",
    ),
]
DecoderTile = Annotated[
    str | None,
    typer.Option("--tile", metavar="N|dynamic", help="Rows per tile of the experts, as for moe."),
]
DecoderStrategy = Annotated[
    str | None,
    typer.Option(metavar="interleaved|dynamic", help="How attention shares out the requests."),
]
AttentionRegions = Annotated[int | None, _number(4, "Regions of QKV generation and attention.")]
MoeBw = Annotated[int | None, _number(1024, "FLOPs per cycle of each operator of the experts.")]
QkvBw = Annotated[int | None, _number(20480, "FLOPs per cycle of each QKV generation.")]

MachineName = Annotated[
    str | None,
    typer.Option(
        "--machine",
        metavar="MACHINE",
        help=f"Name of a machine, or a YAML file. (default: {DEFAULT_MACHINE})",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the machine; repeatable."),
]
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

MaxCycles = Annotated[int | None, typer.Option(help="Stop after this many cycles.")]
MaxSeconds = Annotated[float | None, typer.Option(help="Stop after this wall time.")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.parquet",
        help="Write what --json prints as a row, and beside it accounts of units and queues.",
    ),
]
Graph = Annotated[
    Literal["dot", "mermaid"] | None,
    typer.Option(help="Print the graph in this language instead."),
]
Every = Annotated[
    bool,
    typer.Option("--all", help="List the operators of every expert or region, not of one."),
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


def check_window(window: int | None, batch: int | None, option: str, what: str) -> None:
    """Refuse the number of a batch without its size, and numbers out of range."""
    check_counts(batch=batch)
    if window is not None and window < 0:
        raise ArgError(f"{option}: expected a whole number from 0, found {window}")
    if window is not None and batch is None:
        raise ArgError(f"{option}: of how many {what} each is not known; give --batch too")


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


def resolve_machine(
    name: str | None, overrides: list[str] | None, default: str = DEFAULT_MACHINE
) -> Machine:
    """The machine of a run, with the changes of ``--set``."""
    from stepsim.machine import load_machine, parse_overrides

    return load_machine(default if name is None else name, parse_overrides(overrides or []))


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
