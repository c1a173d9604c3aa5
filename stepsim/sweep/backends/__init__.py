"""Where chunks are computed: in this process, in processes of this machine, on dask, on ray.

All of them take chunks and give the rows back later, in any order. What is run, saved, and run
again is up to the loop in :mod:`stepsim.sweep.running.dispatch`; which worker runs it, to the
backend.
"""

from stepsim.sweep.backends.base import Backend, WorkerLost, WorkerNotStarted
from stepsim.sweep.backends.dask import DaskBackend
from stepsim.sweep.backends.local import LocalBackend
from stepsim.sweep.backends.ray import RayBackend

__all__ = [
    "BACKENDS",
    "Backend",
    "DaskBackend",
    "LocalBackend",
    "RayBackend",
    "WorkerLost",
    "WorkerNotStarted",
]

BACKENDS = ("local", "dask", "ray")
