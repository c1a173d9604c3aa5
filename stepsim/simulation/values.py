"""Values and times together: evaluate a program in the order of a timing run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepsim.functional import FunctionalResult, evaluate, needs_decisions
from stepsim.graph import DType, Program
from stepsim.machine import Machine
from stepsim.simulation.prepare import prepare

__all__ = ["run_functional"]


def run_functional(
    program: Program,
    tensors: Mapping[Any, Any] | None = None,
    *,
    machine: Machine | str = "sda-1024",
    bindings: Mapping[Any, Any] | None = None,
    fifo_depth: int | None = None,
    scalar: DType | str | None = None,
) -> FunctionalResult:
    """Evaluate a finished program on real tensors, merging in the order of its timing run.

    The timing run is left out when nothing depends on arrival. ``tensors``, ``bindings`` and
    ``scalar`` are those of :func:`stepsim.functional.evaluate`, the rest those of
    :func:`stepsim.simulation.simulate`.
    """
    decisions = None
    if needs_decisions(program):
        decisions = prepare(program, machine=machine, fifo_depth=fifo_depth).decisions(bindings)
    return evaluate(program, tensors, bindings=bindings, decisions=decisions, scalar=scalar)
