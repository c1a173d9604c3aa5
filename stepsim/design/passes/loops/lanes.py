"""Multipliers by the part of a block that a product belongs to: the pass ``network_lanes``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from stepsim.arguments import is_whole, shown
from stepsim.design.operators.graph import Op, OperatorGraph
from stepsim.design.passes.loops.unrolling import Unrollable, heap_skip
from stepsim.errors import CompileError

NETWORK = "network"
"""The products of the feed-forward network."""


def stage_of(op: Op) -> str:
    """The part of a block that a product belongs to; ``others`` for any other operator."""
    if not op.is_matmul:
        return "others"
    if op.name.startswith("mlp."):
        return NETWORK
    return "attention" if ".sdpa." in op.name else "projections"


def with_lanes(graph: OperatorGraph, lanes: Mapping[str, int]) -> OperatorGraph:
    """A tiled graph whose operators are unrolled by a power of two up to what is stated.

    Raises
    ------
    CompileError : an operator has no tiles, or its lanes are not a whole number from 1.
    """
    ops = []
    for op in graph.ops:
        most = lanes.get(op.name)
        if op.tiling is None:
            raise CompileError(f"with_lanes: {op.title()} has no tiles; tile the graph first")
        if most is None or not is_whole(most) or most < 1:
            raise CompileError(
                f"with_lanes: lanes of {op.title()}: expected a whole number from 1, found "
                f"{shown(most)}"
            )
        fit = min(int(most), prod(op.tiling.tile.values()))
        ops.append(replace(op, tiling=replace(op.tiling, unroll=1 << (fit.bit_length() - 1))))
    return graph.replaced(ops=tuple(ops))


def network_lanes(graph: OperatorGraph, each: int, budget: int) -> OperatorGraph:
    """Every product of the feed-forward network gets ``each`` multipliers, and the other operators
    share the rest of ``budget``.

    The slowest of the others gets more until the budget is used up or it has a multiplier for each
    point of a tile; see :func:`stepsim.design.passes.loops.unrolling.heap_skip`.

    Raises
    ------
    CompileError : an operator has no tiles, there is no such network, or the budget is too small.
    """
    fixed = {op.name: each for op in graph.ops if stage_of(op) == NETWORK}
    if not fixed:
        raise CompileError(
            f"network_lanes: {graph.name} has no products whose names begin with 'mlp.'; leave "
            "network_lanes out"
        )
    free = [op for op in graph.ops if op.name not in fixed]
    kernels = []
    for op in free:
        if op.tiling is None:
            raise CompileError(f"network_lanes: {op.title()} has no tiles; tile the graph first")
        points = prod(op.tiling.tile.values())
        factors = tuple(1 << i for i in range(points.bit_length()))
        kernels.append(Unrollable(op.iterations, factors, name=op.name))
    found = heap_skip(kernels, budget - sum(fixed.values()))
    lanes = {**fixed, **dict(zip((op.name for op in free), found.factors, strict=True))}
    return with_lanes(graph, lanes)
