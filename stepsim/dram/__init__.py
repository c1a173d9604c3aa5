"""DRAMs alone: the timing of streams of addresses, cycle by cycle; ``st.dram``."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
