"""Machines: validated descriptions of a target, and the presets that come with stepsim."""

from __future__ import annotations

from stepsim.machine.costs import Costs
from stepsim.machine.device import Device
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
    "Costs",
    "Device",
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
