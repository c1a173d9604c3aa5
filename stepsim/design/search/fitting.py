"""Whether a group fits on the chip, and how a design that does not fit is reduced."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stepsim.design.choices import Choices
from stepsim.design.dataflow.graph import DataflowGraph
from stepsim.design.programs.group_program import GroupProgram
from stepsim.simulation import Prepared
from stepsim.sizing import slot_bytes

MOST_TRIALS = 6
"""Most designs that are compiled to find one that fits."""

WAYS = ("budget", "tile", "unroll")
"""What is reduced, in this order: the memory of a group, tiles, multipliers. Each is halved as long
as that saves memory, which smaller tiles need not do."""


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
    operators = made.program.metrics(counting="executed").bind(bindings).on_chip_memory
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
