"""The port interface between units and a memory model.

A memory model offers two functions over the port records; the engine knows nothing else of it.

``issue(port, s, n)``
    The operator of ``port`` starts an access of ``n`` requests at its clock ``s``; the first bundle
    is taken in cycle ``s + 1``.
``advance(limit)``
    Run the memory up to and including cycle ``limit``, but not past the first completion it
    creates. Every access completed is entered in the calendar with its operator and clock. Called
    only when no unit can run, so all requests still to come are issued at or after ``limit``.

To add a model: one module with these functions, one branch in each function below, one name in
``MEMORY_MODELS``.
"""

from __future__ import annotations

from typing import Final

from stepsim.kernels.jit import kernel
from stepsim.kernels.memory import channel, uncontended

__all__ = ["MEMORY_MODELS", "advance", "issue"]

MEMORY_MODELS: Final = {"channel": 0, "uncontended": 1}
"""Names of the memory models and their codes."""

_channel_issue = channel.issue
_channel_advance = channel.advance
_uncontended_issue = uncontended.issue


@kernel
def issue(U, H, M, Q, g, port, clock, requests):
    if g.mem_model == 0:
        _channel_issue(M, Q, g, port, clock, requests)
    else:
        _uncontended_issue(U, H, M, g, port, clock, requests)


@kernel
def advance(U, H, M, Q, A, B, T, g, limit):
    if g.mem_model == 0:
        _channel_advance(U, H, M, Q, A, B, T, g, limit)
