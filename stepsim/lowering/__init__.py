"""From a program to the flat arrays of the engine."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
