"""Programs with a fix, and the fix that makes one program of another."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stepsim.errors import ArgError
from stepsim.lowering import dispatch_widths
from stepsim.simulation.programs.changes import (
    with_bandwidths,
    with_depth,
    with_depths,
    with_machine,
    with_placement,
    with_widths,
)
from stepsim.simulation.programs.fix_file import (
    Fix,
    depths_text,
    fix_text,
    load_fix,
    machine_hash,
    write_fix,
)
from stepsim.simulation.programs.on_chip import described_place, placement_of

if TYPE_CHECKING:
    from stepsim import noc
    from stepsim.machine import Machine
    from stepsim.simulation.programs.prepared import Prepared


def with_fix(prepared: Prepared, fix: str | os.PathLike[str] | Fix) -> Prepared:
    """The program with the changes of a fix, whose names are all compared first.

    Raises
    ------
    ArgError
        As `load_fix` and `Fix.checked`; an operator has no FLOPs or no memory port; or one depth
        for all FIFOs was given already, and the fix has another one.
    MachineError
        The machine has no such value, or it is out of range.
    """
    found = fix if isinstance(fix, Fix) else load_fix(fix)
    found = found.checked(prepared.wiring, prepared.program_hash)
    made, machine = prepared, found.applied_to(prepared.machine)
    try:
        if machine is not prepared.machine:
            made = with_machine(made, machine)
            made.machine_values = {**prepared.machine_values, **found.machine_values}
        if found.place is not None:
            made = with_placement(made, _only_place(prepared, found.place, machine))
        if found.fifo_depth is not None:
            made = with_depth(made, _only_depth(prepared, found.fifo_depth))
        made = with_depths(made, found.depths)
        made = with_bandwidths(made, found.of_operators("compute_bw"))
        widths = found.of_operators("par_dispatch")
        if found.par_dispatch is not None:
            ports = dispatch_widths(made.template.first)
            if not ports:
                raise ArgError(
                    f"par_dispatch is {found.par_dispatch}, but the program has no load or store "
                    "that uses the memory; remove it"
                )
            names = (made.wiring.units[unit].name for unit in ports)
            widths = {**dict.fromkeys(names, found.par_dispatch), **widths}
        made = with_widths(made, widths)
    except ArgError as error:
        if str(error).startswith(found.where):
            raise  # of its placement, with the line
        raise ArgError(f"{found.where}: {error}") from error
    made.sized_for = found.sized_for
    return made


def _only_depth(prepared: Prepared, depth: int) -> int:
    if prepared.fifo_depth_from == "call" and prepared.fifo_depth != depth:
        raise ArgError(
            f"one depth for all FIFOs is given as {prepared.fifo_depth}, and fifo_depth of the fix "
            f"is {depth}; leave one of them out"
        )
    return depth


def _only_place(prepared: Prepared, place: noc.PlacementFile, machine: Machine) -> noc.Placement:
    placement = placement_of(prepared.program, machine, place)
    given = prepared.placement
    if given is not None and described_place(given) != described_place(placement):
        raise ArgError(
            "the program is placed already, and the fix has other places; leave one of them out"
        )
    return placement


def save_fix(
    path: str | os.PathLike[str],
    prepared: Prepared,
    base: Prepared,
    about: Mapping[str, Any],
    machine_values: Mapping[str, Any] | None = None,
) -> None:
    """Write all changes of a prepared program as a fix of its program.

    Parameters
    ----------
    base : the program before the last changes, on its machine.
    about : what the fix is and does.
    machine_values : values of the machine by dotted key that differ from those of the base.

    Raises
    ------
    OutputError
        The file cannot be written.
    """
    whole = {
        "program": prepared.program.name,
        "program_hash": prepared.program_hash,
        "program_fifo_depth": prepared.program.fifo_depth,
        "machine": prepared.machine.name,
        "machine_hash": machine_hash(prepared.machine),
        **about,
    }
    values = {**base.machine_values, **(machine_values or {})}
    write_fix(path, fix_text(whole, _changes(prepared, values)))


def save_depths(
    path: str | os.PathLike[str],
    base: Prepared,
    about: Mapping[str, Any],
    depths: Mapping[str, int | None],
) -> None:
    """Write depths of all FIFOs of a prepared program: alone, as ``fifo_depth=`` takes them, unless
    more of the program was changed, which is then in the file too.

    Raises
    ------
    OutputError
        The file cannot be written.
    """
    prepared = base.changed(fifo_depths=depths)
    if _changes(prepared, base.machine_values).keys() <= {"fifo_depth", "depths"}:
        write_fix(path, depths_text(about, depths))
    else:
        save_fix(path, prepared, base, about)


def _changes(prepared: Prepared, machine_values: Mapping[str, Any]) -> dict[str, Any]:
    """What a fix states of a prepared program."""
    changes = {
        "fifo_depth": prepared.fifo_depth if prepared.fifo_depth_from == "call" else None,
        **_of_operators(prepared),
        "machine_values": dict(machine_values),
        "place": None if prepared.placement is None else prepared.placement.to_dict(),
        "depths": dict(prepared.fifo_depths),
    }
    return {key: value for key, value in changes.items() if value}


def _of_operators(prepared: Prepared) -> dict[str, Any]:
    """The changes of operators, with one ``par_dispatch`` if it is that of all of them."""
    names = [unit.name for unit in prepared.wiring.units]
    ports = [names[unit] for unit in dispatch_widths(prepared.template.first)]
    widths = dict(prepared.par_dispatch)
    whole = None
    if len(set(widths.values())) == 1 and widths.keys() == set(ports):
        whole, widths = next(iter(widths.values())), {}
    operators: dict[str, dict[str, int]] = {}
    for key, values in (("compute_bw", prepared.compute_bw), ("par_dispatch", widths)):
        for name, value in values.items():
            operators.setdefault(name, {})[key] = value
    return {"par_dispatch": whole, "operators": operators}
