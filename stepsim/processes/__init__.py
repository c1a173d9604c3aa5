"""Runs at the same time in threads or processes, which end together with their parent."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
