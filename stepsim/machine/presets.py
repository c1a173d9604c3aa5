"""The machines that come with stepsim. They are values, since reading files takes longer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["PRESETS"]

_HBM: Final = {
    "model": "published",
    "request_bytes": 64,
    "latency": 2,
    "interval": 2,
    "startup": 14,
}

_ALL: Final = (
    {
        "name": "sda-1024",
        "description": "The evaluation machine of the STeP paper: 32 memory channels that give "
        "1024 bytes per cycle, 64 bytes per cycle of on-chip bandwidth for each operand.",
        "hbm": {**_HBM, "channels": 32},
        "onchip": {"bytes_per_cycle": 64},
    },
    {
        "name": "sda-2026",
        "description": "The machine of the public STeP simulator of 2026: 32 memory channels that "
        "give 1024 bytes per cycle, 512 bytes per cycle of on-chip bandwidth for each operand, "
        "operators timed by its rules.",
        "model": "step-2026",
        "hbm": {**_HBM, "channels": 32},
        "onchip": {"bytes_per_cycle": 512},
    },
    {
        "name": "sda-hdl",
        "description": "The machine of the STeP paper's HDL validation: 8 memory channels that "
        "give 256 bytes per cycle, 256 bytes per cycle of on-chip bandwidth for each operand.",
        "hbm": {**_HBM, "channels": 8},
        "onchip": {"bytes_per_cycle": 256},
    },
)

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {str(one["name"]): one for one in _ALL}
"""The values of every machine by its name; what is left out has its default."""
