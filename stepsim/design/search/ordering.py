"""The order of loops that is fastest for a graph: every order is designed and simulated.

Reductions outermost, the order that the StreamTensor paper prints, makes a stage wait for all
tokens of a prompt. Whether tokens outermost or reductions innermost is faster depends on
the phase and the sizes, and a run of a design takes less time than an estimate is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from stepsim.design.choices import Choices, Order, OrderChoice
from stepsim.design.dataflow.graph import DataflowGraph
from stepsim.design.operators.graph import OperatorGraph
from stepsim.design.passes.pipeline import Pass, designed
from stepsim.design.programs.program import programs_of
from stepsim.errors import CompileError
from stepsim.machine import Machine
from stepsim.results import ENDED
from stepsim.simulation import Limits, prepare

_TRIED: tuple[Order, ...] = ("tokens_outermost", "reductions_innermost", "reductions_outermost")
"""Most often the fastest first, so that runs of the others end early."""

ALIKE = 0.01
"""Orders whose cycles differ by less than this fraction count as equally fast; the one with the
fewest bytes of converters is taken."""


@dataclass(frozen=True)
class Ordered:
    """A design in one order, and what was tried for it.

    Attributes
    ----------
    order : that the loops have, unless the design is streamed.
    tried : cycles with unbounded FIFOs, of each order where the fastest was to be found; None where
        the run was ended since another order is faster. Impossible orders are left out.
    """

    design: DataflowGraph
    passes: tuple[Pass, ...]
    order: OrderChoice
    tried: Mapping[Order, int | None]


def in_order(
    graph: OperatorGraph,
    choices: Choices,
    machine: Machine,
    report: Callable[[str], None] = lambda _: None,
) -> Ordered:
    """Kernels in groups, in the chosen order or the fastest one.

    Parameters
    ----------
    report : called with the order that is simulated next, in words.

    Raises
    ------
    CompileError : a pass rejects its options; for the fastest order, with every order.
    """
    if choices.order != "fastest" or choices.streamed is not None:
        return Ordered(*designed(graph, choices), choices.order, {})
    cycles: dict[Order, int | None] = {}
    best: Ordered | None = None
    fewest: int | None = None
    refused: CompileError | None = None
    for one in _TRIED:
        cycles[one] = None
        report(f"simulating the order {one}")
        try:
            made = Ordered(*designed(graph, replace(choices, order=one)), one, cycles)
            found = _cycles(made.design, machine, fewest)
        except CompileError as error:
            refused = error
            del cycles[one]
            continue
        cycles[one] = found
        if best is None or (found is not None and _better(found, made, fewest, best)):
            best = made
        if found is not None:
            fewest = found if fewest is None else min(fewest, found)
    if best is None:
        assert refused is not None  # every order was refused
        raise refused
    return best


def _better(found: int, made: Ordered, fewest: int | None, best: Ordered) -> bool:
    """Clearly faster than the best so far, or as fast as it with less memory."""
    assert best.order != "fastest"
    known = best.tried[best.order]
    if fewest is None or known is None or found * (1 + ALIKE) < known:
        return True
    return made.design.converter_bytes < best.design.converter_bytes


def _cycles(design: DataflowGraph, machine: Machine, fewest: int | None) -> int | None:
    """Of all groups with unbounded FIFOs; None where another order is faster."""
    total = 0
    for made in programs_of(design):
        prepared = prepare(made.program, machine)
        unbounded = prepared.changed(fifo_depths=dict.fromkeys(prepared.fifo_numbers))
        left = None if fewest is None else int(fewest * (1 + ALIKE)) - total
        if left is not None and left < 1:
            return None
        run = unbounded.run(limits=Limits(max_cycles=left))
        if run.status not in ENDED:
            return None
        total += run.cycles
    return total
