"""Networks that stepsim ships."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# All numbers are those of tt-npe (Apache-2.0, commit 1021603), its models of the devices
# wormhole_b0 and blackhole: grid and core types, link and port rates, table of packet sizes,
# latencies of reads and writes. Coordinates are of the physical grid, row first.
_WORMHOLE: Final = {
    "name": "wormhole",
    "description": "Tenstorrent Wormhole B0: two one-way tori of 12 x 10 cores, 30 B/cycle.",
    "topology": "torus",
    "routing": "one-way",
    "rows": 12,
    "cols": 10,
    "cores": "DEEEEDEEEE DWWWWDWWWW UWWWWDWWWW UWWWWDWWWW UWWWWDWWWW DWWWWDWWWW "
    "DEEEEDEEEE DWWWWDWWWW UWWWWDWWWW UWWWWDWWWW UWWWWDWWWW DWWWWDWWWW",
    "rates": {
        "link": 30.0,
        "source": {"worker": 28.1, "dram": 23.2, "ethernet": 28.1, "unused": 28.1},
        "sink": {"worker": 28.1, "dram": 24.0, "ethernet": 24.0, "unused": 28.1},
        "packets": "0:0 128:5.5 256:10.1 512:18 1024:27.4 2048:30 8192:30",
    },
    "latencies": {
        "same_node": 70, "same_column": 154, "same_row": 170, "other": 270, "write": 40,
        "write_per_hop": 10,
    },
}  # fmt: skip

# tt-npe gives its DRAM ports 54 bytes per ns at 1.35 GHz, which is 40 as float32.
_BLACKHOLE: Final = {
    "name": "blackhole",
    "description": "Tenstorrent Blackhole: two one-way tori of 12 x 17 cores, 60.9 B/cycle.",
    "topology": "torus",
    "routing": "one-way",
    "rows": 12,
    "cols": 17,
    "cores": " ".join(
        ["DUUUUUUUUDUUUUUUU", "DEEEEEEEUDEEEEEEE", *["DWWWWWWWUDWWWWWWW"] * 10]
    ),
    "rates": {
        "link": 60.9,
        "source": {"worker": 60.9, "dram": 40.0, "ethernet": 999.9, "unused": 60.9},
        "sink": {"worker": 60.9, "dram": 40.0, "ethernet": 999.9, "unused": 60.9},
        "packets": "0:0 128:6 256:12.1 512:24.2 1024:48 2048:57.7 4096:58.7 8192:60.4 16384:60.9",
    },
    "latencies": {
        "same_node": 65, "same_column": 177, "same_row": 217, "other": 329, "write": 40,
        "write_per_hop": 11,
    },
}  # fmt: skip

# The router of BookSim2 (BSD-2, commit 28f4329) with stages of one cycle each; see Flits. A flit of
# 32 bytes is a link of 256 bits, as Wormhole's NoC has (Tenstorrent, tt-isa-documentation).
_FLITS: Final = {"router": 4, "wire": 1, "inject": 2, "quantum": 4, "flit_bytes": 32}
_RATES: Final = {"link": 32.0, "source": {"worker": 32.0}, "sink": {"worker": 32.0}}

# The same grids for placed programs. Flits, and cycles of a hop: Tenstorrent, tt-isa-documentation
# (commits 1354710 and 585749d, NoC): 9 cycles from router to router, about 5 from and to a core, so
# that a flit takes 10 + 9 hops, and packets of up to 256 flits of data, which are segments here.
# The header of a packet is not counted. Loads read over network 0, all else is written over
# network 1, as tt-metal has its readers and writers of DRAM by default (kernel_types.hpp).
_PACKETS: Final = {"router": 8, "wire": 1, "inject": 1, "quantum": 256}
_WORMHOLE_FLITS: Final = {
    **_WORMHOLE,
    "name": "wormhole-flits",
    "description": "Wormhole B0 for placed programs: packets of up to 256 flits of 32 bytes.",
    "flits": {**_PACKETS, "flit_bytes": 32},
}
_BLACKHOLE_FLITS: Final = {
    **_BLACKHOLE,
    "name": "blackhole-flits",
    "description": "Blackhole for placed programs: packets of up to 256 flits of 64 bytes.",
    "flits": {**_PACKETS, "flit_bytes": 64},
}

NETWORK_PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "wormhole": _WORMHOLE,
    "blackhole": _BLACKHOLE,
    "wormhole-flits": _WORMHOLE_FLITS,
    "blackhole-flits": _BLACKHOLE_FLITS,
    "mesh": {
        "name": "mesh", "description": "A mesh of 8 x 8 places with the router of BookSim2.",
        "topology": "mesh", "rows": 8, "cols": 8, "flits": _FLITS, "rates": _RATES,
    },
    "torus": {
        "name": "torus", "description": "A torus of 8 x 8 places with the router of BookSim2.",
        "topology": "torus", "rows": 8, "cols": 8, "flits": _FLITS, "rates": _RATES,
    },
    "ring": {
        "name": "ring", "description": "A ring of 8 places with the router of BookSim2.",
        "topology": "ring", "cols": 8, "flits": _FLITS, "rates": _RATES,
    },
    "switch": {
        "name": "switch", "description": "A switch of 8 places with the router of BookSim2.",
        "topology": "switch", "cols": 8, "flits": _FLITS, "rates": _RATES,
    },
}  # fmt: skip
"""The values of every network by its name; what is left out has its default."""
