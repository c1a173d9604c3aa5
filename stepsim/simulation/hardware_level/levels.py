"""Which level a run is made on, and which arguments have no effect there."""

from __future__ import annotations

from stepsim.arguments import shown
from stepsim.errors import ArgError
from stepsim.graph import check_program
from stepsim.simulation.running.limits import Limits
from stepsim.simulation.running.prepared import check_limits

__all__ = ["is_at_hardware", "refuse_hardware"]


def is_at_hardware(
    function: str, program: object, level: object, limits: Limits | None, **of_tiles: bool
) -> bool:
    """Whether the level is ``hardware``; ``of_tiles`` says what was given that has no effect there.

    Raises
    ------
    ArgError : no such level, no program, or what has no effect at the hardware level.
    """
    if level == "tile":
        return False
    if level != "hardware":
        raise ArgError(f"{function}: level must be 'tile' or 'hardware', found {shown(level)}")
    check_program(function, program)
    for name, given in of_tiles.items():
        if given:
            raise ArgError(
                f"{function}: {name} has no effect at level 'hardware'; what can be chosen there "
                "are max_cycles of limits and the values of hardware=st.hardware.Machine(...)"
            )
    check_limits(f"{function}:", limits)
    if limits is not None and limits != Limits(max_cycles=limits.max_cycles):
        raise ArgError(f"{function}: at level 'hardware' limits has max_cycles only")
    return True


def refuse_hardware(function: str, hardware: object) -> None:
    """Refuse a machine of the hardware level where the level is another.

    Raises
    ------
    ArgError : there is one.
    """
    if hardware is not None:
        raise ArgError(
            f"{function}: hardware has no effect at level 'tile'; pass level='hardware', or "
            "machine="
        )
