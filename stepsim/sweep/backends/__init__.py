"""Where chunks are computed: in this process, in processes of this machine, on dask, on ray.

All of them take a chunk and give its rows back later. None of them decides what runs next: that is
the loop in :mod:`stepsim.sweep.dispatch`, and which worker runs it is up to the library behind.
"""

from stepsim.sweep.backends.base import Backend, WorkerLost
from stepsim.sweep.backends.dask import DaskBackend
from stepsim.sweep.backends.local import LocalBackend
from stepsim.sweep.backends.ray import RayBackend

__all__ = ["BACKENDS", "Backend", "DaskBackend", "LocalBackend", "RayBackend", "WorkerLost"]

BACKENDS = ("local", "dask", "ray")
