"""FIFOs between kernels: vectors narrower than tiles, and buffers that both ends share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from stepsim.design.dataflow.buffer_walks import tile_of
from stepsim.design.dataflow.graph import DataflowGraph, Kernel
from stepsim.design.dataflow.untyped import Untyped
from stepsim.errors import CompileError, did_you_mean
from stepsim.typed import typed

Vector = tuple[int, int]

HOPS = 8
"""Cycles that a tile takes in the units that cut and join it, in addition to its vectors.
"""


@typed
def vectorize_fifos(
    graph: DataflowGraph, vectors: Mapping[str, Vector] | None = None, *, slack: float = 0.005
) -> DataflowGraph:
    """Send tiles between kernels as vectors, in FIFOs no wider than necessary.

    A FIFO passes one vector in a cycle. By default it is the smallest one, along the columns first,
    with which a tile passes in the time that the consumer takes for one: what its lanes read in a
    cycle, as long as it reads each element once. A tile also arrives later by the time that it
    takes to pass, and the delays of all FIFOs of a path add up. So that a group is not longer by
    more than ``slack``, a path has this share of the time that the group takes at least, by its
    slowest kernel and by the first results of its kernels in turn, and its FIFOs have equal parts
    of it. Tiles that this does not suffice for stay whole.

    Parameters
    ----------
    vectors : rows and columns for single edges by name, in place of the default.
    slack : share of the cycles of a group that vectors may add.

    Raises
    ------
    CompileError : there is no such edge, a vector does not divide the tile, or ``slack`` is
        negative. Untyped edges have whole tiles.
    """
    if not 0 <= slack < inf:
        raise CompileError(f"vectorize_fifos: slack is a share of cycles from 0, found {slack}")
    stated = dict(vectors or {})
    untyped = {edge.name for edge in graph.inner_edges if isinstance(edge.source, Untyped)}
    names = [edge.name for edge in graph.inner_edges if edge.name not in untyped]
    delays = {kernels[0].group: slack * _share(graph, kernels) for kernels in graph.groups}
    for name in stated:
        if name in untyped:
            raise CompileError(
                f"vectorize_fifos: '{name}' is untyped and passes whole tiles; leave it out"
            )
        if name not in names:
            near = did_you_mean(name, names)
            raise CompileError(f"vectorize_fifos: no edge within a group is '{name}'{near}")
    made = []
    for edge in graph.edges:
        if edge.name in names:
            tile = tile_of(edge.target.element)
            delay = delays[graph.kernel(edge.producer).group]
            vector = stated.get(edge.name) or _vector(graph.kernel(edge.consumer), tile, delay)
            if min(vector) < 1 or tile[0] % vector[0] or tile[1] % vector[1]:
                raise CompileError(
                    f"vectorize_fifos: a vector of {vector[0]}x{vector[1]} does not divide the "
                    f"tiles of {tile[0]}x{tile[1]} on {edge.name}; use divisors of both sides"
                )
            edge = replace(edge, vector=vector)
        made.append(edge)
    return graph.replaced(edges=tuple(made))


def _pace(kernel: Kernel) -> int:
    """Cycles between the tiles that a kernel takes: one alone where it computes nothing."""
    return kernel.interval if kernel.op.flops and kernel.op.kind != "opaque" else 1


def _share(graph: DataflowGraph, kernels: Sequence[Kernel]) -> float:
    """Cycles that a group takes at least, over the most edges of a path through it."""
    edges: dict[str, int] = {}
    first: dict[str, int] = {}
    for kernel in kernels:
        before = [e.producer for e in graph.inner_edges if e.consumer == kernel.name]
        edges[kernel.name] = max((edges[name] + 1 for name in before), default=0)
        own = kernel.d // kernel.interval * _pace(kernel)
        first[kernel.name] = max((first[name] for name in before), default=0) + own
    slowest = max(kernel.firings * _pace(kernel) for kernel in kernels)
    return max(slowest, *first.values()) / max(1, *edges.values())


def _vector(consumer: Kernel, tile: Vector, delay: float) -> Vector:
    pieces = min(_pace(consumer), int(delay) - HOPS)
    rows, cols = tile
    for width in range(1, cols + 1):
        if cols % width == 0 and rows * (cols // width) <= pieces:
            return 1, width
    for height in range(1, rows + 1):
        if rows % height == 0 and rows // height <= pieces:
            return height, cols
    return tile


@typed
def fold_buffers(graph: DataflowGraph) -> DataflowGraph:
    """Let both ends of a FIFO work on one tile buffer, and remove the FIFO.

    Only where one kernel alone reads the producer, in exactly the order in which it writes, waits
    for no other stream, and is done with a tile, two cycles for the handshake included, before the
    next one leaves; so the producer never waits for the buffer. One that keeps results until its
    reductions are over sends them all at once, and is not folded. Saves the buffer of a tile and
    the FIFO.
    """
    readers: dict[str, int] = {}
    for edge in graph.edges:
        readers[edge.producer] = readers.get(edge.producer, 0) + 1
    stored = {dma.tensor for dma in graph.dmas if dma.direction == "store"}
    single = {
        kernel.name
        for kernel in graph.kernels
        if sum(port.itensor.tokens > 1 for port in kernel.inputs) == 1
    }
    return graph.replaced(
        edges=tuple(
            replace(edge, folded=True, depth=1)
            if graph.on_chip(edge)
            and edge.matched
            and not isinstance(edge.source, Untyped)
            and readers[edge.producer] == 1
            and edge.tensor not in stored
            and edge.consumer in single
            and not graph.kernel(edge.producer).kept
            and graph.kernel(edge.consumer).interval + 2 <= graph.kernel(edge.producer).ii
            else edge
            for edge in graph.edges
        )
    )
