"""``stepsim inspect``: a workload as text, drawing or JSON, without simulating it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import stepsim.graph
import stepsim.results
import stepsim.simulation
from stepsim.cli.console import note, print_json, show
from stepsim.cli.options import Config, Counting, Json, refuse_unused
from stepsim.cli.runs.execution import left_out_text, nested
from stepsim.cli.runs.workload_group import workload_app
from stepsim.deferred import deferred
from stepsim.errors import ArgError

if TYPE_CHECKING:
    import rich.table
    import rich.text

    from stepsim.cli.runs.inputs import Traces
    from stepsim.cli.runs.workload import Choice
    from stepsim.graph import Program
    from stepsim.machine import Machine
    from stepsim.simulation import Case
else:
    rich = deferred("rich")


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The parts of a workload to print, and how its bytes are counted."""

    counting: Counting = None
    config: Config = None
    graph: Annotated[
        Literal["dot", "mermaid"] | None,
        typer.Option(help="Print the graph in this language."),
    ] = None
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="List the operators of all experts and regions, not only the first."
        ),
    ] = False
    addresses: Annotated[
        bool,
        typer.Option(
            "--addresses",
            help="Show the off-chip addresses of tensors, on a machine with a DRAM model.",
        ),
    ] = False
    json: Json = False

    def __post_init__(self) -> None:
        if self.graph is not None and self.addresses:
            raise ArgError("--graph and --addresses both choose what is printed; leave one out")
        if self.graph is not None and self.json:
            raise ArgError("--graph and --json both choose what is printed; leave one out")
        for option, given in (("--graph", self.graph), ("--addresses", self.addresses)):
            if given:
                why = f"{option} shows the whole program, without metrics"
                refuse_unused(why, counting=self.counting, all=self.every)
        if self.json:
            refuse_unused("--json lists all operators", all=self.every)


def list_choice(choice: Choice, options: ListOptions) -> None:
    """Print operators, symbolic shapes and metrics, or a drawing, of the chosen workload."""
    machine, traces = choice.load_machine(options.config), choice.read(required=False)
    case = choice.case(traces, machine, options.config, options.counting)
    program = case.built.program
    if options.graph is not None:
        typer.echo(program.to_dot() if options.graph == "dot" else program.to_mermaid())
        return
    if options.addresses:
        _show_addresses(program, machine, options.json)
        return
    formulas, numbers = _formulas(case), _numbers(case, choice, traces)
    if options.json:
        print_json(
            {
                **nested(case.describe(traces.data)),
                **traces.columns,
                **traces.facts,
                "operators": _operators(program),
                "formulas": formulas,
                "numbers": numbers,
            }
        )
    else:
        _show(case, formulas, numbers, options.every)
    for sentence in (*case.built.notes, *machine.notes):
        note(sentence)


def _show_addresses(program: Program, machine: Machine, as_json: bool) -> None:
    """Print the region of every tensor and the number of channels that its requests use."""
    prepared = stepsim.simulation.prepare(program, machine)
    placed = prepared.address_map
    rows = prepared.address_rows()
    if as_json:
        print_json({"capacity_bytes": placed.capacity, "tensors": rows})
    else:
        used = sum(row["bytes"] for row in rows)
        chips = len(placed.chips)
        room = (
            f"{placed.capacity:,} bytes" if chips == 1 else f"{chips} x {placed.capacity:,} bytes"
        )
        title = f"{program.name} on {machine.name}: {used:,} of {room}"
        table = rich.table.Table(box=None, pad_edge=False, title=title, title_justify="left")
        of_chip = ("chip",) if chips > 1 else ()
        for name in ("tensor", *of_chip, "operators", "layout"):
            table.add_column(name, overflow="fold")
        for name in ("base", "bytes", "channels", "most loaded"):
            table.add_column(name, justify="right")
        for row in rows:
            table.add_row(
                rich.text.Text(row["tensor"]), *(str(row[name]) for name in of_chip),
                rich.text.Text(", ".join(row["operators"])), row["layout"],
                f"{row['base']:#x}", f"{row['bytes']:,}", f"{row['channels']} of {row['of']}",
                f"{row['most_loaded']:.1%}",
            )  # fmt: skip
        show(table)
    for sentence in placed.assumptions:
        note(sentence)


