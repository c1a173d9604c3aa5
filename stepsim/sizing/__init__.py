"""Depths of FIFOs: the least that keep the speed, and the least that end a deadlock."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
