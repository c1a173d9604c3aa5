"""``compile``: from a model to a sized, simulated dataflow design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from stepsim._version import MODEL_VERSION, __version__
from stepsim.arguments import flag, shown
from stepsim.compiler.dataflow import DataflowGraph
from stepsim.compiler.designing import (
    DEFAULT_UNROLL,
    SIZINGS,
    Choices,
    Fusion,
    Order,
    Pass,
    Sizing,
    Unrolling,
    designed,
)
from stepsim.compiler.fifo_planning import FifoPlan, fifo_plan, with_depths
from stepsim.compiler.placement import place_in_memory, place_on_dies
from stepsim.compiler.plan import GroupPlan, Plan, operators_digest
from stepsim.compiler.program import programs_of
from stepsim.compiler.routed import ROUTED
from stepsim.compiler.tiling import DEFAULT_TILE
from stepsim.errors import ArgError, CompileError, did_you_mean
from stepsim.explain.sizing_problem import checked_slowdown
from stepsim.flow.compiled import Compiled
from stepsim.flow.group_sizing import GroupSizing, SizedGroup
from stepsim.flow.profiling import profile
from stepsim.flow.sources import operator_graph
from stepsim.machine import Machine
from stepsim.simulation.prepare import prepare
from stepsim.workloads.workload import machine_of

__all__ = ["DEFAULT_RUNS", "compile"]

DEFAULT_RUNS = 300
"""Runs in which FIFOs are made smaller. With 160 of them those of TinyLlama's prefill take 29.9 MB,
with 300 they take 1.0 MB; those of GPT-2 medium take the same with both."""


def compile(
    model: Any,
    machine: Machine | str = "u55c",
    *,
    budget: int | None = None,
    tile: int = DEFAULT_TILE,
    tiles: Mapping[str, Mapping[str, int]] | None = None,
    unroll: int = DEFAULT_UNROLL,
    unrolling: Unrolling = "heap_skip",
    order: Order = "reductions_outermost",
    orders: Mapping[str, tuple[str, ...]] | None = None,
    vectors: Literal["tile", "narrow"] | Mapping[str, tuple[int, int]] = "tile",
    fusion: Fusion = "merge",
    packed: bool = True,
    folded: bool = False,
    reuse_bytes: int | None = None,
    fifo: Sizing = "lp",
    slowdown: float = 0.005,
    shrink: bool = True,
    runs: int = DEFAULT_RUNS,
    predict: bool = True,
    placed: bool | None = None,
    keep_going: bool = False,
    **sizes: Any,
) -> Compiled:
    """Compile a model for a machine: kernels, groups, loads and stores, FIFOs, all simulated.

    Kernels are tiled, unrolled and ordered, put into groups whose converters fit ``budget``, and
    measured alone. A linear program over their start times gives FIFO depths, which runs of the
    whole program repair and shrink (StreamTensor, sections 2 to 5).

    Parameters
    ----------
    model : an operator graph; the name of a model, as ``gpt2-medium``; of PyTorch ``(module,
        arguments)`` or an exported program; or an ONNX model or file.
    machine : a machine, its name or its file.
    budget : bytes on chip for the converters of a group; None is the capacity of the machine.
    tile, tiles, unroll, unrolling, order, orders, vectors, fusion, packed, folded, reuse_bytes
        as in :class:`stepsim.compiler.designing.Choices`.
    fifo : where depths come from; see :data:`stepsim.compiler.designing.Sizing`.
    slowdown : how much longer than with unbounded FIFOs a run may take, as a fraction.
    shrink : make depths smaller by runs.
    runs : that shrinking makes at most, for each group.
    predict : tell what the linear program alone expects of the whole; a search needs no such.
    placed : choose memory kinds of buffers and dies of kernels; None does so where the machine
        states a device.
    keep_going : of an imported model, take operators that are not known as opaque kernels.
    sizes : of a model that is named: phase, tokens, context, batch, hidden, ...

    Raises
    ------
    CompileError : the model is unknown, or a pass refuses it; the message names the operator.
    ArgError : an argument is out of range.
    MachineError : the machine is unknown or invalid.
    """
    target = machine_of(machine)
    slowdown = checked_slowdown("compile: slowdown", slowdown)
    shrink = flag("compile: shrink", shrink)
    if fifo not in SIZINGS:
        near = did_you_mean(str(fifo), SIZINGS)
        raise ArgError(f"compile: fifo is {shown(fifo)}{near} Known: {', '.join(SIZINGS)}")
    graph = operator_graph(model, target, sizes, keep_going=keep_going)
    if any(op.kind in ROUTED for op in graph.ops):
        raise CompileError(
            f"compile: {graph.name} has experts, whose streams have no types that a linear program "
            "could size; give routings to stepsim.flow.compile_over_traces"
        )
    choices = Choices(
        budget=_budget(target) if budget is None else budget, tile=tile, tiles=tiles,
        unroll=unroll, unrolling=unrolling, order=order, orders=orders, fusion=fusion,
        reuse_bytes=reuse_bytes, packed=packed, vectors=vectors, folded=folded,
    )  # fmt: skip
    design, passes = designed(graph, choices)
    measured = profile(design, target)
    groups: list[GroupPlan] = []
    streams: dict[str, int] = {}
    for made in programs_of(design):
        plan = fifo_plan(design, made.group, measured, target)
        sizing = GroupSizing(made, prepare(made.program, target), plan, slowdown)
        sized = sizing.solved(fifo, shrink=shrink, runs=runs)
        streams |= sized.streams
        groups.append(_group(made.group, plan if predict else None, sized))
    told = {
        **{name: getattr(choices, name) for name in choices.__dataclass_fields__},
        "fifo": fifo, "slowdown": slowdown, "shrink": shrink,
    }  # fmt: skip
    made_with = {
        "stepsim_version": __version__,
        "model_version": str(MODEL_VERSION),
        "model_digest": operators_digest(graph),
    }
    chosen = {name: value for name, value in told.items() if value is not None}
    design, more, groups = _placed(with_depths(design, streams), groups, target, placed)
    found = Plan(design, target, chosen, tuple(groups), measured, made_with)
    return Compiled(found, (*passes, *more))


def _placed(
    graph: DataflowGraph, groups: list[GroupPlan], machine: Machine, wanted: bool | None
) -> tuple[DataflowGraph, list[Pass], list[GroupPlan]]:
    """Memory kinds of buffers and dies of kernels, where the machine states a device."""
    device = machine.device
    if wanted is False or (wanted is None and device is None):
        return graph, [], groups
    if device is None:
        raise CompileError(
            f"compile: machine {machine.name} states no device to place on; placed=False leaves "
            "that out"
        )
    in_memory, allocations = place_in_memory(graph, device)
    passes = [Pass("place_in_memory", graph, in_memory)]
    on_dies = in_memory
    if device.dies > 1:
        on_dies = place_on_dies(in_memory, device)
        passes.append(Pass("place_on_dies", in_memory, on_dies))
    told = [
        replace(group, blocks=dict(found.used))
        for group, found in zip(groups, allocations, strict=True)
    ]
    return on_dies, passes, told


def _budget(machine: Machine) -> int:
    if machine.onchip.capacity_bytes is None:
        raise CompileError(
            f"compile: machine {machine.name} does not state onchip.capacity_bytes; give a budget"
        )
    return machine.onchip.capacity_bytes


def _group(group: int, plan: FifoPlan | None, sized: SizedGroup) -> GroupPlan:
    return GroupPlan(
        group, sized.depths, sized.fifo_bytes, None if plan is None else _predicted(plan),
        sized.unbounded, sized.found.cycles[0], sized.found.simulations,
    )  # fmt: skip


def _predicted(plan: FifoPlan) -> int:
    makespan = plan.network.unbounded.makespan
    assert makespan is not None  # nothing waits for room without bounds
    return -(-makespan // plan.scale)
