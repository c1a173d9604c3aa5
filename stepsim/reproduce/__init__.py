"""The figures of the STeP paper again: runs, comparison, headline ratios, pictures, report."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
