"""From a model to a sized, simulated design: operator graph, passes, plan, search."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
