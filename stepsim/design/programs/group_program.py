"""``GroupProgram``: the program of one group, and how values come in and go out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepsim.design.dataflow.graph import Dma
from stepsim.design.operators.given import values_of
from stepsim.design.operators.graph import Tensor
from stepsim.design.operators.routed_values import check_counts, indices_of, shaped
from stepsim.design.passes.memory.layout import laid_out, put_back
from stepsim.errors import CompileError
from stepsim.graph import Program, Routing, Stream, Wiring
from stepsim.typed import typed

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class GroupProgram:
    """The program of one group, and how tensors of the model come in and go out.

    Attributes
    ----------
    loads, stores : the DMAs, by the name of the tensor in the program.
    tables : tensors that are read by address, by their name in the program.
    indices : what the addresses were made of, by the name of the tensor.
    streams : streams whose FIFOs are sized: of edges within the group by the edge's name, between a
        producer and a converter with ``/before``, from loads as ``load x.0->kernel.slot``.
    routings : routings of the program, by the name of the input of the model.
    held : streams within combinations whose FIFOs hold the declared maximum of rows of an expert.
    """

    group: int
    program: Program
    loads: Mapping[str, Dma]
    stores: Mapping[str, Dma]
    streams: Mapping[str, Stream]
    tables: Mapping[str, str]
    indices: Mapping[str, Array] = field(repr=False)
    routings: Mapping[str, Routing] = field(repr=False)
    held: Mapping[str, Stream] = field(repr=False)
    _tensors: Mapping[str, Tensor] = field(repr=False)

    def bindings(self, values: Mapping[str, Any]) -> dict[Routing, Array]:
        """Bindings of a run: indices ``[rows, k]`` of each routing, from values by name.

        Raises
        ------
        CompileError : indices are missing or no experts, or an expert gets more rows than declared.
        """
        where = f"program '{self.program.name}'"
        found = {}
        for name, table in self.routings.items():
            if name not in values:
                raise CompileError(
                    f"{where}: the experts of '{name}' are missing; give indices "
                    f"[{table.rows}, {table.k}]"
                )
            shape = table.rows, table.k
            indices = indices_of(
                name, shaped(name, values[name], shape, where), table.experts, where
            )
            counts = np.bincount(indices.ravel(), minlength=table.experts)
            check_counts(name, counts.tolist(), table.max_rows or table.rows, where)
            found[table] = indices
        return found

    @typed
    def tensors(self, values: Mapping[str, Any]) -> dict[str, Array]:
        """The inputs of the program's loads, from values of the model's tensors.

        Raises
        ------
        CompileError : indices of a gather are others than those that the program was made with.
        """
        for name, indices in self.indices.items():
            given = self._given(values, name, indices.shape)
            if not np.array_equal(given, indices):
                raise CompileError(
                    f"program '{self.program.name}': values of '{name}' are addresses, and differ "
                    "from those the program was made with; make it with programs_of(graph, values)"
                )
        whole = {name: self._given(values, of) for name, of in self.tables.items()}
        return whole | {
            name: laid_out(dma, self._given(values, dma.tensor, self._shape(dma)))
            for name, dma in self.loads.items()
        }

    @typed
    def results(self, stored: Mapping[str, Any]) -> dict[str, Array]:
        """Values of the model's tensors, from what the stores of the program wrote.

        Raises
        ------
        CompileError : the values of a store are missing, or are not all of its tiles.
        """
        found = {}
        for name, dma in self.stores.items():
            tiles, array = dma.walk.tokens, self._given(stored, name)
            if array.size % tiles or array.size // tiles < dma.walk.token_cells:
                raise CompileError(
                    f"program '{self.program.name}': the values of '{name}' have shape "
                    f"{array.shape}, expected {tiles} tiles of {dma.walk.token_cells} numbers; "
                    "give what a run of this program stored"
                )
            found[dma.tensor] = put_back(dma.walk, array).reshape(self._shape(dma))
        return found

    def _given(
        self, values: Mapping[str, Any], name: str, shape: tuple[int, ...] | None = None
    ) -> Array:
        if name not in values:
            raise CompileError(
                f"program '{self.program.name}': the values of '{name}' are missing; give an array"
            )
        return values_of(f"program '{self.program.name}': '{name}'", values[name], shape)

    def _shape(self, dma: Dma) -> tuple[int, ...]:
        return self._tensors[dma.tensor].shape


def fifos_of(streams: Mapping[str, Stream], wiring: Wiring) -> dict[str, str]:
    """Names of the FIFOs of streams, by name of the stream; a stream may have none."""
    names = {id(fifo.stream): fifo.name for fifo in wiring.fifos}
    return {name: names[id(stream)] for name, stream in streams.items() if id(stream) in names}
