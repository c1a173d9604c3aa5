"""Compiled models as workloads: options of the compiler are parameters like any others.

So one search covers tiles, lanes, orders, vectors and groups as well as parameters of the machine.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import stepsim.design
from stepsim.design.choices import Choices, SearchedChoices, Shrink, group_param
from stepsim.design.operators.graph import OperatorGraph
from stepsim.design.operators.models.blocks import block
from stepsim.design.operators.models.sources import element_types
from stepsim.design.passes.memory.placement import place_in_memory
from stepsim.errors import CompileError
from stepsim.machine import load_machine
from stepsim.workloads import Built, Data, Param, ParameterError, Workload, fields_of

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
class CompiledModel(CompiledWorkload):
    """A block of a language model, compiled to a dataflow design."""

    name: ClassVar[str] = "compiled"

    model: Annotated[str, Param("gpt2-medium, qwen2.5-0.5b, tinyllama-1.1b or gemma-3-1b")] = (
        "gpt2-medium"
    )
    phase: Annotated[Literal["prefill", "decode"], Param("phase of the model")] = "prefill"
    sequence: Annotated[
        int | None, Param("tokens of each request", "tokens", otherwise="16, in decoding 1")
    ] = None
    context: Annotated[
        int | None, Param("rows of the cache in decoding", "tokens", otherwise="64")
    ] = None
    batch: Annotated[int, Param("requests at a time", "requests")] = 1
    hidden: Annotated[
        int | None, Param("width of the activations", "columns", otherwise="the model's")
    ] = None
    inner: Annotated[int | None, Param("width of the feed-forward network",
                                       otherwise="the model's")] = None  # fmt: skip
    heads: Annotated[int | None, Param("heads of queries", otherwise="the model's")] = None
    kv_heads: Annotated[int | None, Param("heads of keys", otherwise="the model's")] = None
    head_dim: Annotated[int | None, Param("width of a head", otherwise="the model's")] = None

    def check(self, data: Data) -> Iterable[tuple[str, str]]:
        try:
            self.operators(self.own_machine)
        except CompileError as error:
            yield "model", str(error)

    def operators(self, machine: Machine) -> OperatorGraph:
        sizes = {name: getattr(self, name) for name in _SIZES}
        sizes["tokens"] = sizes.pop("sequence")
        return _block(**sizes, **element_types(machine))


_SIZES = [name for name in fields_of(CompiledModel) if name not in fields_of(CompiledWorkload)]
"""Parameters that are arguments of `block`, which calls ``sequence`` tokens."""

_block = lru_cache(8)(block)
