"""DRAMs alone: what becomes of streams of addresses, cycle by cycle; ``st.dram``."""

from __future__ import annotations

from stepsim.dram.patterns import random_blocks, sequential, splitmix, tiles
from stepsim.dram.run import DramRun
from stepsim.dram.simulate import simulate, spec_of

__all__ = [
    "DramRun", "random_blocks", "sequential", "simulate", "spec_of", "splitmix", "tiles",
]  # fmt: skip
