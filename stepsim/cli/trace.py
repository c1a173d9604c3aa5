"""``stepsim trace``: look at traces, convert them, choose from them, and make synthetic ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepsim.cli.console import note, print_json, show
from stepsim.cli.options import Layer, OptionalModel, Step, check_output, find_model
from stepsim.cli.trace_import import (
    Column,
    DropMissing,
    Experts,
    Layers,
    TopK,
    import_,
    progress,
    router_of,
)
from stepsim.cli.trace_requests import replay, select
from stepsim.cli.trace_show import (
    MAX_ROWS,
    load_table,
    request_lines,
    request_record,
    routing_lines,
    routing_record,
)

if TYPE_CHECKING:
    from stepsim.trace_io import RoutingStatistics, RoutingTable

__all__ = ["app"]

app = typer.Typer(
    help="Look at traces of expert routing and of requests, convert them, make synthetic ones."
)

_MAX_WHOLE_BYTES = 32 << 20


app.command(name="import")(import_)
app.command()(select)
app.command()(replay)


@app.command()
def info(
    file: Annotated[Path, typer.Argument(help="A trace of any format that import reads.")],
    model: OptionalModel = None,
    experts: Experts = None,
    k: TopK = None,
    layers: Layers = None,
    layer: Layer = None,
    step: Step = None,
    column: Column = None,
    drop_missing: DropMissing = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check a trace, and show how it loads the experts or what its requests are like."""
    from stepsim.errors import ArgError
    from stepsim.trace_io import (
        FORMATS,
        OWN_REQUESTS,
        RoutingCounter,
        detect_trace_format,
        is_routing_table,
        load_requests,
        read_origin,
        read_routing_batches,
        summarize_routing,
    )

    if model is not None and experts is not None:
        raise ArgError("--experts and --model both give the number of experts; leave one out")
    experts, k = router_of(model, experts, k)
    if experts is None:
        experts = read_origin(file).get("experts")
    kind = detect_trace_format(file)
    if kind == OWN_REQUESTS or FORMATS[kind].holds == "requests":
        trace = load_requests(file, column=column)
        if json:
            print_json({"file": str(file), "format": kind, **request_record(trace)})
        else:
            show(*request_lines(trace))
        return
    rows = []
    whole = column is None and not drop_missing and file.stat().st_size <= _MAX_WHOLE_BYTES
    if whole and is_routing_table(file):
        counter = RoutingCounter(experts)
        for table in read_routing_batches(file, experts=experts, k=k, layer=layer, step=step):
            counter.add(table)
            rows.append(_describe(table, experts))
        summary = counter.summary()
    else:
        with progress("reading") as report:
            summary = summarize_routing(
                file,
                experts=experts,
                k=k,
                layers=layers,
                column=column,
                drop_missing=drop_missing,
                layer=layer,
                step=step,
                progress=report,
            )
    if json:
        record = {"file": str(file), "format": kind, "summary": routing_record(summary)}
        print_json({**record, "tables": rows})
        return
    if experts is None:
        note("number of experts not given: taken as the highest id + 1; --model or --experts tells")
    if rows:
        _show(rows)
    else:
        show(load_table(summary))
        if len(summary.layers) > MAX_ROWS:
            note(f"{len(summary.layers) - MAX_ROWS} more layers; --layer chooses, --json shows all")
    show("", *routing_lines(summary))


