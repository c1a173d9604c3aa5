"""The state of a run as one pointer among the compiled kernels."""

from __future__ import annotations

from typing import Any


def by_reference(state: Any) -> Any:
    """The state, for kernels compiled with ``apart`` that are called from the function at hand.

    The pointer leads to a local variable of that function, which writes it first: what is inlined
    there must not load through it, because the loads claim that nothing was ever written.
    :mod:`stepsim.kernels.build.reference_type` declares it to the compiler.
    """
    return state
