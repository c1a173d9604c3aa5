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
    {
        "name": "u55c",
        "description": "The FPGA of the StreamTensor paper, AMD Alveo U55C at 250 MHz (table 6): "
        "460 GB/s of HBM, 41 MB on chip, weights of 4 and activations of 8 bits. Latency of HBM: "
        "122 ns, a closed page (Shuhai, FCCM 2020).",
        # 460 GB/s are 1,840 bytes per cycle, 57.5 for each of 32 pseudo-channels. Accesses of whole
        # 64-byte words at exactly that rate take another number of channels.
        "hbm": {
            "model": "interleaved",
            "request_bytes": 64,
            "channels": 115,
            "latency": 31,
            "interval": 4,
            "startup": 0,
        },
        "onchip": {"bytes_per_cycle": 64, "capacity_bytes": 41_000_000},
        "clock_ghz": 0.25,
        "device": {
            "dies": 3,
            # Of VU47P (AMD DS890): 36.7 Mb of distributed RAM, 2,016 blocks of 36 Kb, 960 of URAM.
            "lutram_blocks": 600_000,
            "bram_blocks": 4_032,
            "uram_blocks": 960,
            "weight_dtype": "i4",
            "activation_dtype": "i8",
        },
    },
)

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {str(one["name"]): one for one in _ALL}
"""The values of every machine by its name; what is left out has its default."""
