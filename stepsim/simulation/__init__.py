"""Run programs: prepare, lay out an image, execute, collect results."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
