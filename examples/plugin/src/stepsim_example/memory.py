"""A memory model: every operator has its own pipe, which takes one request per interval."""

from __future__ import annotations

from stepsim.kernels.calendar import schedule
from stepsim.kernels.memory.declaration import MemoryModel

PIPES = MemoryModel("pipes", "gives every operator a pipe that takes one request per interval")


@PIPES.issue
def issue(state, port, clock, requests):
    """Accesses do not touch each other, so the completion is known at once."""
    shared = state.globals[0]
    shared.memory_requests += requests
    done = clock + requests * shared.memory_interval + shared.memory_delay
    schedule(state, state.ports[port].unit, done)
