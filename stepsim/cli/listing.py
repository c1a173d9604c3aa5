"""A case as text, drawing or JSON, without a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stepsim.cli.console import note, print_json, show
from stepsim.cli.options import Json, MemoryModel
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from rich.table import Table

    from stepsim.cli.case import Case
    from stepsim.graph import Program

__all__ = ["ListOptions", "list_case"]


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What to print of a case, and how its bytes are counted."""

    memory_model: MemoryModel = "published"
    graph: Annotated[
        Literal["dot", "mermaid"] | None,
        typer.Option(help="Print the graph in this language instead."),
    ] = None
    every: Annotated[
        bool,
        typer.Option("--all", help="List the operators of every expert or region, not of one."),
    ] = False
    json: Json = False

    def __post_init__(self) -> None:
        if self.graph is not None and self.json:
            raise ArgError("--graph and --json both choose what is printed; leave one out")


def list_case(case: Case, options: ListOptions) -> None:
    """Print operators, symbolic shapes and metrics, or a drawing."""
    program = case.program
    if options.graph is not None:
        typer.echo(program.to_dot() if options.graph == "dot" else program.to_mermaid())
        return
    formulas = _formulas(case, options.memory_model)
    numbers: dict[str, int] | None = None
    if case.numbers is not None:
        executed = program.metrics().bind(case.bindings).flops
        numbers = {**asdict(case.numbers), "executed_flops": executed}
    if options.json:
        print_json(
            {
                "workload": case.workload,
                **case.parameters,
                "memory_model": options.memory_model,
                "operators": _operators(program),
                "formulas": formulas,
                "numbers": numbers,
                **case.inputs,
            }
        )
    else:
        _show(program, formulas, numbers, options.every)
    for remark in case.remarks:
        note(remark)


def _formulas(case: Case, memory_model: str) -> dict[str, str]:
    """The symbolic totals as text."""
    from stepsim.graph.formulas import fold_sum

    metrics = case.program.metrics(memory=memory_model, on_demand=case.on_demand)
    return {
        "offchip_bytes": fold_sum(metrics.off_chip_traffic),
        "onchip_bytes": fold_sum(metrics.on_chip_memory),
        "executed_flops": fold_sum(metrics.flops),
    }


def _operators(program: Program) -> list[dict[str, Any]]:
    return [
        {
            "id": op.id,
            "name": op.title(),
            "kind": op.unit_kind,
            "inputs": [stream.producer.id for stream in op.inputs],
            "outputs": [stream.describe() for stream in op.outputs],
        }
        for op in program.operators
    ]


def _show(
    program: Program, formulas: dict[str, str], numbers: dict[str, int] | None, every: bool
) -> None:
    from rich.table import Table
    from rich.text import Text

    if every:
        typer.echo(str(program))
    else:
        show(_folded_operators(program))
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


def _folded_operators(program: Program) -> Table:
    """The operators in program order; those that all experts or regions have, once and counted."""
    from rich.table import Table
    from rich.text import Text

    groups: dict[tuple[str, str], list[Any]] = {}
    for op in program.operators:
        label = op.label or ""
        groups.setdefault((op.name, label.rpartition(".")[0] or label), []).append(op)
    title = f"{program.name}: {len(program.operators)} operators"
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
