"""The operator graph: what a model computes, as loop nests over named dims (linalg's level).

An operator walks the product of its dims and reads every operand at an affine position, so that a
transposed, split or sliced operand is the same tensor read in another way. The graph verifies
itself when it is made; passes make another one of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stepsim.design.operators.checks import verify
from stepsim.design.operators.json_file import read, written
from stepsim.design.operators.text import text_of
from stepsim.design.operators.types import Dim, Index, Op, Operand, Role, Tensor, Tiling
from stepsim.design.operators.values import evaluate
from stepsim.errors import CompileError, did_you_mean
from stepsim.shown import shown
from stepsim.typed import typed, typed_fields

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Dim", "Edge", "Index", "Op", "Operand", "OperatorGraph", "Role", "Tensor", "Tiling"]


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor from its producer to one reader: operand ``slot`` of ``consumer``."""

    tensor: str
    producer: str
    consumer: str
    slot: int


@typed_fields
@dataclass(frozen=True)
class OperatorGraph:
    """Tensors and operators, in an order in which they can run.

    Attributes
    ----------
    attributes : what the graph stands for, as JSON holds it: model, phase, batch, context, ...

    Raises
    ------
    CompileError : a rule is broken; the message names operator, place, tensor, what was expected
        and found.
    """

    name: str
    tensors: Mapping[str, Tensor]
    ops: tuple[Op, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        verify(self)

    if not TYPE_CHECKING:  # Type checkers know which attributes there are.

        def __getattr__(self, name: str) -> Any:
            """Report to passes over kernels that the graph has none yet."""
            if name in ("kernels", "operators", "dmas", "groups", "inner_edges"):
                raise CompileError(
                    f"graph '{self.name}': expected a graph of kernels, found one of operators; "
                    "make its kernels first, with tile(graph) and then kernels_of(graph)"
                )
            raise AttributeError(f"an OperatorGraph has no attribute '{name}'")

    def with_role(self, *roles: Role) -> tuple[Tensor, ...]:
        """Tensors of some roles, in the order in which they were declared."""
        return tuple(tensor for tensor in self.tensors.values() if tensor.role in roles)

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(tensor.name for tensor in self.with_role("output"))

    @cached_property
    def producers(self) -> dict[str, Op]:
        """The operator that writes each tensor; nothing for those from off chip."""
        return {op.output.tensor: op for op in self.ops}

    @cached_property
    def consumers(self) -> dict[str, tuple[tuple[Op, int], ...]]:
        """Operators that read each tensor, with the number of the operand."""
        found: dict[str, list[tuple[Op, int]]] = {name: [] for name in self.tensors}
        for op in self.ops:
            for slot, operand in enumerate(op.inputs):
                found[operand.tensor].append((op, slot))
        return {name: tuple(readers) for name, readers in found.items()}

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """Every tensor from the operator that makes it to each operand that reads it."""
        return tuple(
            Edge(name, self.producers[name].name, op.name, slot)
            for name, readers in self.consumers.items()
            if name in self.producers
            for op, slot in readers
        )

    @typed
    def op(self, name: str) -> Op:
        """The operator of a name; CompileError if no operator has it."""
        found = self._by_name.get(name)
        if found is None:
            near = did_you_mean(name, self._by_name)
            raise CompileError(f"{self.name} has no operator {shown(name)}{near}")
        return found

    @cached_property
    def _by_name(self) -> dict[str, Op]:
        return {op.name: op for op in self.ops}

    @property
    def flops(self) -> int:
        """FLOPs of all operators."""
        return sum(op.flops for op in self.ops)

    @property
    def parameters(self) -> int:
        """Elements of all weights."""
        return sum(tensor.elements for tensor in self.with_role("weight"))

    @property
    def matrix_parameters(self) -> int:
        """Elements of the weights with two axes or more: without biases and norms."""
        return sum(t.elements for t in self.with_role("weight") if len(t.shape) > 1)

    @property
    def intermediate_bytes(self) -> int:
        """Bytes of all tensors that are neither read from nor written to off-chip memory."""
        return sum(tensor.bytes for tensor in self.with_role("intermediate"))

    @typed
    def evaluate(
        self, values: Mapping[str, Any], dtype: Any = "float32"
    ) -> dict[str, NDArray[np.floating[Any]]]:
        """Values of all tensors, computed by numpy; see :func:`operator_values.evaluate`."""
        return evaluate(self, values, dtype)

    def text(self) -> str:
        """A listing to read, one line for each tensor from off chip and each operator."""
        return text_of(self)

    def to_json(self) -> str:
        """The graph as JSON, which :meth:`from_json` reads."""
        return written(self)

    @classmethod
    @typed
    def from_json(cls, text: str, where: str = "operator graph") -> OperatorGraph:
        """The graph that :meth:`to_json` wrote; CompileError names the line of what is wrong."""
        return read(text, where, cls)

    def replaced(self, **changes: Any) -> OperatorGraph:
        """The same graph with other fields, verified again."""
        return replace(self, **changes)

    def __str__(self) -> str:
        return f"<operator graph {self.name}: {len(self.ops)} operators>"
