"""Layers on the chips of a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepsim.workloads.parameters import Built, Data, ParameterError

if TYPE_CHECKING:
    from stepsim.machine import Machine
    from stepsim.workloads.parallel.split import Split
    from stepsim.workloads.workload import Workload


def build_on_machine(workload: Workload, split: Split, data: Data, machine: Machine) -> Built:
    """The program of a workload that is divided among chips.

    Raises
    ------
    ParameterError : the machine has too few chips.
    """
    if wrong := [*split.check_machine(machine)]:
        raise ParameterError(wrong)
    return workload.build(data)
