"""``stepsim trace``: look at routing traces, and make synthetic ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepsim.cli.console import note, print_json, show
from stepsim.cli.options import Layer, OptionalModel, Step, find_model

if TYPE_CHECKING:
    from stepsim.trace_io import RoutingStatistics, RoutingTable

__all__ = ["app"]

app = typer.Typer(help="Look at expert-routing traces, or make synthetic ones.")

_MAX_ROWS = 40


@app.command()
def info(
    file: Annotated[Path, typer.Argument(help="A .npy, .npz, Parquet or Arrow IPC file.")],
    model: OptionalModel = None,
    experts: Annotated[
        int | None, typer.Option(help="Number of experts, if no --model is given.")
    ] = None,
    layer: Layer = None,
    step: Step = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check a routing trace and show how it loads the experts."""
    from stepsim.errors import ArgError
    from stepsim.trace_io import read_routing_batches

    k = None
    if model is not None:
        if experts is not None:
            raise ArgError("--experts and --model both give the number of experts; leave one out")
        found = find_model(model)
        experts, k = found.experts, found.active
    tables = list(read_routing_batches(file, experts=experts, k=k, layer=layer, step=step))
    rows = [_describe(table, experts) for table in tables]
    if json:
        print_json({"file": str(file), "tables": rows})
        return
    if experts is None:
        note("number of experts not given: taken as the highest id + 1; --model or --experts tells")
    _show(rows)


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
    write_routing(tables, out)
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
    for row in rows[:_MAX_ROWS]:
        table.add_row(
            Text(row["model"] or "-"),
            str(row["layer"]),
            str(row["step"]),
            *(str(row[key]) for key in ("tokens", "k", "experts", "active", "max_load")),
            *(f"{row[key]:.2f}" for key in ("mean_load", "std_load", "imbalance")),
        )
    show(table)
    if len(rows) > _MAX_ROWS:
        note(f"{len(rows) - _MAX_ROWS} more tables; --layer and --step choose, --json shows all")
