"""``compile_over_traces``: a model with experts to a sized design, by the passes of ``compile``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepsim.design.dataflow.graph import DataflowGraph
from stepsim.design.operators.graph import OperatorGraph
from stepsim.design.passes.pipeline import Choices, Pass, designed
from stepsim.design.programs.group_program import GroupProgram
from stepsim.design.programs.program import programs_of
from stepsim.design.search.fifo_planning import with_depths
from stepsim.design.search.routed_sizing import (
    Trace,
    TracedSizes,
    depths_of,
    size_over_traces,
    traces_of,
)
from stepsim.errors import CompileError
from stepsim.machine import Machine
from stepsim.simulation import prepare
from stepsim.sizing import FifoSizes, sized
from stepsim.trace_io import RoutingTable
from stepsim.workloads import machine_of

__all__ = ["CompiledExperts", "compile_over_traces", "sized_group"]


@dataclass(frozen=True, eq=False)
class CompiledExperts:
    """A design with experts, whose FIFOs are sized over many routings.

    Attributes
    ----------
    design : the dataflow graph, with depths.
    passes : what led to it, with the graphs before and after.
    groups : programs of the groups, in the order in which they run.
    sizes : of the groups that have experts, by number of the group.
    depths : of all FIFOs by name, by number of the group.
    """

    design: DataflowGraph
    passes: tuple[Pass, ...]
    groups: tuple[GroupProgram, ...]
    sizes: Mapping[int, TracedSizes]
    depths: Mapping[int, Mapping[str, int]]

    @property
    def guaranteed(self) -> bool:
        """No routing that keeps the declared maxima deadlocks."""
        return all(one.guaranteed for one in self.sizes.values())


def compile_over_traces(
    model: OperatorGraph,
    traces: Iterable[Any] | RoutingTable,
    machine: Machine | str = "u55c",
    *,
    budget: int | None = None,
    slowdown: float = 0.005,
    guard: bool = True,
    **choices: Any,
) -> CompiledExperts:
    """Compile a model with experts for a machine, and size its FIFOs over routings.

    Parameters
    ----------
    model : an operator graph with one routing, as of :func:`stepsim.design.moe_block`.
    traces : index arrays ``[rows, k]``, or routing tables of :mod:`stepsim.trace_io`.
    budget : bytes on chip for the converters of a group; None is the capacity of the machine.
    slowdown, guard : as in :func:`size_over_traces`.
    choices : of :class:`stepsim.design.passes.pipeline.Choices`: tile, unroll, order, fusion, ...

    Raises
    ------
    CompileError : a pass refuses the model, it has not one routing, or a trace does not fit it.
    """
    target = machine_of(machine)
    size = target.onchip.capacity_bytes if budget is None else budget
    if size is None:
        raise CompileError(
            f"compile_over_traces: machine {target.name} does not state onchip.capacity_bytes; "
            "give a budget"
        )
    design, passes = designed(model, Choices(budget=size, **choices))
    groups = programs_of(design)
    if not any(group.routings for group in groups):
        raise CompileError(f"compile_over_traces: {model.name} has no routing; use compile")
    given = traces_of(traces)
    found: dict[int, TracedSizes] = {}
    depths: dict[int, Mapping[str, int]] = {}
    streams: dict[str, int] = {}
    for group in groups:
        own, depths[group.group], named = sized_group(
            group, given, target, slowdown=slowdown, guard=guard
        )
        streams |= named
        if isinstance(own, TracedSizes):
            found[group.group] = own
    return CompiledExperts(with_depths(design, streams), passes, groups, found, depths)


def sized_group(
    group: GroupProgram,
    traces: Sequence[Trace],
    machine: Machine,
    *,
    slowdown: float,
    guard: bool,
) -> tuple[TracedSizes | FifoSizes, dict[str, int], dict[str, int]]:
    """Depths of a group of a design with experts, which may itself have none.

    Returns
    -------
    What was sized, depths of all FIFOs by name, and those of the streams between kernels by theirs.
    """
    if group.routings:
        own = size_over_traces(group, traces, machine, slowdown=slowdown, guard=guard)
        return own, own.depths, own.streams
    prepared = prepare(group.program, machine)
    found = sized(prepared, slowdown=slowdown, stated=True)
    depths = depths_of(found)
    names = {id(fifo.stream): fifo.name for fifo in prepared.wiring.fifos}
    streams = {
        name: depths[names[id(stream)]]
        for name, stream in group.streams.items()
        if id(stream) in names
    }
    return found, depths, streams
