"""Results for people: tables for the terminal, and all pictures."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
