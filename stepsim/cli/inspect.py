"""``stepsim inspect``: look at a workload without simulating it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stepsim.cli.console import print_json, show
from stepsim.cli.options import (
    ComputeBw,
    Config,
    FifoDepth,
    Json,
    Layer,
    MachineName,
    MemoryModel,
    ModelName,
    Overrides,
    Step,
    Tile,
    TileInter,
    find_model,
    parse_tile,
    resolve_machine,
)
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from rich.table import Table

    from stepsim.workloads import MoEWorkload

__all__ = ["app"]

app = typer.Typer(help="Show a workload's graph, shapes and metrics.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@app.command()
def moe(
    model: ModelName,
    tile: Tile,
    routing: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Routing trace, for numbers.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Tokens, if no trace is given. (default: 64)")
    ] = None,
    tile_inter: TileInter = None,
    compute_bw: ComputeBw = None,
    fifo_depth: FifoDepth = None,
    machine: MachineName = "sda-1024",
    overrides: Overrides = None,
    memory_model: MemoryModel = "published",
    config: Config = None,
    layer: Layer = None,
    step: Step = None,
    graph: Annotated[
        Literal["dot", "mermaid"] | None,
        typer.Option(help="Print the graph in this language instead."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="List the operators of every expert, not of one.")
    ] = False,
    json: Json = False,
) -> None:
    """Show a mixture-of-experts layer: operators, symbolic shapes and metrics; no simulation."""
    rows = parse_tile(tile)
    if graph is not None and json:
        raise ArgError("--graph and --json both choose what is printed; leave one out")
    if batch is not None and (batch < 1 or routing is not None):
        raise ArgError(
            f"--batch: expected a whole number from 1, found {batch}"
            if batch < 1
            else "--batch and --routing both give the number of tokens; leave one out"
        )
    shape = find_model(model)
    target = resolve_machine(machine, overrides)
    from stepsim.cli.moe import build, program_numbers, resolve_settings

    trace = None
    if routing is not None:
        from stepsim.trace_io import read_routing

        trace = read_routing(routing, experts=shape.experts, k=shape.active, layer=layer, step=step)
    tokens = (batch or 64) if trace is None else trace.tokens
    settings = resolve_settings(
        shape,
        tokens,
        rows,
        target,
        config=config,
        tile_inter=tile_inter,
        compute_bw=compute_bw,
        fifo_depth=fifo_depth,
    )
    # Built without the trace, so that shapes and metrics stay formulas.
    workload = build(shape, tokens, settings, None)
    if graph is not None:
        program = workload.program
        typer.echo(program.to_dot() if graph == "dot" else program.to_mermaid())
        return
    formulas = _formulas(workload, memory_model)
    numbers: dict[str, int] | None = None
    if trace is not None:
        executed = workload.program.metrics().bind({workload.routing: trace.experts}).flops
        counted = program_numbers(workload, trace, memory_model)
        numbers = {**asdict(counted), "executed_flops": executed}
    if json:
        print_json(
            {
                "workload": "moe",
                "model": shape.name,
                "tokens": tokens,
                **settings.to_dict(),
                "memory_model": memory_model,
                "operators": _operators(workload),
                "formulas": formulas,
                "numbers": numbers,
            }
        )
        return
    _show(workload, formulas, numbers, every)


def _formulas(workload: MoEWorkload, memory_model: str) -> dict[str, str]:
    """The symbolic totals as text."""
    from stepsim.report.formulas import fold_sum

    on_demand = memory_model == "published" and workload.is_dynamic
    metrics = workload.program.metrics(memory=memory_model, on_demand=on_demand)
    return {
        "offchip_bytes": fold_sum(metrics.off_chip_traffic),
        "onchip_bytes": fold_sum(metrics.on_chip_memory),
        "executed_flops": fold_sum(metrics.flops),
    }


def _operators(workload: MoEWorkload) -> list[dict[str, Any]]:
    return [
        {
            "id": op.id,
            "name": op.title(),
            "kind": op.unit_kind,
            "inputs": [stream.producer.id for stream in op.inputs],
            "outputs": [stream.describe() for stream in op.outputs],
        }
        for op in workload.program.operators
    ]


def _show(
    workload: MoEWorkload,
    formulas: dict[str, str],
    numbers: dict[str, int] | None,
    every: bool,
) -> None:
    from rich.table import Table
    from rich.text import Text

    if every:
        typer.echo(str(workload.program))
    else:
        show(_folded_operators(workload))
    table = Table(box=None, pad_edge=False, title="\nmetrics", title_justify="left")
    table.add_column("metric", style="bold")
    table.add_column("formula", overflow="fold")
    if numbers is None:
        for name, formula in formulas.items():
            table.add_row(name, Text(formula))
    else:
        table.add_column("number", justify="right")
        for name in dict.fromkeys((*formulas, *numbers)):
            table.add_row(name, Text(formulas.get(name, "")), f"{numbers[name]:,}")
    show(table)


def _folded_operators(workload: MoEWorkload) -> Table:
    """The operators in program order; those that all experts have, once, with their number."""
    from rich.table import Table
    from rich.text import Text

    groups: dict[tuple[str, str], list[Any]] = {}
    for op in workload.program.operators:
        label = op.label or ""
        groups.setdefault((op.name, label.rpartition(".")[0] or label), []).append(op)
    title = f"{workload.program.name}: {len(workload.program.operators)} operators"
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    table.add_column("operator")
    table.add_column("label")
    table.add_column("count", justify="right")
    table.add_column("output (of the first)")
    for (name, label), members in groups.items():
        outputs = members[0].outputs
        more = f" and {len(outputs) - 1} more" if len(outputs) > 1 else ""
        # The brackets are shapes, not markup.
        first = Text(outputs[0].describe() + more if outputs else "-")
        table.add_row(name, Text(label), str(len(members)), first)
    return table
