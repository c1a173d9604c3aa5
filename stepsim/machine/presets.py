"""The machines that stepsim ships, with the values that ``presets.json`` gives them.

The machines from ``hdl-flops`` to ``hdl-arbiter`` are a ladder from ``sda-hdl``, which has the
settings of the STeP paper's simulator, to the hardware that the paper was validated with: a
16 x 16 x 16 product and a tile of 16 x 16 f32 per cycle and unit. In its DRAM every port has an
array of its own from byte 0 on, in the order of use; a tile of 16 x 16 f32 is followed by the word
that says where dims end.

The 460 GB/s of ``u55c`` are 1,840 bytes per cycle, 57.5 for each of 32 pseudo-channels. Accesses of
whole 64-byte words at exactly that rate take another number of channels. Its memories are those of
VU47P (AMD DS890): 36.7 Mb of distributed RAM, 2,016 blocks of 36 Kb, 960 of URAM.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = json.loads(
    Path(__file__).with_suffix(".json").read_text("utf-8")
)
"""The values of every machine by its name; what is left out has its default."""

HARDWARE_MACHINES: Final = ("hdl", "hdl-fair", "hdl-spread")
"""Names of the machines of the hardware level, which is above this room: messages name them."""