@app.command()
def plot(
    file: Annotated[Path, typer.Argument(help="A trace of any format that import reads.")],
    out: Annotated[Path, typer.Option(help="PNG or SVG file to write.")],
    model: OptionalModel = None,
    experts: Experts = None,
    k: TopK = None,
    layers: Layers = None,
    layer: Layer = None,
    step: Step = None,
    column: Column = None,
    title: Annotated[str | None, typer.Option(help="By default the name of the file.")] = None,
) -> None:
    """Draw the load of the experts, or the lengths of the requests."""
    from stepsim.cli.trace_figure import draw_requests, draw_routing
    from stepsim.trace_io import (
        FORMATS,
        OWN_REQUESTS,
        detect_trace_format,
        load_requests,
        summarize_routing,
    )

    check_output(out)
    experts, k = router_of(model, experts, k)
    kind = detect_trace_format(file)
    heading = file.name if title is None else title
    if kind == OWN_REQUESTS or FORMATS[kind].holds == "requests":
        draw_requests(load_requests(file, column=column), heading, out)
    else:
        with progress("reading") as report:
            summary = summarize_routing(
                file,
                experts=experts,
                k=k,
                layers=layers,
                column=column,
                layer=layer,
                step=step,
                progress=report,
            )
        draw_routing(summary, heading, out)
    note(f"wrote {out}")


@app.command()
def synth(
    out: Annotated[Path, typer.Option(help="Parquet file to write.")],
    model: OptionalModel = None,
    tokens: Annotated[int, typer.Option(help="Tokens of each layer and step.")] = 64,
    experts: Annotated[int | None, typer.Option(help="Experts, if no --model is given.")] = None,
    k: Annotated[
        int | None, typer.Option("--k", help="Experts per token, if no --model is given.")
    ] = None,
    skew: Annotated[
        float, typer.Option(help="Zipf exponent of the experts' popularity; 0 is uniform.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same trace.")] = 0,
    layers: Annotated[int, typer.Option(help="Number of layers.")] = 1,
    steps: Annotated[int, typer.Option(help="Number of forward passes.")] = 1,
) -> None:
    """Write a synthetic routing trace, the same on every computer."""
    from stepsim.errors import ArgError
    from stepsim.trace_io import synthetic_routing, write_routing

    if model is not None:
        found = find_model(model)
        for name, given, own in (("experts", experts, found.experts), ("k", k, found.active)):
            if given not in (None, own):
                raise ArgError(f"--{name} {given}: model {model} has {own}; leave one of them out")
        experts, k = found.experts, found.active
    if experts is None or k is None:
        raise ArgError("the size of the router is missing; give --model, or --experts and --k")
    for name, count in (("layers", layers), ("steps", steps)):
        if count < 1:
            raise ArgError(f"--{name} {count}: expected at least 1")
    tables = [
        synthetic_routing(
            tokens, experts, k, seed=seed, skew=skew, layer=layer, step=step, model=model
        )
        for step in range(steps)
        for layer in range(layers)
    ]
    origin = {"generator": "synthetic_routing", "seed": seed, "skew": skew, "experts": experts}
    write_routing(tables, out, origin=origin)
    _show([_describe(table, experts) for table in tables])
    note(f"wrote {out}")


def _describe(table: RoutingTable, experts: int | None) -> dict[str, Any]:
    from stepsim.trace_io import routing_statistics

    count = int(table.experts.max()) + 1 if experts is None else experts
    statistics: RoutingStatistics = routing_statistics(table, count)
    return {
        "model": table.model,
        "layer": table.layer,
        "step": table.step,
        "tokens": table.tokens,
        "k": table.k,
        "weights": table.weights is not None,
        "experts": count,
        "active": statistics.active,
        "max_load": statistics.max,
        "mean_load": statistics.mean,
        "std_load": statistics.std,
        "imbalance": statistics.imbalance,
        "loads": statistics.counts.tolist(),
        "identity": table.identity(),
    }


def _show(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("model", "layer", "step"):
        table.add_column(heading)
    headings = ("tokens", "k", "experts", "active", "max load", "mean", "std", "max/mean")
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in rows[:MAX_ROWS]:
        table.add_row(
            Text(row["model"] or "-"),
            str(row["layer"]),
            str(row["step"]),
            *(str(row[key]) for key in ("tokens", "k", "experts", "active", "max_load")),
            *(f"{row[key]:.2f}" for key in ("mean_load", "std_load", "imbalance")),
        )
    show(table)
    if len(rows) > MAX_ROWS:
        note(f"{len(rows) - MAX_ROWS} more tables; --layer and --step choose, --json shows all")
