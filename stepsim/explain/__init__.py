"""Why a run takes as long as it does, and which changes would shorten it."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
