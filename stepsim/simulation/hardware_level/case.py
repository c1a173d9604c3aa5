"""A workload at the hardware level: its case, the machine of that level, and what is measured."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from stepsim.hardware import Machine
from stepsim.results import EVERY_MEASURE, Result, utilization
from stepsim.simulation.cases.case import Case
from stepsim.simulation.hardware_level.programs import allocated, simulate_hardware
from stepsim.workloads import Data

__all__ = ["HardwareCase"]


@dataclass(frozen=True, slots=True)
class HardwareCase:
    """A case whose operators are simulated as units of hardware.

    Attributes
    ----------
    case : the workload on data. Its own machine, of the tile level, only gives parameters that
        depend on one; it times nothing here.
    machine : of the hardware level.
    """

    case: Case
    machine: Machine

    def result(self, *, max_cycles: int | None = None) -> Result:
        """Simulate; see :func:`~stepsim.simulation.hardware_level.programs.simulate_hardware`.

        Raises
        ------
        ArgError : programs run one after another here.
        LoweringError : operators without a unit, or tiles of another size than the machine's.
        """
        self.case.require_one_program("the hardware level")
        return simulate_hardware(self.case.built.program, self.machine, max_cycles=max_cycles)

    def measures(
        self, done: Result, data: Data, wanted: Collection[str] = EVERY_MEASURE
    ) -> dict[str, Any]:
        """As `Case.measures`, with compute and clock of the hardware."""
        found = self.case.measures(done, data, {*wanted, "flops"})
        room = allocated(done)
        found |= {
            "milliseconds": done.hardware.milliseconds,
            "allocated_flops_per_cycle": room,
            "compute_utilization": utilization(done.status, found["flops"], room * done.cycles),
        }
        return {name: found[name] for name in EVERY_MEASURE if name in wanted and name in found}

    def describe(self, data: Data) -> dict[str, Any]:
        """As `Case.describe`, with the machine of the hardware level."""
        return self.case.describe(data) | {
            "machine": self.machine.name,
            "machine_json": json.dumps(self.machine.to_dict(), sort_keys=True),
        }
