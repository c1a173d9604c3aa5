"""``compile``: from a model to a sized, simulated dataflow design."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, Literal

from stepsim._version import MODEL_VERSION, __version__
from stepsim.arguments import flag, is_whole, shown
from stepsim.design.dataflow.graph import DataflowGraph
from stepsim.design.operators.graph import OperatorGraph
from stepsim.design.operators.models.sources import operator_graph
from stepsim.design.operators.routed import ROUTED
from stepsim.design.passes.loops.tiling import DEFAULT_TILE
from stepsim.design.passes.memory.placement import place_in_memory, place_on_dies
from stepsim.design.passes.pipeline import (
    DEFAULT_UNROLL,
    SIZINGS,
    Choices,
    Fusion,
    Pass,
    Sizing,
    Unrolling,
)
from stepsim.design.plan.compiled import Compiled
from stepsim.design.plan.plans import GroupPlan, Plan, operators_digest
from stepsim.design.programs.group_program import GroupProgram
from stepsim.design.programs.program import programs_of
from stepsim.design.search.fifo_planning import FifoPlan, fifo_plan, with_depths
from stepsim.design.search.fitting import MOST_TRIALS, WAYS, excess_of, smaller
from stepsim.design.search.group_sizing import GroupSizing, SizedGroup
from stepsim.design.search.ordering import OrderChoice, in_order
from stepsim.design.search.profiling import profile
from stepsim.design.search.routed import sized_group
from stepsim.design.search.routed_sizing import Trace, TracedSizes, traces_of
from stepsim.errors import ArgError, CompileError, did_you_mean
from stepsim.machine import Machine
from stepsim.simulation import Prepared, prepare
from stepsim.sizing import checked_slowdown, slot_bytes
from stepsim.trace_io import RoutingTable
from stepsim.workloads import machine_of

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
    order: OrderChoice = "fastest",
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
    traces: Iterable[Any] | RoutingTable | None = None,
    guard: bool = True,
    fit: bool = True,
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
    tile, tiles, unroll, unrolling, orders, vectors, fusion, packed, folded, reuse_bytes
        as in :class:`stepsim.design.passes.pipeline.Choices`.
    order : of the loops of all operators, by name; ``fastest`` designs the block with each of them
        and takes the one with the fewest simulated cycles. ``reductions_outermost`` is the paper's,
        and that of a model with experts, where the fastest depends on the routing of a run.
    fifo : where depths come from; see :data:`stepsim.design.passes.pipeline.Sizing`.
    slowdown : how much longer than with unbounded FIFOs a run may take, as a fraction.
    shrink : make depths smaller by runs.
    runs : that shrinking makes at most, for each group.
    predict : tell the cycles that the model of stepping kernels expects, where it has no more than
        :data:`stepsim.design.search.fifo_planning.MOST_STEPS`; a search needs no such.
    placed : choose memory kinds of buffers and dies of kernels; None does so where the machine
        states a device.
    keep_going : of an imported model, take operators that are not known as opaque kernels.
    traces, guard : of a model with experts, the routings over which FIFOs are sized, and whether
        no other routing may deadlock either; see :func:`stepsim.design.size_over_traces`. Its
        kernels are not measured alone, and ``fifo``, ``shrink`` and ``runs`` do not apply.
    fit : where a group does not fit the on-chip memory or the device of the machine, compile again
        with less: half the converters of a group, half the tile, half the multipliers, each as long
        as that saves memory (:data:`stepsim.design.search.fitting.WAYS`), at most
        :data:`MOST_TRIALS` designs; ``plan.choices["tried"]`` has what did not fit and why. If none
        fits the plan is the one that needs least, with the status ``infeasible``. A model with
        experts is compiled once: its FIFOs for the declared maximum hold as many bytes with any
        tile.
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
    predict = flag("compile: predict", predict)
    keep_going = flag("compile: keep_going", keep_going)
    if placed is not None:
        placed = flag("compile: placed", placed)
    if not is_whole(runs) or runs < 0:
        raise ArgError(f"compile: runs must be a whole number from 0, found {shown(runs)}")
    if fifo not in SIZINGS:
        near = did_you_mean(str(fifo), SIZINGS)
        raise ArgError(f"compile: fifo is {shown(fifo)}{near} Known: {', '.join(SIZINGS)}")
    graph = operator_graph(
        model, target, sizes, keep_going=keep_going, choices=signature(compile).parameters
    )
    routed = any(op.kind in ROUTED for op in graph.ops)
    if routed and traces is None:
        raise CompileError(
            f"compile: {graph.name} has experts, whose FIFOs are sized over routings; give traces="
            " (--routing FILE), or use stepsim.design.compile_over_traces"
        )
    if not routed and traces is not None:
        raise CompileError(f"compile: {graph.name} has no experts; leave traces out")
    if routed and fifo != "lp":
        raise CompileError(
            f"compile: fifo is '{fifo}', but {graph.name} has experts, whose streams have no types "
            "that a linear program could size; leave fifo out"
        )
    given = None if traces is None else traces_of(traces)
    first = Choices(
        budget=_budget(target) if budget is None else budget, tile=tile, tiles=tiles,
        unroll=unroll, unrolling=unrolling, orders=orders, fusion=fusion,
        reuse_bytes=reuse_bytes, packed=packed, vectors=vectors, folded=folded,
    )  # fmt: skip

    def made_of(choices: Choices) -> Compiled:
        return _compiled(
            graph, target, choices, order, given, fifo=fifo, slowdown=slowdown, shrink=shrink,
            runs=runs, predict=predict, placed=placed, guard=guard,
        )  # fmt: skip

    made = made_of(first)
    if made.plan.infeasible is None or not fit or routed:
        return made
    return _fitted(made, first, made_of)


def _fitted(best: Compiled, asked: Choices, made_of: Callable[[Choices], Compiled]) -> Compiled:
    """A smaller design in place of one that does not fit; without one that which needs least."""
    tried = [_trial(asked, best.plan)]
    ways = list(WAYS)
    while ways and len(tried) < MOST_TRIALS:
        choices = smaller(ways[0], asked, best.plan.graph)
        try:
            made = None if choices is None else made_of(choices)
        except CompileError as error:  # As too few multipliers for so many kernels.
            tried.append(f"{_told(choices)}: {error}")
            made = None
        if made is None or choices is None:
            ways.pop(0)
            continue
        if made.plan.infeasible is None:
            best = made
            break
        tried.append(_trial(choices, made.plan))
        if _needed(made.plan) < _needed(best.plan):
            best, asked = made, choices
        else:
            ways.pop(0)
    return Compiled(
        replace(best.plan, choices={**best.plan.choices, "tried": tried}), best.passes
    )  # fmt: skip


def _trial(choices: Choices, plan: Plan) -> str:
    """A design that did not fit, by the group that needs most."""
    unfit = [one for one in plan.groups if one.infeasible]
    worst = max(unfit, key=lambda one: one.memory_bytes or 0)
    return f"{_told(choices)}: {worst.infeasible}"


def _told(choices: Choices | None) -> str:
    assert choices is not None
    return f"budget {choices.budget:,}, tile {choices.tile}, unroll {choices.unroll}"


def _needed(plan: Plan) -> int:
    """Bytes of the group that takes most."""
    return max(one.memory_bytes or 0 for one in plan.groups)


def _compiled(
    graph: OperatorGraph,
    target: Machine,
    choices: Choices,
    order: OrderChoice,
    traces: Sequence[Trace] | None,
    *,
    fifo: Sizing,
    slowdown: float,
    shrink: bool,
    runs: int,
    predict: bool,
    placed: bool | None,
    guard: bool,
) -> Compiled:
    """One design, whether it fits or not."""
    if traces is not None and order == "fastest":
        order = "reductions_outermost"  # What is fastest depends on the routing of a run.
    ordered = in_order(graph, choices, order, target)
    design, passes = ordered.design, ordered.passes
    measured = profile(design, target) if traces is None else {}
    groups: list[GroupPlan] = []
    streams: dict[str, int] = {}
    for made in programs_of(design):
        prepared = prepare(made.program, target)
        bindings: Mapping[Any, Any] = {}
        if traces is None:
            plan = fifo_plan(design, made.group, measured, target)
            sized = GroupSizing(made, prepared, plan, slowdown).solved(
                fifo, shrink=shrink, runs=runs
            )
            streams |= sized.streams
            group = _group(made.group, plan if predict else None, sized)
        else:
            group, named, bindings = _traced(made, prepared, traces, target, slowdown, guard)
            streams |= named
        assert group.depths is not None
        needed, reason = excess_of(
            design, made, prepared, group.depths, bindings, budget=choices.budget,
            capacity=target.onchip.capacity_bytes,
        )  # fmt: skip
        groups.append(replace(group, memory_bytes=needed, infeasible=reason))
    told = {
        **{name: getattr(choices, name) for name in choices.__dataclass_fields__},
        "order": ordered.order, "orders_tried": ordered.tried or None,
        "slowdown": slowdown,
        **({"fifo": fifo, "shrink": shrink} if traces is None else {"guard": guard}),
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


def _traced(
    made: GroupProgram,
    prepared: Prepared,
    traces: Sequence[Trace],
    machine: Machine,
    slowdown: float,
    guard: bool,
) -> tuple[GroupPlan, dict[str, int], Mapping[Any, Any]]:
    """A group of a model with experts: the plan, depths between kernels, the slowest routing."""
    own, depths, streams = sized_group(made, traces, machine, slowdown=slowdown, guard=guard)
    size = sum(
        depths[fifo.name] * slot_bytes(fifo.stream.type)
        for fifo in prepared.wiring.fifos
        if fifo.name in depths
    )
    if not isinstance(own, TracedSizes):
        plan = GroupPlan(
            made.group, depths, size, None, own.unbounded_cycles[0], own.cycles[0], own.simulations
        )
        return plan, streams, {}
    cycles = own.sizes.cycles[: len(traces)]
    slowest = max(range(len(cycles)), key=cycles.__getitem__)
    plan = GroupPlan(
        made.group, depths, size, None, own.sizes.unbounded_cycles[slowest], cycles[slowest],
        own.sizes.simulations, routings=len(own.traces), guaranteed=own.guaranteed,
    )  # fmt: skip
    (name,) = made.routings
    return plan, streams, made.bindings({name: traces[slowest]})


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
    try:
        in_memory, allocations = place_in_memory(graph, device)
        passes = [Pass("place_in_memory", graph, in_memory)]
        on_dies = in_memory
        if device.dies > 1:
            on_dies = place_on_dies(in_memory, device)
            passes.append(Pass("place_on_dies", in_memory, on_dies))
    except CompileError as error:
        known = groups[0].infeasible
        reason = str(error) if known is None else f"{known}; {error}"
        return graph, [], [replace(groups[0], infeasible=reason), *groups[1:]]
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
        group, sized.depths, sized.fifo_bytes, None if plan is None else plan.cycles,
        sized.unbounded, sized.found.cycles[0], sized.found.simulations,
    )  # fmt: skip