def _formulas(case: Case) -> dict[str, str]:
    """The symbolic totals as text."""
    metrics = case.metrics
    return {
        "offchip_bytes": stepsim.graph.fold_sum(metrics.off_chip_traffic),
        "onchip_bytes": stepsim.graph.fold_sum(metrics.on_chip_memory),
        "flops": stepsim.graph.fold_sum(metrics.flops),
    }


def _numbers(case: Case, choice: Choice, traces: Traces) -> dict[str, Any] | None:
    """The totals for the traces; None if a trace is missing or a size is known only in a run."""
    if traces.data.missing(choice.workload.needed(choice.given)):
        return None
    counted = case.counted(traces.data)
    return None if counted is None else asdict(counted)


def _operators(program: Program) -> list[dict[str, Any]]:
    return [
        {
            "id": op.id,
            "name": op.title(),
            "operator": op.name,
            "label": op.label,
            "function": op.function_name or None,
            "source": op.source or None,
            "kind": op.unit_kind,
            "inputs": [stream.producer.id for stream in op.inputs],
            "outputs": [stream.describe() for stream in op.outputs],
        }
        for op in program.operators
    ]


def _show(
    case: Case, formulas: dict[str, str], numbers: dict[str, Any] | None, every: bool
) -> None:
    if every:
        typer.echo(stepsim.graph.listing(case.metrics))
    else:
        show(_folded_operators(case.built.program))
    title = f"\nmetrics, counted as {case.counting}"
    table = rich.table.Table(box=None, pad_edge=False, title=title, title_justify="left")
    table.add_column("metric", style="bold")
    table.add_column("formula", overflow="fold")
    if numbers is None:
        for name, formula in formulas.items():
            table.add_row(name, rich.text.Text(formula))
    else:
        table.add_column("number", justify="right")
        for name in dict.fromkeys((*formulas, *numbers)):
            number = numbers[name]
            shown = "unknown" if number is None else f"{number:,}"
            table.add_row(name, rich.text.Text(formulas.get(name, "")), shown)
    show(table)
    if left_out := left_out_text(case):
        show("", left_out)


def _folded_operators(program: Program) -> rich.table.Table:
    """The operators in program order; lanes, and the parts of a call, are one line."""
    outline = stepsim.results.outline_of(stepsim.simulation.wired(program))
    boxes = [box for box in outline["boxes"] if box["operators"] != ["broadcast"]]
    title = f"{program.name}: {len(program.operators)} operators"
    table = rich.table.Table(box=None, pad_edge=False, title=title, title_justify="left")
    table.add_column("operator")
    table.add_column("made by")
    table.add_column("count", justify="right")
    table.add_column("output (of the first)")
    lines = [stepsim.results.line_of(box["source"]) for box in boxes]
    if any(lines):
        table.add_column("line")
    for box, line in zip(boxes, lines, strict=True):
        made = ", ".join(box["operators"])
        made += f" {box['function']}" if box["function"] else ""
        outputs = box["outputs"]
        # The last part of a call makes what the call returns; brackets are shapes, not markup.
        last = outputs[-1] if len(box["operators"]) > 1 else next(iter(outputs), "-")
        more = f" and {len(outputs) - 1} more" if len(box["operators"]) == 1 < len(outputs) else ""
        cells = (box["name"], made, f"{box['count']:,}", last + more, line)
        table.add_row(*map(rich.text.Text, cells[: len(table.columns)]))
    return table


app = workload_app(
    "Show the graph, shapes and metrics of a workload without simulating it.\n\nWithout traces the "
    "metrics are formulas, for 64 tokens or requests unless --batch is given. WORKLOAD and its "
    "options are those of `stepsim run`.",
    ListOptions,
    list_choice,
)
