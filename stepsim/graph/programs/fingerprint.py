"""The identity of a program: a hash of everything that determines its results and its timing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from stepsim.collection import without_collection
from stepsim.digests import sha256
from stepsim.graph.functions.function import Function
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.types import ElementType, TensorSpec, Tile

if TYPE_CHECKING:
    from stepsim.graph.programs.program import Program


def fingerprint(program: Program, *, fifo_depth: int | None) -> str:
    """SHA-256 over operators, parameters, shapes, types, wiring and defaults; no source lines.

    ``fifo_depth`` is used as the default FIFO depth, in place of the program's own.
    """
    with without_collection():
        lines = _Text(program).lines(fifo_depth)
        return sha256("".join(lines).encode()).hexdigest()


class _Text:
    """The text of a program that is hashed.

    Hundreds of operators share dims, types and functions, so the text of each is made only once.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[int, tuple[Any, str]] = {}

    def lines(self, fifo_depth: int | None) -> Iterator[str]:
        program = self._program
        depths = program.depths
        yield f"{program.compute_bw} {program.par_dispatch} {fifo_depth}\n"
        if program.flop_weights:
            yield f"flops {sorted(program.flop_weights.items())}\n"
        for op in program.operators:
            inputs = " ".join([f"{s.producer.id}.{s.output}" for s in op.inputs])
            attributes = op.attributes()
            values = " ".join([f"{k}={self._plain(attributes[k])}" for k in sorted(attributes)])
            yield f"{op.id} {op.name} {op.unit_kind} <- {inputs} | {values}\n"
            for out in op.outputs:
                depth = depths.get(out.key) if depths else None
                dims = ", ".join([self._dim(dim) for dim in out.shape])
                yield f"  Stream[{dims}] of {self._type(out.type)} depth={depth}\n"
        if program.order is not None:
            yield f"order {list(program.order)}\n"
        if any(op.chip for op in program.operators):
            yield f"chips {[op.chip for op in program.operators]}\n"
        for assumed in program.assumptions:
            yield f"assume {assumed.left} == {assumed.right}\n"

    def _described(self, value: Any, text: Callable[[Any], str]) -> str:
        """``text(value)``, cached by identity, since sizes are slow to hash."""
        found = self._known.get(id(value))
        if found is None:
            # The value is kept, so that its id is not reused.
            self._known[id(value)] = found = (value, text(value))
        return found[1]

    def _dim(self, dim: Dim) -> str:
        """``str(dim)``."""
        return str(dim.size) if type(dim.size) is int else self._described(dim, str)

    def _type(self, kind: ElementType) -> str:
        """``str(kind)``."""
        if type(kind) is not Tile:
            return self._described(kind, str)
        sides = f"{self._dim(kind.rows)}x{self._dim(kind.cols)}"
        return f"Tile[{sides} {self._described(kind.dtype, str)}]"

    def _plain(self, value: Any) -> str:
        if value is None or type(value) in (int, bool, str):
            return str(value)
        if isinstance(value, np.ndarray):
            return str(value.tolist())
        if isinstance(value, Function):
            return self._described(value, Function.identity)
        if isinstance(value, TensorSpec):
            return f"{list(value.shape)}{self._described(value.dtype, str)}"
        if isinstance(value, Tile):
            return self._type(value)
        return str(value)
