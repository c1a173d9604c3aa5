"""The machines that stepsim ships. They are Python values, since reading files takes longer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_HBM: Final = {
    "model": "published",
    "request_bytes": 64,
    "latency": 2,
    "interval": 2,
    "startup": 14,
}

_HDL_DRAM: Final = {
    "model": "dram",
    "request_bytes": 512,
    "dram": {"preset": "hbm2-hdl"},
    "port": {"request": "lock-step"},
    "arbiter": "on-grant",
    # Every port has an array of its own from byte 0 on, in the order of use; a tile of 16 x 16 f32
    # is followed by the word that says where dims end.
    "addresses": {
        "layout": "stream",
        "bases": "zero",
        "entry_bytes": 1024,
        "entry_padding_bytes": 4,
    },
}

_HDL: Final = {
    "onchip": {"bytes_per_cycle": 1024},
    "compute": {"unit_flops_per_cycle": 8192},
}
"""The hardware that the STeP paper was validated with: a 16 x 16 x 16 product and a tile of 16 x 16
f32 per cycle and unit."""

_HDL_AHEAD: Final = {**_HDL_DRAM, "port": {"request": "lock-step", "read_ahead": 128}}

_LADDER: Final = (
    {
        "name": "hdl-flops",
        "description": "sda-hdl with the compute bandwidth of the hardware, 8192 FLOPs per cycle "
        "of every operator: the first of five steps from the STeP paper's settings to its HDL.",
        "hbm": {**_HBM, "channels": 8},
        "onchip": {"bytes_per_cycle": 256},
        "compute": _HDL["compute"],
    },
    {
        "name": "hdl-onchip",
        "description": "hdl-flops with the on-chip bandwidth of the hardware, 1024 bytes per cycle "
        "for each operand.",
        "hbm": {**_HBM, "channels": 8},
        **_HDL,
    },
    {
        "name": "hdl-dram",
        "description": "hdl-onchip with the DRAM of the hardware, one channel of HBM2 in requests "
        "of 512 bytes.",
        "hbm": _HDL_DRAM,
        **_HDL,
    },
    {
        "name": "hdl-read-ahead",
        "description": "hdl-dram with loads that read up to 128 requests ahead.",
        "hbm": _HDL_AHEAD,
        **_HDL,
    },
    {
        "name": "hdl-arbiter",
        "description": "hdl-read-ahead with the arbiter of the hardware, whose turns pass in every "
        "cycle, and its latencies, 3 cycles to the DRAM and 7 back: the last step before the "
        "hardware level.",
        "hbm": {
            **_HDL_AHEAD,
            "port": {
                "request": "lock-step",
                "read_ahead": 128,
                "request_latency": 3,
                "response_latency": 7,
            },
            "arbiter": "rotating",
        },
        **_HDL,
    },
)

_ALL: Final = (
    *_LADDER,
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
        "name": "sda-1024-energy",
        "description": "The evaluation machine of the STeP paper at 1 GHz with an example of a "
        "table of energies: HBM2, and arithmetic and SRAM of a 45 nm process.",
        "hbm": {**_HBM, "channels": 32},
        "onchip": {"bytes_per_cycle": 64},
        "clock_ghz": 1.0,
        "energy": {
            "sources": "HBM2: 3.9 pJ/bit (O'Connor et al., MICRO 2017). Arithmetic and SRAM: "
            "45 nm, 0.9 V, not scaled (Horowitz, ISSCC 2014): FLOPs are the mean of an addition "
            "and a multiplication, bf16 counts as fp16; on-chip memory is a 64-bit access of "
            "32 KB (20 pJ), FIFOs are one in and one out of 8 KB (10 pJ). Static power: none of "
            "the sources has any.",
            "offchip_pj_per_byte": 31.2,
            "onchip_read_pj_per_byte": 2.5,
            "onchip_write_pj_per_byte": 2.5,
            "fifo_pj_per_byte": 2.5,
            "flop_pj_f32": 2.3,
            "flop_pj_bf16": 0.75,
            "flop_pj_f16": 0.75,
            "flop_pj_i8": 0.115,
        },
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
