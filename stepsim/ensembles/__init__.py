"""Ensembles: disturbed copies of a run, drawn by seed, and the spread of their cycles.

What can be disturbed and how a copy runs depends on the level of simulation, which gives a list of
`Disturbance` and a function that runs; the draws and the statistics are the same at every level.
"""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
