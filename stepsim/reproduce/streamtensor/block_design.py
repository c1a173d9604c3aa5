"""``BlockDesign``: a block as a pipeline of stages, and its cycles.

Tokens stream through the stages (:func:`stepsim.design.stream_tokens`), weights are packed and stay
on chip for a run of the block, and every stage has its own number of multipliers. Cycles are those
of a simulation of the full-size block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from stepsim.design import (
    Choices,
    DataflowGraph,
    Op,
    Phase,
    block,
    designed,
    programs_of,
    stage_of,
)
from stepsim.errors import CompileError
from stepsim.machine import Machine
from stepsim.results import ENDED
from stepsim.simulation import prepare
from stepsim.workloads import machine_of


@dataclass(frozen=True, slots=True)
class LaneSplit:
    """Multipliers of every stage, at most those of a tile.

    Attributes
    ----------
    network : each product of the feed-forward network.
    projections : each product that makes queries, keys, values, and what leaves attention.
    attention : both products of queries with keys and of scores with values.
    others : every operator that is not a product.
    """

    network: int
    projections: int
    attention: int
    others: int = 64

    def of(self, op: Op) -> int:
        """Multipliers of an operator."""
        return {
            "network": self.network, "projections": self.projections, "attention": self.attention,
        }.get(stage_of(op), self.others)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BlockDesign:
    """The choices that turn a block of a model into stages.

    Attributes
    ----------
    choices : of a streamed design.
    split : multipliers of every stage, in place of those of the choices.
    """

    model: str
    choices: Choices
    split: LaneSplit | None = None
    machine: str = "u55c"

    def dataflow(self, phase: Phase, tokens: int, context: int | None = None) -> DataflowGraph:
        """The kernels, in one group if they fit on the chip."""
        budget = self.target.onchip.capacity_bytes
        if budget is None:
            raise CompileError(
                f"BlockDesign: machine {self.machine} does not state onchip.capacity_bytes"
            )
        graph = block(self.model, phase, tokens, context)
        choices = replace(self.choices, budget=budget)
        return designed(graph, choices, None if self.split is None else self.split.of)[0]

    def cycles(self, phase: Phase, tokens: int, context: int | None = None) -> int:
        """Cycles of one run of the block with FIFOs in which no token waits for room.

        Raises
        ------
        CompileError : the run is not ok.
        """
        return _cycles(self, phase, tokens, context)

    def milliseconds(self, phase: Phase, tokens: int, context: int | None = None) -> float:
        """Milliseconds of one run of the block, by the clock of the machine."""
        found = self.target.milliseconds(self.cycles(phase, tokens, context))
        if found is None:
            raise CompileError(f"BlockDesign: machine {self.machine} states no clock")
        return found

    @property
    def target(self) -> Machine:
        return machine_of(self.machine)


@lru_cache(maxsize=1024)
def _cycles(design: BlockDesign, phase: Phase, tokens: int, context: int | None) -> int:
    total = 0
    for group in programs_of(design.dataflow(phase, tokens, context)):
        result = prepare(group.program, design.target).run()
        if result.status not in ENDED:
            raise CompileError(f"BlockDesign: {group.program.name} ends with {result.status}")
        total += result.cycles
    return total
