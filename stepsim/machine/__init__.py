"""Machines: validated descriptions of a target, and the presets that come with stepsim."""

from __future__ import annotations

from stepsim.machine.compute import Compute
from stepsim.machine.costs import Costs
from stepsim.machine.device import Device
from stepsim.machine.dram import Dram
from stepsim.machine.energy import Energy
from stepsim.machine.loading import list_machines, load_machine, parse_overrides
from stepsim.machine.model import (
    DEFAULT_FIFO_DEPTH,
    Fifo,
    Hbm,
    Machine,
    OnChip,
    machine_json_schema,
    milliseconds,
)

__all__ = [
    "DEFAULT_FIFO_DEPTH",
    "Compute",
    "Costs",
    "Device",
    "Dram",
    "Energy",
    "Fifo",
    "Hbm",
    "Machine",
    "OnChip",
    "list_machines",
    "load_machine",
    "machine_json_schema",
    "milliseconds",
    "parse_overrides",
]
