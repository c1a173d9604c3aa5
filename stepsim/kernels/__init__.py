"""How long a program takes: compiled state machines over flat arrays, without Python objects."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
