"""Workloads: ready-made ones, and those of the user's files and of plugins."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
