"""Layers on the chips of a machine: there are enough of them, and each holds what it reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stepsim.workloads.parameters import Built, Data, ParameterError

if TYPE_CHECKING:
    from stepsim.graph import Program
    from stepsim.machine import Machine
    from stepsim.workloads.parallel.split import Split
    from stepsim.workloads.workload import Workload


def build_on_machine(workload: Workload, split: Split, data: Data, machine: Machine) -> Built:
    """The program of a workload that is divided among chips.

    Raises
    ------
    ParameterError : the machine has too few chips, or the tensors of one do not fit its memory.
    """
    if wrong := [*split.check_machine(machine)]:
        raise ParameterError(wrong)
    built = workload.build(data)
    if split.chips > 1 and (wrong := [*_too_large(built.program, split, machine)]):
        raise ParameterError(wrong)
    return built


def _too_large(program: Program, split: Split, machine: Machine) -> Iterator[tuple[str, str]]:
    """A problem if the tensors of a chip are larger than its off-chip memory."""
    capacity = machine.hbm.capacity_bytes
    if capacity is None:
        return
    held = bytes_of_chips(program)
    chip = max(held, key=lambda one: held[one])
    if held[chip] > capacity:
        name = "tp" if split.tp > 1 else "ep" if split.ep > 1 else "pp" if split.pp > 1 else "dp"
        yield (
            name,
            f"expected weights, KV cache and rows of a chip that fit its hbm.capacity_bytes of "
            f"{capacity:,} on {machine.name}, found {held[chip]:,} on chip {chip}; divide the "
            "layer among more chips",
        )


def bytes_of_chips(program: Program) -> dict[int, int]:
    """Bytes of the tensors that the operators of each chip read and write."""
    tensors = {
        (op.chip, tensor.name): tensor.size_bytes
        for op in program.operators
        if (tensor := getattr(op, "tensor", None)) is not None
    }
    held: dict[int, int] = defaultdict(int)
    for (chip, _), size in tensors.items():
        held[chip] += size
    return dict(held)
