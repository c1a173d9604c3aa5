"""An operator graph that was read from a model, together with the values of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepsim.design.operators.graph import OperatorGraph

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class ImportedGraph(OperatorGraph):
    """An operator graph and the values stored in the model.

    Attributes
    ----------
    arrays : values of weights, of states that the model keeps, and of tables that it computes
        without an input, by tensor. They are not in the JSON of the graph.
    order : names of the inputs and states that stand for the arguments of the model, in their
        order; None where an argument is not used.
    """

    arrays: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    order: tuple[str | None, ...] = ()

    def evaluate(
        self, values: Mapping[str, Any], dtype: Any = "float32"
    ) -> dict[str, NDArray[np.floating[Any]]]:
        """Values of all tensors, for those of the inputs; weights are the model's own.

        Raises
        ------
        CompileError : an array is missing, unknown or of another shape.
        """
        own = {name: array for name, array in self.arrays.items() if name in self.tensors}
        return super().evaluate({**own, **values}, dtype)

    def plain(self) -> OperatorGraph:
        """The graph alone, as its JSON has it."""
        return OperatorGraph(self.name, self.tensors, self.ops, self.attributes)
