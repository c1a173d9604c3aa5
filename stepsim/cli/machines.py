"""``stepsim machines``: list, show and describe machine descriptions."""

from __future__ import annotations

from typing import Annotated

import typer

from stepsim.cli.console import note, print_json, show

__all__ = ["machines"]


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
    from stepsim.errors import ArgError
    from stepsim.machine import list_machines, load_machine, machine_json_schema, parse_overrides

    if schema:
        print_json(machine_json_schema())
        return
    if show_name is not None:
        from stepsim.lowering import timing_of

        machine = load_machine(show_name, parse_overrides(overrides or []))
        timing_of(machine)  # raises where no run could use it
        if json:
            print_json(machine.to_dict())
        else:
            typer.echo(machine.to_yaml(), nl=False)
        for sentence in machine.notes:
            note(sentence)
        return
    if overrides:
        raise ArgError("--set changes the machine that --show prints; add --show MACHINE")
    known = [load_machine(name) for name in list_machines()]
    if json:
        print_json(
            {
                machine.name: {**machine.to_dict(), "peak_bandwidth": machine.peak_bandwidth}
                for machine in known
            }
        )
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("machine", "what it is", box=None, pad_edge=False)
    for machine in known:
        numbers = machine.summary().partition(": ")[2]
        table.add_row(machine.name, Text.assemble(machine.description, "\n", (numbers, "dim")))
    show(table)
