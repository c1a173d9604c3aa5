"""``stepsim data``: public data sets, fetched once and then usable by name in place of a trace."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

import stepsim.data
from stepsim.cli.console import note, print_json, show
from stepsim.cli.heartbeat import Heartbeat
from stepsim.cli.options import Json
from stepsim.deferred import deferred

if TYPE_CHECKING:
    import rich.table
else:
    rich = deferred("rich")

app = typer.Typer(
    help="List and fetch public traces, which can then be used by name in place of trace files."
)

_Chosen = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME]...", help="Data sets, groups of them (for example step), or all."
    ),
]


@app.command(name="list")
def list_(names: _Chosen = None, json: Json = False) -> None:
    """List data sets: their content, their size, and whether they are fetched."""
    chosen = stepsim.data.choose(names or ["all"])
    if json:
        listed = [
            asdict(d) | {"fetched": stepsim.data.is_fetched(d), "path": str(stepsim.data.place(d))}
            for d in chosen
        ]
        print_json({"folder": str(stepsim.data.data_folder()), "datasets": listed})
        return

    for source in dict.fromkeys(d.source for d in chosen):
        own = [d for d in chosen if d.source == source]
        table = rich.table.Table(box=None, pad_edge=False)
        table.add_column("name", no_wrap=True)
        table.add_column("bytes", justify="right", no_wrap=True)
        table.add_column("fetched", no_wrap=True)
        table.add_column("content")
        for d in own:
            table.add_row(
                d.name, f"{d.bytes:,}", "yes" if stepsim.data.is_fetched(d) else "-", d.about
            )
        show(f"{source}; license: {own[0].license}", table, "")
    show(f"data folder: {stepsim.data.data_folder()}")


@app.command()
def fetch(names: _Chosen = None) -> None:
    """Fetch the data sets that are not yet in the data folder, and check their digests."""
    chosen = stepsim.data.choose(names or [])
    with Heartbeat() as heartbeat:
        heartbeat.phase("checking the data folder")
        fetched = stepsim.data.fetch_datasets(chosen, notice=heartbeat.phase)
    for dataset in fetched:
        note(f"fetched {dataset.name} ({dataset.bytes:,} bytes)")
    folder = stepsim.data.data_folder()
    note(f"{len(chosen)} data set{'s are' if len(chosen) > 1 else ' is'} in {folder}")


@app.command()
def path(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a data set.")],
) -> None:
    """Print the path of a fetched data set."""
    for dataset in stepsim.data.choose([name]):
        show(str(stepsim.data.locate(dataset.name)))
