"""The one run path: a program is prepared, gets its image, is executed, and is collected.

Wiring and layout depend on the routing only through selectors. A prepared program is wired and laid
out once, and every run fills in the selectors of its own routing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepsim.errors import ArgError
from stepsim.graph import Program, Wiring, check_program
from stepsim.lowering import default_depth
from stepsim.machine import Machine, load_machine
from stepsim.simulation.running.changes import depth_of, with_named_depths, with_places
from stepsim.simulation.running.prepared import FifoDepth, Prepared

__all__ = ["as_prepared", "kept_prepared", "prepare"]


def prepare(
    program: Program,
    machine: Machine | str = "sda-1024",
    *,
    fifo_depth: FifoDepth = None,
    addresses: Mapping[str, Any] | None = None,
) -> Prepared:
    """Prepare a finished program for runs that differ only in their routing.

    Parameters are those of :func:`stepsim.simulate`.

    Raises
    ------
    LoweringError
        The program is still open, a size does not fit, or tensors overlap off chip.
    ArgError
        ``program`` is none, ``fifo_depth`` is neither a positive int nor depths of its FIFOs, or
        ``addresses`` do not fit the program or its machine.
    MachineError
        The machine is unknown or invalid.
    """
    check_program("prepare", program)
    target = machine if isinstance(machine, Machine) else load_machine(machine)
    depth, named = depth_of(fifo_depth)
    made = Prepared(program, target, depth)
    if addresses is not None:
        made = with_places(made, addresses)
    return made if named is None else with_named_depths(made, named)


def as_prepared(
    name: str,
    program: Program | Prepared,
    machine: Machine | str | None,
    fifo_depth: FifoDepth,
) -> Prepared:
    """What the function ``name`` was given, prepared where it is not yet.

    Raises
    ------
    ArgError
        A prepared program comes with another machine or other depths, or as of :func:`prepare`.
    LoweringError, MachineError
        As of :func:`prepare`.
    """
    if not isinstance(program, Prepared):
        return prepare(program, machine or "sda-1024", fifo_depth=fifo_depth)
    if machine is not None or fifo_depth is not None:
        raise ArgError(
            f"program '{program.program.name}', {name}: a prepared program has its machine and "
            "depths already; use prepared.changed(machine=..., fifo_depths=...)"
        )
    return program


def kept_prepared(
    program: Program,
    machine: Machine | str,
    fifo_depth: int | None,
    wiring: Wiring | None = None,
) -> Prepared:
    """The program prepared for a machine, kept with the program for its next run.

    ``wiring`` is that of the program, where it is known.
    """
    check_program("prepare", program)
    target = machine if isinstance(machine, Machine) else load_machine(machine)
    # Values that are equal may be of types that are refused.
    depth, origin = default_depth(program, target, fifo_depth)
    name = ("prepared", target, depth, origin)
    return program.kept(name, lambda: Prepared(program, target, fifo_depth, wiring))
