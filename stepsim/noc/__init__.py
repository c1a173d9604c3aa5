"""Networks alone: the timing of transfers over a network on chip or between chips; ``st.noc``."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
