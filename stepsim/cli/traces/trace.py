"""``stepsim trace``: inspect, convert and select traces, and generate synthetic ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

import stepsim.trace_io
from stepsim.arguments import shown
from stepsim.cli.console import note
from stepsim.cli.options import OptionalModel, find_model
from stepsim.cli.traces.importing import import_
from stepsim.cli.traces.look import info, plot
from stepsim.cli.traces.requests import replay, select
from stepsim.cli.traces.show import show_tables, table_record
from stepsim.errors import ArgError

_MOST_PAIRS: Final = 1 << 18
"""Most pairs of a layer and a step, which takes half a minute."""

app = typer.Typer(help="Inspect, convert and generate traces of expert routing and of requests.")

app.command(name="import")(import_)
app.command()(info)
app.command()(plot)
app.command()(select)
app.command()(replay)


@app.command()
def synth(
    out: Annotated[Path, typer.Option(help="Parquet file to write.")],
    model: OptionalModel = None,
    tokens: Annotated[int, typer.Option(help="Number of tokens of each layer and step.")] = 64,
    experts: Annotated[
        int | None, typer.Option(help="Number of experts, if --model is not given.")
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", help="Experts per token, if --model is not given.")
    ] = None,
    skew: Annotated[
        float, typer.Option(help="Zipf exponent of the popularity of experts; 0 is uniform.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same trace.")] = 0,
    layers: Annotated[int, typer.Option(help="Number of layers.")] = 1,
    steps: Annotated[int, typer.Option(help="Number of forward passes.")] = 1,
) -> None:
    """Write a synthetic routing trace, the same on every computer."""
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
    pairs = layers * steps
    # A table alone that is too large is refused where it is made.
    if pairs > _MOST_PAIRS or (pairs > 1 and pairs * tokens * k > stepsim.trace_io.MOST_ENTRIES):
        raise ArgError(
            f"--layers {shown(layers)} --steps {shown(steps)}: a trace has at most {_MOST_PAIRS:,} "
            f"pairs of a layer and a step, and {stepsim.trace_io.MOST_ENTRIES:,} choices in all; "
            "write several traces"
        )
    tables = [
        stepsim.trace_io.synthetic_routing(
            tokens, experts, k, seed=seed, skew=skew, layer=layer, step=step, model=model
        )
        for step in range(steps)
        for layer in range(layers)
    ]
    origin = {"generator": "synthetic_routing", "seed": seed, "skew": skew, "experts": experts}
    stepsim.trace_io.write_routing(tables, out, origin=origin)
    show_tables([table_record(table, experts) for table in tables])
    note(f"wrote {out}")
