"""Workloads: ready-made ones, and those from users' files and plugins."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
