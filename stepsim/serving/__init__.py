"""A service under load: requests, their scheduler, the time of a step, and the clock."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
