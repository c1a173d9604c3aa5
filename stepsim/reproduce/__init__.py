"""Reproduction of the STeP paper's figures: runs, comparison, headline ratios, plots, report."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
