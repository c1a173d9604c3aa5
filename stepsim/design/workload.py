"""Compiled models as workloads: options of the compiler are parameters like any others.

So one search covers tiles, lanes, orders, vectors and groups as well as parameters of the machine.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import stepsim.design
from stepsim.design.choices import Choices, SearchedChoices, Shrink, group_param
from stepsim.design.operators.graph import OperatorGraph
from stepsim.design.operators.models.sizes import BlockSizes, Tokens
from stepsim.design.operators.models.sources import Source, source_of
from stepsim.design.passes.memory.placement import place_in_memory
from stepsim.errors import ArgError, CompileError
from stepsim.machine import load_machine
from stepsim.workloads import (
    MODELS,
    Built,
    Data,
    Model,
    Param,
    ParameterError,
    Workload,
    fields_of,
)
from stepsim.workloads.models import Layer

if TYPE_CHECKING:
    from stepsim.machine import Machine


@dataclass(frozen=True, kw_only=True)
class CompiledWorkload(Workload, SearchedChoices):
    """Base of workloads that are compiled from operator graphs.

    Groups run one after another, and measures are totals over all of them unless ``group`` names
    one. A subclass returns the graph to compile from `operators`.
    """

    own_machine: ClassVar[Any] = load_machine("u55c")

    shrink: Shrink = False
    """Off, as a search compares designs; only the final one is worth the extra runs."""

    group: Annotated[int | None, group_param("all, one after another")] = None

    def operators(self, machine: Machine) -> OperatorGraph:
        """The graph to compile.

        Raises
        ------
        CompileError : these parameters do not give a graph.
        """
        raise NotImplementedError

    def check(self, data: Data) -> Iterable[tuple[str, str]]:
        return ()

    def program_key(self, data: Data) -> Hashable:
        return ()

    def build(self, data: Data) -> Built:
        return self.build_for(data, self.own_machine)

    def build_for(self, data: Data, machine: Machine) -> Built:
        """Compile for the machine.

        Raises
        ------
        CompileError : a pass rejects the parameters, or the design does not fit the machine.
        ParameterError : there is no such group.
        """
        chosen = {one.name: getattr(self, one.name) for one in fields(SearchedChoices)}
        choices = Choices(**chosen, predict=False, placed=False, fit=False)
        compiled = stepsim.design.compile(self.operators(machine), machine, choices=choices)
        if compiled.plan.infeasible is not None:
            raise CompileError(f"the design does not fit the machine: {compiled.plan.infeasible}")
        if machine.device is not None:
            place_in_memory(compiled.plan.graph, machine.device)
        parts = [
            Built(made.program, fifo_depths=found.depths)
            for made, found in zip(compiled.programs, compiled.plan.groups, strict=True)
        ]
        if self.group is not None:
            try:
                return parts[compiled.plan.group(self.group)]
            except CompileError as error:
                raise ParameterError([("group", str(error))]) from None
        last = parts[-1]
        return Built(last.program, fifo_depths=last.fifo_depths, earlier=parts[:-1])


@dataclass(frozen=True, kw_only=True)
class CompiledModel(CompiledWorkload, BlockSizes):
    """A block of a language model, compiled to a dataflow design."""

    name: ClassVar[str] = "compiled"

    model: Annotated[Model, Param("name, YAML file or config.json of a model")] = MODELS[
        "gpt2-medium"
    ]
    sequence: Tokens = None
    """The size ``tokens``; that name is a column of all results."""

    def check(self, data: Data) -> Iterable[tuple[str, str]]:
        try:
            self.operators(self.own_machine)
        except (CompileError, ArgError) as error:
            yield "model", str(error)

    def operators(self, machine: Machine) -> OperatorGraph:
        given = {name: getattr(self, name) for name in fields_of(BlockSizes)}
        sizes = {**given, "tokens": self.sequence}
        found = {name: value for name, value in sizes.items() if value is not None}
        return _source(self.model, self.model.layer, machine, tuple(found.items())).graph


@lru_cache(8)
def _source(
    model: Model, layer: Layer | None, machine: Machine, sizes: tuple[tuple[str, Any], ...]
) -> Source:
    """Models that differ in their layers alone are equal, so that those are part of the key."""
    return source_of(model, machine, dict(sizes))
