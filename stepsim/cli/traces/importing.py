"""``stepsim trace import``: convert traces of other tools."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import stepsim.trace_io
from stepsim.cli.console import note, print_json, show
from stepsim.cli.options import Json, OptionalModel, check_output, find_model
from stepsim.cli.traces.show import load_table, routing_record
from stepsim.deferred import deferred
from stepsim.errors import ArgError

if TYPE_CHECKING:
    import rich.console
    import rich.progress

    from stepsim.trace_io import ImportProgress
else:
    rich = deferred("rich")

_QUIET_SECONDS = 2.0
_LOG_SECONDS = 5.0

Experts = Annotated[int | None, typer.Option(help="Number of experts, if --model is not given.")]
TopK = Annotated[
    int | None, typer.Option("--k", help="Experts per token, if --model is not given.")
]
Layers = Annotated[
    int | None, typer.Option(help="Number of layers of the model; the format sglang may need it.")
]
Column = Annotated[
    str | None, typer.Option(help="Column to read: of a Parquet file, or of lengths in a CSV file.")
]
DropMissing = Annotated[
    bool,
    typer.Option("--drop-missing", help="Leave out tokens without recorded experts."),
]
Ranks = Annotated[
    list[int] | None,
    typer.Option(
        "--rank", metavar="N", help="Read only this rank of a Megatron folder; repeatable."
    ),
]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-F",
        metavar="FORMAT",
        help="Name of the format, for example vllm or azure; auto-detected from the content by "
        "default.",
    ),
]


def import_(
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="A file, a Megatron folder, or a data set.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Parquet file to write.")],
    format: FormatName = None,
    model: OptionalModel = None,
    experts: Experts = None,
    k: TopK = None,
    layers: Layers = None,
    column: Column = None,
    drop_missing: DropMissing = False,
    ranks: Ranks = None,
    json: Json = False,
) -> None:
    """Convert a trace of another tool into a Parquet file, in constant memory."""
    experts, k = router_of(model, experts, k)
    check_output(out)
    with progress("importing") as report:
        summary = stepsim.trace_io.import_trace(
            source,
            out,
            format=format,
            experts=experts,
            k=k,
            layers=layers,
            model=model,
            column=column,
            drop_missing=drop_missing,
            ranks=ranks or None,
            progress=report,
        )
    for sentence in summary.notes:
        note(sentence)
    if json:
        record: dict[str, Any] = {
            "file": str(out),
            "format": summary.format,
            "rows": summary.rows,
            "notes": list(summary.notes),
        }
        if summary.routing is not None:
            record["routing"] = routing_record(summary.routing)
        print_json(record)
        return
    what = "requests"
    if summary.routing is not None:
        show(load_table(summary.routing))
        steps = summary.routing.steps
        what = f"rows (tokens of all layers and {f'{steps} steps' if steps > 1 else 'steps'})"
    note(f"wrote {out}: {summary.rows} {what} from the format {summary.format}")


def router_of(
    model: str | None, experts: int | None, k: int | None
) -> tuple[int | None, int | None]:
    """Experts and experts per token, of the model if one is named.

    Raises
    ------
    ArgError : a model and one of these numbers are given, and contradict each other.
    """
    if model is None:
        return experts, k
    found = find_model(model)
    for name, given, own in (("experts", experts, found.experts), ("k", k, found.active)):
        if given not in (None, own):
            raise ArgError(f"--{name} {given}: model {model} has {own}; leave one of them out")
    return found.experts, found.active


@contextmanager
def progress(what: str) -> Iterator[Callable[[ImportProgress], None]]:
    """Show the progress of reading: a bar on a terminal, else a line from time to time."""
    if not sys.stderr.isatty():
        yield _Lines(what)
        return

    columns = (
        rich.progress.TextColumn(what),
        rich.progress.BarColumn(),
        rich.progress.DownloadColumn(),
        rich.progress.TimeRemainingColumn(),
    )
    with rich.progress.Progress(
        *columns, console=rich.console.Console(stderr=True), transient=True
    ) as bars:
        task = bars.add_task(what, total=None)
        yield lambda state: bars.update(task, completed=state.bytes_done, total=state.bytes_total)


class _Lines:
    """Reports progress after two seconds, and then every five."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = time.monotonic() + _QUIET_SECONDS

    def __call__(self, state: ImportProgress) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _LOG_SECONDS
        share = 100 * state.bytes_done / max(1, state.bytes_total)
        note(f"{self._what}: {share:.0f} %, {state.rows} rows")
