"""``BlockDesign``: a block as a pipeline of stages, and its cycles.

Tokens stream through the stages (:func:`stepsim.design.stream_tokens`), weights are packed and stay
on chip for a run of the block, and every stage has its own number of multipliers. Cycles are those
of a simulation of the full-size block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Literal

from stepsim.design import (
    DataflowGraph,
    Op,
    OperatorGraph,
    Phase,
    Unrollable,
    block,
    fold_unit_dims,
    fuse_elementwise,
    fuse_kernels,
    heap_skip,
    kernels_of,
    programs_of,
    share_converters,
    stream_tokens,
    widen,
)
from stepsim.design.passes.memory.dma import pack
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


def stage_of(op: Op) -> str:
    """The part of a block that a product belongs to; ``others`` for any other operator."""
    if not op.is_matmul:
        return "others"
    if op.name.startswith("mlp."):
        return "network"
    return "attention" if ".sdpa." in op.name else "projections"


def with_lanes(graph: OperatorGraph, lanes: Mapping[str, int]) -> OperatorGraph:
    """A tiled graph whose operators are unrolled by a power of two up to what is stated.

    Raises
    ------
    CompileError : an operator has no tiles, or a number of lanes below 1.
    """
    ops = []
    for op in graph.ops:
        most = lanes.get(op.name, 0)
        if op.tiling is None or most < 1:
            raise CompileError(f"with_lanes: {op.title()} has no tiles or no number of lanes")
        fit = min(most, prod(op.tiling.tile.values()))
        ops.append(replace(op, tiling=replace(op.tiling, unroll=1 << (fit.bit_length() - 1))))
    return graph.replaced(ops=tuple(ops))


def lanes_by_heap(graph: OperatorGraph, fixed: Mapping[str, int], budget: int) -> dict[str, int]:
    """Multipliers of all operators: some are stated, the others share the rest of a budget.

    The slowest operator gets more until the budget is used up or it has a multiplier for each point
    of a tile; see :func:`stepsim.design.passes.loops.unrolling.heap_skip`.

    Raises
    ------
    CompileError : an operator has no tiles, or the budget is too small.
    """
    free = [op for op in graph.ops if op.name not in fixed]
    kernels = []
    for op in free:
        if op.tiling is None:
            raise CompileError(f"lanes_by_heap: {op.title()} has no tiles; tile the graph first")
        points = prod(op.tiling.tile.values())
        factors = tuple(1 << i for i in range(points.bit_length()))
        kernels.append(Unrollable(op.iterations, factors, name=op.name))
    found = heap_skip(kernels, budget - sum(fixed.values()))
    return {**fixed, **dict(zip((op.name for op in free), found.factors, strict=True))}


@dataclass(frozen=True, slots=True)
class BlockDesign:
    """The parameters that turn a block of a model into stages.

    Attributes
    ----------
    lanes : a split, or the multipliers of each product of the network and the total budget, from
        which a heap assigns those of the other operators.
    size, rows, heads : tiles and order, see :func:`stepsim.design.stream_tokens`.
    kept_bytes : most bytes of a weight that stays on chip in a run, both buffer halves included.
    burst_bytes : bytes that a load of packed weights requests at a time.
    """

    model: str
    lanes: LaneSplit | tuple[int, int]
    size: int = 64
    rows: int = 8
    heads: Literal["outside", "inside"] = "inside"
    kept_bytes: int = 8 << 20
    burst_bytes: int = 1 << 16
    machine: str = "u55c"

    def operators(self, phase: Phase, tokens: int, context: int | None = None) -> OperatorGraph:
        """The block, tiled, ordered and unrolled."""
        graph = fuse_elementwise(fold_unit_dims(block(self.model, phase, tokens, context)))
        tiled = stream_tokens(graph, self.size, self.rows, self.heads)
        if isinstance(self.lanes, LaneSplit):
            return with_lanes(tiled, {op.name: self.lanes.of(op) for op in tiled.ops})
        network, budget = self.lanes
        fixed = {op.name: network for op in tiled.ops if stage_of(op) == "network"}
        return with_lanes(tiled, lanes_by_heap(tiled, fixed, budget))

    def dataflow(self, phase: Phase, tokens: int, context: int | None = None) -> DataflowGraph:
        """The kernels, in one group if they fit on the chip."""
        target = machine_of(self.machine)
        budget = target.onchip.capacity_bytes
        if budget is None:
            raise CompileError(
                f"BlockDesign: machine {target.name} does not state onchip.capacity_bytes"
            )
        made = share_converters(kernels_of(self.operators(phase, tokens, context)))
        fused = fuse_kernels(made, budget, reuse_bytes=self.kept_bytes)
        return widen(pack(fused, self.burst_bytes))

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
