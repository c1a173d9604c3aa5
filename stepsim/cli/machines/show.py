"""``stepsim machines``: list, show and describe machine descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

import stepsim
import stepsim.hardware
import stepsim.lowering
import stepsim.machine
from stepsim.cli.console import note, print_json, show
from stepsim.cli.options import refuse_unused
from stepsim.deferred import deferred
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim import hardware
    from stepsim.machine import Machine

    AnyMachine: TypeAlias = Machine | hardware.Machine
    import rich.table
    import rich.text
else:
    rich = deferred("rich")


def machines(
    show_name: Annotated[
        str | None,
        typer.Option(
            "--show", metavar="MACHINE", help="Print this machine as a YAML file to start from."
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the machine shown."),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of machine files.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the built-in machines, or print one."""
    if schema:
        refuse_unused("--schema prints no machine", show=show_name, set=overrides)
        print_json(stepsim.machine.machine_json_schema())
        return
    if show_name is not None:
        _show(show_name, overrides or [], json=json)
        return
    if overrides:
        raise ArgError("--set changes the machine that --show prints; add --show MACHINE")
    tile: list[AnyMachine] = [
        stepsim.machine.load_machine(name) for name in stepsim.machine.list_machines()
    ]
    units: list[AnyMachine] = [
        stepsim.hardware.load_machine(name) for name in stepsim.hardware.list_machines()
    ]
    if json:
        print_json(
            {
                one.name: {**one.to_dict(), "peak_bandwidth": one.peak_bandwidth, "level": level}
                for level, known in (("tile", tile), ("hardware", units))
                for one in known
            }
        )
        return

    table = rich.table.Table("machine", "description", box=None, pad_edge=False)
    _add_rows(table, tile)
    table.add_row()
    table.add_row("hardware", "with run --level hardware --machine MACHINE", style="bold")
    _add_rows(table, units)
    show(table)


def _add_rows(table: rich.table.Table, machines: Sequence[AnyMachine]) -> None:
    for machine in machines:
        numbers = machine.summary().partition(": ")[2]
        table.add_row(
            machine.name, rich.text.Text.assemble(machine.description, "\n", (numbers, "dim"))
        )


def _show(name: str, overrides: Sequence[str], *, json: bool) -> None:
    """Print one machine of either level; a file describes a machine of the tile level."""
    machine: AnyMachine
    notes: Sequence[str] = ()
    if name in stepsim.hardware.list_machines():
        machine = stepsim.hardware.load_machine(name, stepsim.hardware.parse_overrides(overrides))
    else:
        machine = stepsim.machine.load_machine(name, stepsim.machine.parse_overrides(overrides))
        stepsim.lowering.timing_of(machine)  # raises where no run could use it
        notes = machine.notes
    if json:
        print_json(machine.to_dict())
    elif isinstance(machine, stepsim.machine.Machine):
        typer.echo(stepsim.machine.annotated_yaml(machine), nl=False)
    else:
        typer.echo(machine.to_yaml(), nl=False)
    for sentence in notes:
        note(sentence)
