"""The passes in their order, from an operator graph to groups of kernels: ``designed``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stepsim.design.choices import Choices
from stepsim.design.dataflow.graph import DataflowGraph
from stepsim.design.dataflow.kernels import kernels_of
from stepsim.design.operators.graph import Op, OperatorGraph
from stepsim.design.passes.fusion.grouping import fuse_kernels, share_converters
from stepsim.design.passes.graph_passes import fold_unit_dims, fuse_elementwise
from stepsim.design.passes.loops.lanes import network_lanes, with_lanes
from stepsim.design.passes.loops.streaming import stream_tokens
from stepsim.design.passes.loops.tiling import permute, single_dims, tile, unroll
from stepsim.design.passes.memory.dma import pack, widen
from stepsim.design.passes.memory.fifos import fold_buffers, vectorize_fifos
from stepsim.errors import CompileError
from stepsim.typed import typed


@dataclass(frozen=True, slots=True)
class Pass:
    """A step from graph to graph: ``before`` and ``after`` print with ``text()``."""

    name: str
    before: OperatorGraph | DataflowGraph
    after: OperatorGraph | DataflowGraph

    @property
    def is_idle(self) -> bool:
        """Whether it changed nothing."""
        return self.before == self.after


@typed
def designed(
    graph: OperatorGraph, choices: Choices, lanes: Callable[[Op], int] | None = None
) -> tuple[DataflowGraph, tuple[Pass, ...]]:
    """Kernels in groups with loads and stores, without depths of FIFOs, and the passes in order.

    Parameters
    ----------
    lanes : multipliers of an operator, in place of those that the choices give it.

    Raises
    ------
    CompileError : a pass rejects a choice; the message starts with the name of the pass.
    """
    if choices.budget is None or (choices.order == "fastest" and choices.streamed is None):
        found = "no budget" if choices.budget is None else "the order 'fastest'"
        raise CompileError(
            f"designed: expected a budget and the name of an order, found {found}; give both, or "
            "use stepsim.compile, which finds them for a machine"
        )
    taken: list[Pass] = []

    def run(name: str, step: Callable[..., Any], given: Any, *arguments: Any, **named: Any) -> Any:
        made = step(given, *arguments, **named)
        taken.append(Pass(name, given, made))
        return made

    level1 = run("fold_unit_dims", fold_unit_dims, graph)
    level1 = run("fuse_elementwise", fuse_elementwise, level1)
    if choices.streamed is not None:
        rows = choices.tile if choices.rows is None else choices.rows
        level1 = run("stream_tokens", stream_tokens, level1, choices.tile, rows, choices.streamed)
    else:
        level1 = run("tile", tile, level1, choices.tile, _with_wide_copies(level1, choices.tiles))
    if lanes is not None:
        every = {op.name: lanes(op) for op in level1.ops}
        level1 = run("with_lanes", with_lanes, level1, every)
    elif choices.network_lanes is not None:
        level1 = run("network_lanes", network_lanes, level1, choices.network_lanes, choices.unroll)
    else:
        level1 = run("unroll", unroll, level1, choices.unroll, choices.unrolling)
    if choices.streamed is None:
        level1 = run("permute", permute, level1, choices.order, choices.orders)
    level2 = run("kernels_of", kernels_of, level1)
    level2 = run("share_converters", share_converters, level2)
    reuse = {} if choices.reuse_bytes is None else {"reuse_bytes": choices.reuse_bytes}
    level2 = run("fuse_kernels", fuse_kernels, level2, choices.budget, choices.fusion, **reuse)
    if choices.packed and any(dma.direction == "load" for dma in level2.dmas):
        burst = {} if choices.burst_bytes is None else {"burst_bytes": choices.burst_bytes}
        level2 = run("pack", pack, level2, **burst)
        if any(dma.packed for dma in level2.dmas):
            level2 = run("widen", widen, level2)
    if choices.folded:
        level2 = run("fold_buffers", fold_buffers, level2)
    if choices.vectors != "tile":
        stated = None if choices.vectors == "narrow" else choices.vectors
        level2 = run("vectorize_fifos", vectorize_fifos, level2, stated)
    return level2, tuple(taken)


_WIDE = 4096
"""Elements of the widest tile of a copy."""


def _with_wide_copies(
    graph: OperatorGraph, stated: Mapping[str, Mapping[str, int]] | None
) -> dict[str, Mapping[str, int]]:
    """Tiles that are stated, and whole rows for the appending of rows to a cache.

    It computes nothing, so that its tiles need not be those of a product, and a cache is read row
    by row: with whole rows a load waits for the memory once for each.
    """
    tiles = dict(stated or {})
    for op in graph.ops:
        along = op.attributes.get("dim")
        if op.kind != "concat" or op.name in tiles:
            continue
        last = {dim for dim, _ in op.output.access[-1].terms} - {along}
        if len(last) == 1:
            dim = last.pop()
            if op.sizes[dim] <= _WIDE and dim not in single_dims(op):
                tiles[op.name] = {dim: op.sizes[dim]}
    return tiles


def without_tiles(graph: OperatorGraph) -> OperatorGraph:
    """The graph as it was before its operators got tiles."""
    return graph.replaced(ops=tuple(replace(op, tiling=None) for op in graph.ops))
