"""``compile``: from a model to a sized, simulated dataflow design."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stepsim._version import MODEL_VERSION, __version__
from stepsim.arguments import flag, shown
from stepsim.design.choices import Choices
from stepsim.design.configs import config_of
from stepsim.design.dataflow.graph import DataflowGraph
from stepsim.design.operators.checks import check_loads
from stepsim.design.operators.graph import OperatorGraph
from stepsim.design.operators.models.sources import configured, source_of
from stepsim.design.operators.routed import ROUTED
from stepsim.design.passes.memory.placement import place_in_memory, place_on_dies
from stepsim.design.passes.pipeline import Pass
from stepsim.design.plan.compiled import Compiled
from stepsim.design.plan.plan import GroupPlan, Plan, operators_digest
from stepsim.design.programs.group_program import GroupProgram, fifos_of
from stepsim.design.programs.program import programs_of
from stepsim.design.search.effort import Effort
from stepsim.design.search.fifo_planning import fifo_plan, with_stream_depths
from stepsim.design.search.fitting import Design, cut_text, excess_of, fitted, room_of
from stepsim.design.search.group_sizing import GroupSizing
from stepsim.design.search.ordering import in_order
from stepsim.design.search.profiling import profile
from stepsim.design.search.routed_sizing import (
    Trace,
    TracedSizes,
    depths_of,
    size_over_traces,
    traces_of,
)
from stepsim.errors import ArgError, CompileError
from stepsim.machine import Machine
from stepsim.simulation import Prepared, prepare
from stepsim.sizing import sized, slot_bytes
from stepsim.trace_io import RoutingTable
from stepsim.workloads import fields_of, machine_of, new_name


def compile(
    model: Any,
    machine: Machine | str = "u55c",
    *,
    choices: Choices | None = None,
    config: str | None = None,
    traces: Iterable[Any] | RoutingTable | None = None,
    keep_going: bool = False,
    progress: Callable[[str], None] | None = None,
    **named: Any,
) -> Compiled:
    """Compile a model for a machine: kernels, groups, loads and stores, FIFOs, all simulated.

    Kernels are tiled, unrolled, ordered, grouped so that the converters of a group fit the budget,
    and measured in isolation. A linear program over their start times gives FIFO depths, which runs
    of the whole program repair and shrink (StreamTensor, arXiv 2509.13694).

    A design that does not fit the on-chip memory or the device of the machine is compiled again
    with less, unless ``fit`` is False: half the converters of a group, half the tile, half the
    multipliers, each as long as that saves memory (:data:`stepsim.design.search.fitting.WAYS`), for
    at most :data:`MOST_TRIALS` designs. ``plan.choices["tried"]`` lists the designs that did not
    fit, with the reasons. If no design fits, the plan is the one that needs least, with the status
    ``infeasible``. A model with experts is compiled once: its FIFOs for the declared maximum take
    the same bytes with any tile.

    Parameters
    ----------
    model : an operator graph; the name of a model, as ``gpt2-medium``; of PyTorch ``(module,
        arguments)`` or an exported program; or an ONNX model or file.
    machine : a machine, its name or its file.
    choices : the options of the design.
    config : name of a configuration of :data:`stepsim.design.CONFIGS`, whose choices hold instead,
        and whose cache a model in decoding has.
    traces : of a model with experts, the routings over which FIFOs are sized; see
        :func:`stepsim.design.size_over_traces`. Its kernels are not measured alone.
    keep_going : turn unknown operators of an imported model into opaque kernels.
    progress : called at every step with a sentence about it.
    named : fields of :class:`stepsim.design.Choices`, such as ``tile=32``, which replace those of
        ``choices``; and sizes of a named model: phase, tokens, context, batch, hidden, ...

    Raises
    ------
    CompileError : the model is unknown, or a pass rejects it; the message names the operator.
    ArgError : a choice or a size is unknown or out of range.
    MachineError : the machine is unknown or invalid.
    """
    target = machine_of(machine)
    keep_going = flag("compile: keep_going", keep_going)
    if progress is not None and not callable(progress):
        raise ArgError(f"compile: progress must be a function of a text, found {shown(progress)}")
    published = None if config is None else config_of(config, target)
    if published is not None and choices is not None:
        raise ArgError("compile: config and choices both state all options; give one of them")
    asked, sizes = _choices_of(choices if published is None else published.choices, named)
    source = source_of(model, target, sizes, keep_going=keep_going, choices=fields_of(Choices))
    if published is not None:
        source = configured(source, published, target)
    graph = source.graph
    check_loads(graph)
    routed = any(op.kind in ROUTED for op in graph.ops)
    if routed and traces is None:
        raise CompileError(
            f"compile: {graph.name} has experts, whose FIFOs are sized over routings; give traces="
            " (--routing FILE)"
        )
    if not routed and traces is not None:
        raise CompileError(f"compile: {graph.name} has no experts; leave traces out")
    _refuse_idle(asked, graph.name, routed=routed)
    first = replace(
        asked,
        budget=_budget(target) if asked.budget is None else asked.budget,
        # The fastest order depends on the routing of a run.
        order="reductions_outermost" if routed and asked.order == "fastest" else asked.order,
    )
    given = None if traces is None else traces_of(traces)

    effort = Effort(asked.effort)

    def made_of(choices: Choices, number: int) -> Design:
        def report(text: str) -> None:
            if progress is not None:
                progress(f"design {number}: {text}")

        return _compiled(graph, target, choices, given, effort, report)

    made = made_of(first, 1)
    if made.plan.infeasible is not None and first.fit and not routed:
        made = fitted(made, first, made_of, effort)
    plan = made.plan
    if effort.unsearched:
        plan = replace(plan, choices={**plan.choices, "unsearched": list(effort.unsearched)})
    return Compiled(plan, made.passes, source, made.choices)


def _choices_of(choices: Any, named: Mapping[str, Any]) -> tuple[Choices, dict[str, Any]]:
    """The choices with those that are given by name, and the other arguments."""
    if choices is not None and not isinstance(choices, Choices):
        raise ArgError(
            f"compile: choices: expected stepsim.design.Choices, found {shown(choices)}; give "
            "single choices by name, as in tile=32"
        )
    known = fields_of(Choices)
    for name in named:
        now = new_name(known, name)
        if now is not None:
            raise ArgError(f"compile: there is no argument '{name}'; it is now called '{now}'")
    own = {name: value for name, value in named.items() if name in known}
    sizes = {name: value for name, value in named.items() if name not in known}
    return replace(choices or Choices(), **own), sizes


_OF_EXPERTS, _OF_OTHERS = ("guard",), ("sizing", "shrink", "runs", "effort", "predict", "fit")
"""Choices that have an effect only with experts, and only without them."""


def _refuse_idle(choices: Choices, model: str, *, routed: bool) -> None:
    """Refuse choices that have no effect on this model."""
    why = "experts, on whose designs it has no effect" if routed else "no experts"
    for name in _OF_OTHERS if routed else _OF_EXPERTS:
        value = getattr(choices, name)
        if value != getattr(Choices, name):
            raise CompileError(
                f"compile: {name} is {shown(value)}, but {model} has {why}; leave {name} out"
            )


def _compiled(
    graph: OperatorGraph,
    target: Machine,
    choices: Choices,
    traces: Sequence[Trace] | None,
    effort: Effort,
    report: Callable[[str], None],
) -> Design:
    """One design, whether it fits or not."""
    ordered = in_order(graph, choices, target, report)
    design, passes = ordered.design, ordered.passes
    report("simulating its kernels alone")
    measured = profile(design, target) if traces is None else {}
    steps = 0
    groups: list[GroupPlan] = []
    streams: dict[str, int] = {}
    cut: list[str] = []
    programs = programs_of(design)
    for made in programs:
        title = f"group {len(groups) + 1} of {len(programs)}"
        report(f"{title}: simulating it with unbounded FIFOs")
        prepared = prepare(made.program, target)
        bindings: Mapping[Any, Any] = {}
        if traces is None:
            plan = fifo_plan(design, made.group, measured, target)
            room = room_of(made, target)
            sizing = GroupSizing(
                made, prepared, plan, choices.max_slowdown,
                timetables=choices.sizing == "recorded", room=room,
            )  # fmt: skip
            left = len(programs) - len(groups)
            runs = effort.runs(choices.runs, sizing.runs.steps, left)
            report(f"{title}: sizing FIFOs, shrunk by up to {runs if choices.shrink else 0} runs")
            found = sizing.solved(choices.sizing, shrink=choices.shrink, runs=runs, room=room)
            if choices.fit and room is not None and found.fifo_bytes > room:
                report(f"{title}: cutting FIFOs to {room:,} bytes")
                smaller = sizing.cut(found, room)
                if smaller is not None:
                    cut.append(cut_text(made.group, found, smaller, choices.max_slowdown))
                    found = smaller
            effort.spend(found.found.simulations, sizing.runs.steps)
            steps += sizing.runs.steps
            if runs < choices.runs and choices.shrink and not found.found.complete:
                effort.leave(
                    f"FIFOs of group {made.group} are shrunk by {runs} runs, not {choices.runs}: "
                    "they may be smaller"
                )
            streams |= found.streams
            group = GroupPlan(
                made.group, found.depths, found.fifo_bytes,
                plan.cycles if choices.predict else None,
                found.unbounded, found.found.cycles[0], found.found.simulations,
            )  # fmt: skip
        elif made.routings:
            report(f"{title}: sizing FIFOs over {len(traces)} routings")
            traced = size_over_traces(
                made, traces, target, slowdown=choices.max_slowdown, guard=choices.guard
            )
            streams |= traced.streams
            group, bindings = _traced(made, prepared, traced, traces)
        else:
            group, named = _without_experts(made, prepared, choices.max_slowdown)
            streams |= named
        assert group.depths is not None
        assert choices.budget is not None  # the machine's, if none was asked for
        needed, reason = excess_of(
            design, made, prepared, group.depths, bindings, budget=choices.budget,
            capacity=target.onchip.capacity_bytes,
        )  # fmt: skip
        groups.append(replace(group, memory_bytes=needed, infeasible=reason))
    chosen = replace(choices, order=ordered.order).recorded(experts=traces is not None)
    if ordered.tried:
        chosen["orders_tried"] = ordered.tried
    if cut:
        chosen["cut"] = cut
    made_with = {
        "stepsim_version": __version__,
        "model_version": str(MODEL_VERSION),
        "model_digest": operators_digest(graph),
    }
    report("placing its buffers and kernels")
    design, more, groups = _placed(
        with_stream_depths(design, streams), groups, target, choices.placed
    )
    made_plan = Plan(design, target, chosen, tuple(groups), measured, made_with)
    return Design(made_plan, (*passes, *more), steps, replace(choices, order=ordered.order))


def _traced(
    made: GroupProgram, prepared: Prepared, found: TracedSizes, traces: Sequence[Trace]
) -> tuple[GroupPlan, Mapping[Any, Any]]:
    """A group that has experts, and the routing that was given with which it is slowest."""
    cycles = found.sizes.cycles[: len(traces)]
    slowest = max(range(len(cycles)), key=cycles.__getitem__)
    plan = GroupPlan(
        made.group, found.depths, _fifo_bytes(prepared, found.depths), None,
        found.sizes.unbounded_cycles[slowest], cycles[slowest], found.sizes.simulations,
        routings=len(found.traces), guaranteed=found.guaranteed,
    )  # fmt: skip
    (name,) = made.routings
    return plan, made.bindings({name: traces[slowest]})


def _without_experts(
    made: GroupProgram, prepared: Prepared, slowdown: float
) -> tuple[GroupPlan, dict[str, int]]:
    """A group without experts of a design that has some, and depths between its kernels."""
    found = sized(prepared, slowdown=slowdown, stated=True)
    depths = depths_of(found)
    plan = GroupPlan(
        made.group, depths, _fifo_bytes(prepared, depths), None,
        found.unbounded_cycles[0], found.cycles[0], found.simulations,
    )  # fmt: skip
    fifos = fifos_of(made.streams, prepared.wiring)
    return plan, {name: depths[fifo] for name, fifo in fifos.items()}


def _fifo_bytes(prepared: Prepared, depths: Mapping[str, int]) -> int:
    return sum(
        depths[fifo.name] * slot_bytes(fifo.stream.type)
        for fifo in prepared.wiring.fifos
        if fifo.name in depths
    )


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
        reason = f"{error}; placed=False (--no-placed) leaves the placement on the device out"
        reason = reason if known is None else f"{known}; {reason}"
        return graph, [], [replace(groups[0], infeasible=reason), *groups[1:]]
    texts = [
        replace(group, blocks=dict(found.used))
        for group, found in zip(groups, allocations, strict=True)
    ]
    return on_dies, passes, texts


def _budget(machine: Machine) -> int:
    if machine.onchip.capacity_bytes is None:
        raise CompileError(
            f"compile: machine {machine.name} does not state onchip.capacity_bytes; give the bytes "
            "of on-chip memory as budget (--budget)"
        )
    return machine.onchip.capacity_bytes
