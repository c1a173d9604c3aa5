"""Programs on several chips, each of which is a copy of the machine."""

from __future__ import annotations

from stepsim.errors import ArgError
from stepsim.graph import Program
from stepsim.machine import Machine


def check_chips(program: Program, machine: Machine) -> None:
    """Refuse a program that the machine does not have the chips for.

    Raises
    ------
    ArgError
        An operator is on a chip that the machine does not have, or operators are on several.
    """
    if program.chips == 1:
        return
    highest = max(program.operators, key=lambda op: 0 if op.loops_back() is not None else op.chip)
    where = f"program '{program.name}': {highest.called()} is on chip {highest.chip}"
    place = f" ({highest.source})" if highest.source else ""
    chips = machine.chips
    if chips is None:
        raise ArgError(
            f"{where}, but machine '{machine.name}' is a single chip; state its section chips: "
            f"chips.count={program.chips} (or more), chips.topology, chips.gib_per_s and "
            f"chips.latency_ns{place}"
        )
    if program.chips > chips.total:
        raise ArgError(
            f"{where}, but machine '{machine.name}' has chips 0 to {chips.total - 1}; state more "
            f"in chips.count, or use fewer{place}"
        )
    raise ArgError(
        f"{where}; programs on several chips can be evaluated (run_functional), but not yet "
        f"simulated{place}"
    )
