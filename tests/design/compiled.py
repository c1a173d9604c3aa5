"""Compiled graphs evaluated on tiles, group after group, and their cycles and FLOPs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as some

import stepsim as st
from stepsim.design import (
    DataflowGraph,
    OperatorGraph,
    fold_unit_dims,
    fuse_elementwise,
    fuse_kernels,
    kernels_of,
    permute,
    programs_of,
    share_converters,
    tile,
    unroll,
)
from stepsim.design.passes.fusion.grouping import REUSE_BYTES
from stepsim.simulation import run_functional

__all__ = ["drawn_schedule", "evaluated", "same_on_tiles", "simulated", "worst"]


def same_on_tiles(
    graph: OperatorGraph,
    values: Mapping[str, Any],
    size: int = 4,
    budget: int = 1 << 40,
    order: Any = "reductions_outermost",
    reuse_bytes: int = REUSE_BYTES,
) -> DataflowGraph:
    """The design of a graph, whose programs compute and count the same as the graph."""
    plain = fuse_elementwise(fold_unit_dims(graph))
    scheduled = permute(unroll(tile(plain, size), 4096), order)
    made = share_converters(kernels_of(scheduled))
    made = fuse_kernels(made, budget, reuse_bytes=reuse_bytes)
    assert worst(plain, evaluated(made, values), plain.evaluate(values)) < 1e-4
    assert simulated(made)[1] == plain.flops
    return made


def evaluated(graph: DataflowGraph, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of all tensors that the groups store, in float32."""
    known = dict(values)
    for group in programs_of(graph, values):
        result = run_functional(group.program, group.tensors(known), scalar="f32")
        known.update(group.results(result.stored))
    return known


def simulated(graph: DataflowGraph, machine: str = "sda-1024") -> tuple[int, int]:
    """Cycles and executed FLOPs of all groups."""
    cycles = flops = 0
    for group in programs_of(graph):
        result = st.simulate(group.program, machine=machine)
        assert result.status == "ok", str(result)
        cycles, flops = cycles + result.cycles, flops + result.flops
    return cycles, flops


def worst(graph: OperatorGraph, found: Mapping[str, Any], expected: Mapping[str, Any]) -> float:
    """The largest error of an output, against the largest value of it."""
    errors = []
    for name in graph.outputs:
        scale = max(1.0, float(np.abs(expected[name]).max(initial=0)))
        errors.append(float(np.abs(found[name] - expected[name]).max(initial=0)) / scale)
    return max(errors)


def drawn_schedule(draw: Any, graph: OperatorGraph) -> OperatorGraph:
    """Random tiles, among those that an operator can have, and random orders of its loops."""
    largest = tile(graph, 1 << 20)
    tiles: dict[str, dict[str, int]] = {}
    orders = {}
    for op in largest.ops:
        assert op.tiling is not None
        tiles[op.name] = {}
        for dim, most in op.tiling.tile.items():
            divisors = [n for n in range(1, most + 1) if most % n == 0]
            whole = op.kind == "rotary" and dim in ("t", "p")
            if not whole:
                tiles[op.name][dim] = draw(some.sampled_from(divisors))
        order = draw(some.permutations([dim.name for dim in op.dims]))
        orders[op.name] = sorted(order, key=lambda dim: dim == op.attributes.get("along"))
    return permute(tile(graph, 1 << 20, tiles), orders=orders)
