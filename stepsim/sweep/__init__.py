"""Many runs: described, executed, kept, compared."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
