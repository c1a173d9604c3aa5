"""Where chunks are computed: in this process, in processes of this machine, on dask, on ray.

All of them take chunks and return the rows later, in any order. The loop in
:mod:`stepsim.sweep.running.dispatch` decides what is run, saved, and run again; the backend decides
which worker runs it.
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
