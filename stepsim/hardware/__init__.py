"""The hardware level: networks of small units on one clock, cycle by cycle, as in the paper's HDL.

``st.hardware.simulate(st.hardware.swiglu(64, 256, 512, 16, 64))`` runs the layer of Figure 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepsim.deferred import names_of

if TYPE_CHECKING:
    from stepsim.hardware.from_program import network_of
    from stepsim.hardware.loading import list_machines, load_machine
    from stepsim.hardware.machine import Machine
    from stepsim.hardware.network import Network
    from stepsim.hardware.result import FifoCounts, HardwareResult, UnitCounts
    from stepsim.hardware.simulation import simulate
    from stepsim.hardware.swiglu_layer import swiglu
    from stepsim.hardware.units import Fifo, Unit, reference

__all__ = [
    "Fifo", "FifoCounts", "HardwareResult", "Machine", "Network", "Unit", "UnitCounts",
    "list_machines", "load_machine", "network_of", "reference", "simulate",
    "swiglu",
]  # fmt: skip

__getattr__ = names_of(
    __name__,
    {
        "from_program": ("network_of",),
        "loading": ("list_machines", "load_machine"),
        "machine": ("Machine",),
        "network": ("Network",),
        "result": ("FifoCounts", "HardwareResult", "UnitCounts"),
        "simulation": ("simulate",),
        "swiglu_layer": ("swiglu",),
        "units": ("Fifo", "Unit", "reference"),
    },
)
