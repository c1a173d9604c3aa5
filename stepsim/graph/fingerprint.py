"""The identity of a program: a hash of all that decides what it computes and how it is timed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from stepsim.graph.functions.function import Function
from stepsim.graph.types import TensorSpec

if TYPE_CHECKING:
    from stepsim.graph.program import Program

__all__ = ["fingerprint"]


def fingerprint(program: Program) -> str:
    """SHA-256 over operators, parameters, shapes, types, wiring and defaults; no source lines."""
    digest = hashlib.sha256()
    for line in _lines(program):
        digest.update(line.encode())
        digest.update(b"\n")
    return digest.hexdigest()


def _plain(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return str(value.tolist())
    if isinstance(value, Function):
        return value.identity()
    if isinstance(value, TensorSpec):
        return f"{list(value.shape)}{value.dtype}"
    return str(value)


def _lines(program: Program) -> Iterator[str]:
    yield f"{program.compute_bw} {program.par_dispatch} {program.fifo_depth}"
    if program.flop_weights:
        yield f"flops {sorted(program.flop_weights.items())}"
    for op in program.operators:
        inputs = " ".join(f"{i}.{p}" for i, p in (s.key for s in op.inputs))
        attributes = " ".join(f"{k}={_plain(v)}" for k, v in sorted(op.attributes().items()))
        yield f"{op.id} {op.name} {op.unit_kind} <- {inputs} | {attributes}"
        for out in op.outputs:
            yield f"  {out.describe()} depth={out.depth}"
    if program.order is not None:
        yield f"order {list(program.order)}"
    for assumed in program.assumptions:
        yield f"assume {assumed.left} == {assumed.right}"
