"""Sweeps of many runs: their specification, execution, storage and analysis."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
