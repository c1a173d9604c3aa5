"""Run programs: prepare, get an image, execute, collect."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
