"""Machines: validated descriptions of a target, and the presets that stepsim ships."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
