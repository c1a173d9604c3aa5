"""Layers on the chips of a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepsim.deferred import deferred
from stepsim.errors import ArgError
from stepsim.workloads.built import Built
from stepsim.workloads.inputs import Data
from stepsim.workloads.parameters import ParameterError

if TYPE_CHECKING:
    import numpy as np

    from stepsim.machine import Machine
    from stepsim.workloads.models import Model
    from stepsim.workloads.parallel.split import Split
    from stepsim.workloads.workload import Workload
else:
    np = deferred("numpy")


def build_on_machine(workload: Workload, split: Split, data: Data, machine: Machine) -> Built:
    """The program of a workload that is divided among chips.

    Raises
    ------
    ParameterError : the machine has too few chips.
    """
    if wrong := [*split.check_machine(machine)]:
        raise ParameterError(wrong)
    return workload.build(data)


def check_routing(name: str, split: Split, model: Model, built: Data, data: Data) -> None:
    """Refuse data with another routing than that of a program on several chips.

    Raises
    ------
    ArgError : the program was built from another routing, which decides where rows go.
    """
    if split.chips == 1 or model.experts is None or data.routing is None:
        return
    if built.routing is None or not np.array_equal(built.routing, data.routing):
        found = "an even choice" if built.routing is None else "another one"
        raise ArgError(
            f"{name}: a program on several chips is for the routing that it was built "
            f"from, which is {found}; build it from these data"
        )
