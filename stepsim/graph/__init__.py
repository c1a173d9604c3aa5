"""What a program computes: operators, streams, symbolic shapes and symbolic metrics."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
