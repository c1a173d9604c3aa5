"""The options that choose a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

import stepsim.hardware
import stepsim.machine
from stepsim.errors import ArgError, MachineError
from stepsim.frozen import frozen

if TYPE_CHECKING:
    from stepsim.machine import Machine

DEFAULT_MACHINE = "sda-1024"


@frozen
class MachineChoice:
    """A machine and changes of it, as given."""

    machine: Annotated[
        str | None,
        typer.Option(
            metavar="MACHINE",
            help=f"Name of a machine, or a YAML file of one. (default: {DEFAULT_MACHINE})",
        ),
    ] = None
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change a value of the machine; repeatable."
        ),
    ] = None

    def load(self, default: str | Machine = DEFAULT_MACHINE) -> Machine:
        """The machine; ``default`` is used when none is given.

        Raises
        ------
        MachineError : there is no such machine or value.
        """
        name = default if self.machine is None else self.machine
        try:
            return stepsim.machine.load_machine(
                name, stepsim.machine.parse_overrides(self.overrides or [])
            )
        except MachineError:
            if name in stepsim.hardware.list_machines():
                raise ArgError(
                    f"--machine: {name} is a machine of the hardware level; add --level hardware"
                ) from None
            raise

    def load_hardware(self) -> stepsim.hardware.Machine:
        """The machine of the hardware level, ``hdl`` when none is given.

        Raises
        ------
        MachineError : there is no such machine or value.
        """
        if self.machine in stepsim.machine.list_machines():
            raise ArgError(
                f"--machine: {self.machine} is a machine of the tile level; leave --level hardware "
                f"out, or choose among {', '.join(stepsim.hardware.list_machines())}"
            )
        return stepsim.hardware.load_machine(
            self.machine or "hdl", stepsim.hardware.parse_overrides(self.overrides or [])
        )
