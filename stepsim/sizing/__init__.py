"""FIFO sizing: the least depths that keep the speed, and the least that resolve a deadlock."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
