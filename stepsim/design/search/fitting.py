"""Whether a group fits on the chip, and how a design that does not fit is reduced."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stepsim.design.choices import Choices
from stepsim.design.dataflow.graph import DataflowGraph
from stepsim.design.passes.pipeline import Pass
from stepsim.design.plan.plan import GroupPlan, Plan
from stepsim.design.programs.group_program import GroupProgram
from stepsim.design.search.effort import Effort
from stepsim.design.search.group_sizing import SizedGroup
from stepsim.errors import CompileError
from stepsim.machine import Machine
from stepsim.simulation import Prepared
from stepsim.sizing import slot_bytes

MOST_TRIALS = 6
"""Most designs that are compiled to find one that fits."""

FILLED = 0.75
"""Share of the memory of a device that FIFOs and buffers can fill, as each takes whole blocks."""

WAYS = ("budget", "tile", "unroll")
"""What is reduced, in this order: the memory of a group, tiles, multipliers. Each is halved as long
as that saves memory, which smaller tiles need not do."""


@dataclass(frozen=True, slots=True)
class Design:
    """A plan, the passes that led to it, the engine steps of a run of all its groups, and what it
    was made of."""

    plan: Plan
    passes: tuple[Pass, ...]
    steps: int
    choices: Choices


def fitted(
    best: Design, asked: Choices, made_of: Callable[[Choices, int], Design], effort: Effort
) -> Design:
    """A smaller design in place of one that does not fit, or else the one that needs least.

    Parameters
    ----------
    made_of : makes a design of choices; the number of the design is for reports.
    """
    tried = [_trial(asked, best.plan)]
    ways = list(WAYS)
    while ways and len(tried) < MOST_TRIALS:
        if not effort.allows(best.steps):
            effort.leave(f"designs with a smaller {', '.join(ways)} are not tried: they may fit")
            break
        choices = smaller(ways[0], asked, best.plan.graph)
        try:
            made = None if choices is None else made_of(choices, len(tried) + 1)
        except CompileError as error:  # Such as too few multipliers for the kernels.
            tried.append(f"{_tiling_text(choices)}: {error}")
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
    plan = replace(best.plan, choices={**best.plan.choices, "tried": tried})
    if plan.infeasible is not None:
        plan = replace(plan, groups=_with_ways_out(plan))
    return replace(best, plan=plan)


def _with_ways_out(plan: Plan) -> tuple[GroupPlan, ...]:
    """Groups, of which the first that does not fit says what to change."""
    groups = list(plan.groups)
    number, worst = next((n, one) for n, one in enumerate(groups) if one.infeasible)
    least = _needed(plan)
    text = (
        f"{worst.infeasible}; this is the design of those tried that needs least, {least:,} bytes "
        f"on chip; give another tile (now {plan.choices['tile']}), a smaller budget, narrow "
        "vectors where FIFOs are wide, or a machine with more memory"
    )
    groups[number] = replace(worst, infeasible=text)
    return tuple(groups)


def _trial(choices: Choices, plan: Plan) -> str:
    """A design that did not fit, by the group that needs most."""
    unfit = [one for one in plan.groups if one.infeasible]
    worst = max(unfit, key=lambda one: one.memory_bytes or 0)
    return f"{_tiling_text(choices)}: {worst.infeasible}"


def _tiling_text(choices: Choices | None) -> str:
    assert choices is not None
    return f"budget {choices.budget:,}, tile {choices.tile}, unroll {choices.unroll}"


def _needed(plan: Plan) -> int:
    """Bytes of the group that takes most."""
    return max(one.memory_bytes or 0 for one in plan.groups)


def room_of(made: GroupProgram, machine: Machine) -> int | None:
    """Bytes that the buffers of a group leave for its FIFOs; None where a machine has any number.

    On a device, memory is taken in whole blocks, of which FIFOs and buffers fill a part. The group
    has no experts, so that its buffers do not depend on a run.
    """
    capacity = machine.onchip.capacity_bytes
    if capacity is None:
        return None
    usable = capacity if machine.device is None else int(capacity * FILLED)
    return max(0, usable - _buffers(made, {}))


def cut_text(group: int, before: SizedGroup, after: SizedGroup, slowdown: float) -> str:
    """What a group would need to be as fast as asked, and what it takes with less memory."""
    was, now = before.found.cycles[0], after.found.cycles[0]
    return (
        f"FIFOs of group {group} need {before.fifo_bytes:,} bytes for a slowdown of {slowdown}, "
        f"{was:,} cycles; with loads that hold less ahead they take {after.fifo_bytes:,} bytes, "
        f"and the group {now:,} cycles, {now / was:.2f} times as many"
    )


def _buffers(made: GroupProgram, bindings: Mapping[Any, Any]) -> int:
    """Bytes of loads and converters, and of what kernels keep, by the formulas of the program."""
    return made.program.metrics(counting="executed").bind(bindings).on_chip_memory


def excess_of(
    design: DataflowGraph,
    made: GroupProgram,
    prepared: Prepared,
    depths: Mapping[str, int],
    bindings: Mapping[Any, Any],
    *,
    budget: int,
    capacity: int | None,
) -> tuple[int, str | None]:
    """Bytes of a group on the chip, and why they do not fit, with what takes most.

    On chip are all FIFOs, and what the operators need by the formulas of their programs: buffers of
    loads and converters, and what kernels keep.

    Parameters
    ----------
    depths : of all FIFOs of its program, by name.
    bindings : routings of the run for which sizes are counted.
    budget : bytes for its converters, to which groups are held by fusion, except where streams
        that a routing decides do not let it cut them.
    capacity : bytes of on-chip memory of the machine; None is any.
    """
    converters = design.converter_bytes_of(made.group)
    sizes = {
        fifo.name: depths.get(fifo.name, 0) * slot_bytes(fifo.stream.type)
        for fifo in prepared.wiring.fifos
    }
    fifos = sum(sizes.values())
    operators = _buffers(made, bindings)
    needed = fifos + operators
    if converters > budget:
        excess = f"{converters:,} bytes of converters, the budget is {budget:,}"
        return needed, f"group {made.group} has {excess}"
    if capacity is None or needed <= capacity:
        return needed, None
    kinds: Counter[str] = Counter()
    for name, size in sizes.items():
        kinds[re.sub(r"\d+", "#", name)] += size
    largest = ", ".join(f"'{name}' {size:,}" for name, size in kinds.most_common(3))
    return needed, (
        f"group {made.group} needs {needed:,} bytes on chip, the machine has "
        f"{capacity:,}: {fifos:,} of FIFOs (most in {largest}) and {operators:,} of buffers"
    )


def smaller(what: str, choices: Choices, graph: DataflowGraph) -> Choices | None:
    """A design with less of one of :data:`WAYS`; None where there is nothing left to take.

    Parameters
    ----------
    graph : the design that does not fit.
    """
    if what == "tile":
        return replace(choices, tile=choices.tile // 2) if choices.tile > 1 else None
    if what == "unroll":
        return replace(choices, unroll=choices.unroll // 2) if choices.unroll > 1 else None
    most = max(graph.converter_bytes_of(kernels[0].group) for kernels in graph.groups)
    return replace(choices, budget=most // 2) if most > 1 else None
