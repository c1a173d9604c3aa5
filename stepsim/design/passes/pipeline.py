"""The passes in their order, from an operator graph to groups of kernels: ``designed``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from stepsim.arguments import flag, is_whole, shown
from stepsim.design.dataflow.graph import DataflowGraph
from stepsim.design.dataflow.kernels import kernels_of
from stepsim.design.operators.graph import OperatorGraph
from stepsim.design.passes.fusion.grouping import fuse_kernels, share_converters
from stepsim.design.passes.graph_passes import fold_unit_dims, fuse_elementwise
from stepsim.design.passes.loops.tiling import (
    DEFAULT_TILE,
    Order,
    permute,
    single_dims,
    tile,
    unroll,
)
from stepsim.design.passes.memory.dma import pack, widen
from stepsim.design.passes.memory.fifos import fold_buffers, vectorize_fifos
from stepsim.errors import CompileError

__all__ = [
    "DEFAULT_UNROLL", "SIZINGS", "Choices", "Order", "Pass", "Sizing", "designed", "without_tiles",
]  # fmt: skip

DEFAULT_UNROLL = 2048
"""Lanes of all kernels together: with it the largest products of GPT-2 medium get 512 each, which
is what the published prefill times amount to (StreamTensor, section 6.3)."""

Fusion: TypeAlias = Literal["merge", "greedy", "exhaustive"]
Unrolling: TypeAlias = Literal["heap_skip", "heap_stop", "exact"]
Sizing: TypeAlias = Literal["lp", "normal", "conservative", "recorded", "unbounded"]
"""Where depths come from: the linear program with effective intervals (``lp``), those of each
kernel, or stretched to the slowest; the program over the stamps of a run with unbounded FIFOs
(``recorded``, as `size_fifos`); or every FIFO as deep as the run needs it, without sizing."""

SIZINGS: tuple[Sizing, ...] = get_args(Sizing)


def _is_pair(row: object) -> bool:
    return isinstance(row, tuple | list) and len(row) == 2 and all(map(is_whole, row))


_TABLES: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    (
        "tiles", "{operator: {dim: step}}",
        lambda row: isinstance(row, Mapping) and all(map(is_whole, row.values())),
    ),
    ("orders", "{operator: dims}", lambda row: isinstance(row, Sequence)),
    ("vectors", "'tile', 'narrow' or {edge: (rows, columns)}", _is_pair),
)  # fmt: skip
"""Choices for single operators and edges, what they are, and whether a value is one."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What the passes are told.

    Attributes
    ----------
    budget : bytes on chip for the converters of a group.
    tile : size of all tiles.
    tiles : of single operators, ``{operator: {dim: step}}``.
    unroll : lanes of all kernels together.
    unrolling : how they are spread.
    order : of the loops of all operators.
    orders : of single operators, ``{operator: dims}``, outermost first.
    fusion : how kernels are put into groups.
    reuse_bytes : bytes up to which a load keeps what is read again; None is that of `fuse_kernels`.
    packed : weights lie tile after tile in words of the memory port, so that loads are bursts.
    vectors : ``narrow`` sends tiles between kernels as the smallest vectors that are fast enough,
        ``tile`` as they are; or rows and columns by name of an edge, the others being narrow.
    folded : kernels with one order and no other stream share a buffer, without a FIFO.

    Raises
    ------
    CompileError : a number is out of range, or a table of single operators or edges is none.
    ArgError : ``packed`` or ``folded`` is neither True nor False.
    """

    budget: int
    tile: int = DEFAULT_TILE
    unroll: int = DEFAULT_UNROLL
    unrolling: Unrolling = "heap_skip"
    order: Order = "reductions_outermost"
    fusion: Fusion = "merge"
    tiles: Mapping[str, Mapping[str, int]] | None = None
    orders: Mapping[str, tuple[str, ...]] | None = None
    reuse_bytes: int | None = None
    packed: bool = True
    vectors: Literal["tile", "narrow"] | Mapping[str, tuple[int, int]] = "tile"
    folded: bool = False

    def __post_init__(self) -> None:
        for name, least in (("budget", 0), ("tile", 1), ("unroll", 1), ("reuse_bytes", 0)):
            given = getattr(self, name)
            if given is None and name == "reuse_bytes":
                continue
            if not is_whole(given) or given < least:
                raise CompileError(
                    f"compile: {name} must be a whole number from {least}, found {shown(given)}"
                )
        for name in ("packed", "folded"):
            flag(f"compile: {name}", getattr(self, name))
        for name, what, is_row in _TABLES:
            given = getattr(self, name)
            if given is None and name != "vectors":
                continue
            if name == "vectors" and isinstance(given, str) and given in ("tile", "narrow"):
                continue
            if not isinstance(given, Mapping) or not all(map(is_row, given.values())):
                raise CompileError(f"compile: {name} must be {what}, found {shown(given)}")


@dataclass(frozen=True, slots=True)
class Pass:
    """A step from graph to graph: ``before`` and ``after`` print with ``text()``."""

    name: str
    before: OperatorGraph | DataflowGraph
    after: OperatorGraph | DataflowGraph

    @property
    def is_idle(self) -> bool:
        """It changed nothing."""
        return self.before == self.after


def designed(graph: OperatorGraph, choices: Choices) -> tuple[DataflowGraph, tuple[Pass, ...]]:
    """Kernels in groups with loads and stores, without depths of FIFOs, and the passes in order.

    Raises
    ------
    CompileError : a pass refuses what it was told; the message begins with its name.
    """
    taken: list[Pass] = []

    def run(name: str, step: Callable[..., Any], given: Any, *arguments: Any, **named: Any) -> Any:
        made = step(given, *arguments, **named)
        taken.append(Pass(name, given, made))
        return made

    level1 = run("fold_unit_dims", fold_unit_dims, graph)
    level1 = run("fuse_elementwise", fuse_elementwise, level1)
    level1 = run("tile", tile, level1, choices.tile, _with_wide_copies(level1, choices.tiles))
    level1 = run("unroll", unroll, level1, choices.unroll, choices.unrolling)
    level1 = run("permute", permute, level1, choices.order, choices.orders)
    level2 = run("kernels_of", kernels_of, level1)
    level2 = run("share_converters", share_converters, level2)
    reuse = {} if choices.reuse_bytes is None else {"reuse_bytes": choices.reuse_bytes}
    level2 = run("fuse_kernels", fuse_kernels, level2, choices.budget, choices.fusion, **reuse)
    if choices.packed and any(dma.direction == "load" for dma in level2.dmas):
        level2 = run("pack", pack, level2)
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
