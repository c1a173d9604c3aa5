"""Values and times together: evaluate a program in the order of a timing run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepsim.functional import FunctionalResult, evaluate, needs_decisions
from stepsim.graph import DType, Program
from stepsim.lowering import default_depth
from stepsim.machine import Machine, load_machine
from stepsim.simulation.programs.changes import checked_depths, depth_of
from stepsim.simulation.programs.fix_file import read_depths
from stepsim.simulation.programs.prepared import wired
from stepsim.simulation.programs.simulate import prepare


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

    The timing run is left out when nothing depends on arrival: no eager merge, no reassemble of
    several chunks.

    Parameters
    ----------
    program : closed ``with`` block of operators.
    tensors : arrays by load or random store, spec, name of a spec or label of an operator. Targets
        of random stores start from zeros when not given.
    machine, fifo_depth : those of the timing run, as in ``st.simulate``.
    bindings : index arrays ``[rows, k]`` for routings that were built from a shape only.
    scalar : evaluate in this floating point type in place of the program's own; ``"f32"``
        distinguishes rounding from mistakes.

    Raises
    ------
    ArgError : an argument has another type, or bindings do not fit the routings of the program.
    EvaluationError : a tensor is missing, the timing run does not succeed, an operator cannot
        continue, or streams do not match.
    AssumptionError : an ``assume_equal`` or ``assume_shape`` does not hold.

    Example
    -------
    >>> import numpy as np
    >>> import stepsim as st
    >>> with st.Program() as program:
    ...     x = st.linear_load(st.spec(2, 2, name="x", dtype="f32"), (1, 2))
    ...     st.linear_store(st.map(st.fn.neg, x), "y")
    >>> values = st.run_functional(program, {"x": np.ones((2, 2), np.float32)})
    >>> values.stored["y"].tolist()
    [[-1.0, -1.0], [-1.0, -1.0]]
    """
    decisions = None
    if needs_decisions(program):
        decisions = prepare(program, machine=machine, fifo_depth=fifo_depth).decisions(bindings)
    else:
        _check_timing(program, machine, fifo_depth)
    return evaluate(program, tensors, bindings=bindings, decisions=decisions, scalar=scalar)


def _check_timing(program: Program, machine: Machine | str, fifo_depth: Any) -> None:
    """Refuse what a timing run would refuse of its arguments, although none is needed.

    A program without a compute bandwidth has values all the same, so that it is not prepared.
    """
    depth, named = depth_of(fifo_depth)
    target = machine if isinstance(machine, Machine) else load_machine(machine)
    default_depth(program, target, depth)
    if isinstance(named, Mapping):
        checked_depths(wired(program), named)
    elif named is not None:
        read_depths(named, wired(program), program.fingerprint())
