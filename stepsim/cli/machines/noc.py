"""``stepsim noc``: traffic or an event trace on a network on chip."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import stepsim.machine
import stepsim.noc
import stepsim.report
from stepsim.atomic import replacing
from stepsim.cli.console import note, print_json, show, show_table
from stepsim.cli.heartbeat import Heartbeat
from stepsim.cli.options import Json, check_output, refuse_unused
from stepsim.cli.panels import in_panels
from stepsim.deferred import deferred
from stepsim.errors import ArgError, TraceError
from stepsim.paths import local_path

if TYPE_CHECKING:
    import yaml
    from pyarrow import csv, parquet

    from stepsim.noc import NocRun, NocTrace
else:
    csv = deferred("pyarrow.csv")
    parquet = deferred("pyarrow.parquet")
    yaml = deferred("yaml")

_PANELS = {
    "Network": ("network", "overrides", "show_name", "list_all"),
    "Model": ("model", "memory_cycles", "step", "no_congestion"),
    "Traffic": ("trace",),
    "Output": ("out", "picture", "rows", "json", "help"),
}

_ROWS = 10


@in_panels(_PANELS)
def noc(
    traffic: Annotated[
        Path | None,
        typer.Argument(
            metavar="TRAFFIC",
            help="Table of transfers (.parquet, .csv), or event traces of tt-npe (.json, .jsonl).",
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE.yaml",
            help="Network; an unknown name lists all. (default: that of the trace, else mesh)",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change a value of the network; repeatable."
        ),
    ] = None,
    show_name: Annotated[
        str | None,
        typer.Option(
            "--show", metavar="NETWORK", help="Print this network as a YAML file to start from."
        ),
    ] = None,
    list_all: Annotated[
        bool, typer.Option("--list", metavar="", help="List the built-in networks.")
    ] = False,
    model: Annotated[
        Literal["link", "flow", "npe"], typer.Option(help="Model of the network.")
    ] = "link",
    memory_cycles: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Start transfers from DRAM cores N cycles later."),
    ] = 0,
    step: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Cycles of a step of the model npe. (default: 128)"),
    ] = None,
    no_congestion: Annotated[
        bool,
        typer.Option(
            "--no-congestion", metavar="", help="With npe: transfers do not slow each other down."
        ),
    ] = False,
    trace: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Take this one of several traces of a .jsonl file."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.parquet",
            help="Write the transfers to this file, and the links to FILE.links.parquet.",
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg", help="Draw the network, its links in the color of their load."
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Number of busiest links to print. (default: 10)"),
    ] = None,
    json: Json = False,
) -> None:
    """Simulate transfers or an event trace on a network on chip, without a program."""
    given = stepsim.machine.parse_network_overrides(overrides or [])
    if list_all or show_name is not None:
        if traffic is not None:
            raise ArgError("--show and --list print networks and take no traffic; leave it out")
        if list_all and (overrides or show_name is not None):
            raise ArgError("--list has no effect with --show or --set; leave it out")
        refuse_unused(
            "--show and --list print networks", network=network,
            model=None if model == "link" else model, memory_cycles=memory_cycles or None,
            step=step, no_congestion=no_congestion, trace=trace, out=out, picture=picture,
            rows=rows,
        )  # fmt: skip
        _print_networks(show_name, given, json=json)
        return
    if traffic is None:
        raise ArgError("TRAFFIC: missing; give a table of transfers or a trace, or use --list")
    if json and rows is not None:
        raise ArgError("--rows has no effect with --json; leave it out")
    for file, suffix in ((out, ".parquet"), (picture, ".svg")):
        if file is not None:
            check_output(file, suffix)
    with Heartbeat() as heartbeat:
        heartbeat.phase("reading")
        found, columns = _read(traffic, trace)
        name = network or (found.network if found is not None else None) or "mesh"
        described = stepsim.machine.load_network(name, given)
        sent = columns if found is None else found.traffic(described)
        heartbeat.phase("simulating")
        run = stepsim.noc.simulate(
            sent, described, model=model, memory_cycles=memory_cycles, step=step,
            congestion=not no_congestion,
        )  # fmt: skip
        if picture is not None:
            stepsim.report.draw_network(run, picture)
        if out is not None:
            _write(run, out)
    values: dict[str, Any] = {"network": described.name, "model": model, **run.metrics()}
    if found is not None:
        values |= {
            "trace": found.name,
            "trace_cycles": found.cycles(run),
            "measured_cycles": found.measured_cycles,
        }
    if json:
        print_json(values | {"busiest_link": run.busiest_link, "description": described.to_dict()})
    else:
        _show(run, values, _ROWS if rows is None else rows)
    for path in (out, picture):
        if path is not None:
            note(f"wrote {path}")


def _print_networks(name: str | None, given: dict[str, str], *, json: bool) -> None:
    if name is not None:
        shown = stepsim.machine.load_network(name, given).to_dict()
        if json:
            print_json(shown)
        else:
            typer.echo(yaml.safe_dump(shown, sort_keys=False), nl=False)
        return
    known = [stepsim.machine.load_network(one) for one in stepsim.machine.list_networks()]
    if json:
        print_json({one.name: one.to_dict() for one in known})
    else:
        show_table(("network", "description"), [(one.name, one.description) for one in known])


def _read(path: Path, name: str | None) -> tuple[NocTrace | None, Any]:
    """The trace of a file, or the columns of a table."""
    if path.suffix in (".json", ".jsonl"):
        traces = stepsim.noc.read_traces(path)
        names = [one.name for one in traces]
        if name is None and len(traces) > 1:
            raise ArgError(f"--trace: {path} has several; choose one of {', '.join(names)}")
        if name is not None and name not in names:
            raise ArgError(f"--trace: {path} has no {name!r}; expected one of {', '.join(names)}")
        return traces[0 if name is None else names.index(name)], None
    if name is not None:
        raise ArgError("--trace has no effect on a table of transfers; leave it out")
    if path.suffix not in (".parquet", ".csv"):
        raise ArgError(
            f"{path}: expected a table of transfers (.parquet or .csv) or event traces of tt-npe "
            "(.json or .jsonl)"
        )
    try:
        place = local_path(path)
        table = parquet.read_table(place) if path.suffix == ".parquet" else csv.read_csv(place)
        return None, table
    except (OSError, ValueError) as error:
        raise TraceError(f"{path}: {error}; expected a table of transfers") from error


def _write(run: NocRun, path: Path) -> None:
    links = path.with_suffix(".links.parquet")
    with replacing(path, links) as parts:
        for table, part in zip((run.table(), run.links()), parts, strict=True):
            parquet.write_table(table, part)


def _show(run: NocRun, values: dict[str, Any], rows: int) -> None:
    show_table(
        ("metric", "value"),
        [
            (name, f"{value:,.6g}" if isinstance(value, float) else value)
            for name, value in values.items()
        ],
    )
    busiest = sorted(run.links().to_pylist(), key=lambda one: -one["link_share"])[:rows]
    busiest = [one for one in busiest if one["link_transfers"]]
    if busiest:
        show("")
        show_table(
            ("busiest links", "share", "transfers", "bytes", "flits", "wait"),
            [
                (
                    one["link_name"], f"{one['link_share']:.1%}", one["link_transfers"],
                    one["link_bytes"] or None, one["link_flits"] or None,
                    None if one["link_wait_cycles"] is None
                    else f"{one['link_wait_cycles']:,.0f}",
                )
                for one in busiest
            ],
        )  # fmt: skip
