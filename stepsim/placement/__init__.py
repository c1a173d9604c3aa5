"""Placement: where on a network the operators of a program should be, found by a search."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
