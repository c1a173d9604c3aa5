"""Groups of kernels that are on the chip together, and the loads and stores at their borders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from stepsim.design.choices import Choices, Fusion
from stepsim.design.dataflow.graph import DataflowGraph, Dma, Edge, Kernel, Port
from stepsim.design.dataflow.kernels import is_streamed
from stepsim.design.dataflow.untyped import Untyped
from stepsim.design.passes.fusion.groups import (
    FusionEdge,
    FusionGraph,
    Groups,
)
from stepsim.design.passes.fusion.loads import again, kept
from stepsim.design.passes.fusion.methods import (
    best_groups,
    greedy_groups,
    merged_groups,
)
from stepsim.errors import CompileError, did_you_mean
from stepsim.itensor import NormalForm
from stepsim.typed import typed

REUSE_BYTES = 1 << 18
"""Largest buffer in bytes in which a load keeps data instead of loading it again."""

_METHODS: Mapping[str, Callable[[FusionGraph, int], Groups]] = {
    "greedy": greedy_groups,
    "merge": merged_groups,
    "exhaustive": lambda graph, budget: best_groups(graph, budget).groups,
}


@typed
def share_converters(graph: DataflowGraph) -> DataflowGraph:
    """Let consumers that need one stream in the same other order share a converter and fork.

    Edges of one producer with equal sources and targets get a common number, ``shared``.
    """
    if not graph.kernels:
        return graph
    first: dict[tuple[str, NormalForm, NormalForm], int] = {}
    counts: dict[tuple[str, NormalForm, NormalForm], int] = {}
    edges: list[Edge] = []
    keys = {
        e.name: (e.producer, e.source.normal_form(), e.target.normal_form())
        for e in graph.edges
        if not isinstance(e.source, Untyped)
    }
    for key in keys.values():
        counts[key] = counts.get(key, 0) + 1
    for edge in graph.edges:
        if edge.name not in keys:
            edges.append(edge)
            continue
        key = keys[edge.name]
        number = first.setdefault(key, len(first))
        several = counts[key] > 1 and not edge.matched
        edges.append(replace(edge, shared=number if several else None))
    return graph.replaced(edges=tuple(edges))


def fusion_graph(graph: DataflowGraph) -> FusionGraph:
    """The graph as fusion sees it: bytes of converters and of tensors.

    A converter that several edges share costs a group once, however many of them are in it. Kernels
    that untyped streams join count as one, since such a stream never leaves the chip.
    """
    clusters = _clusters(graph)
    numbers = {kernel.name: one for kernel, one in zip(graph.kernels, clusters, strict=True)}
    tensors = {name: i for i, name in enumerate(graph.operators.tensors)}
    last = {one: kernel.name for kernel, one in zip(graph.kernels, clusters, strict=True)}
    return FusionGraph(
        len(last),
        tuple(
            FusionEdge(
                numbers[edge.producer], numbers[edge.consumer], edge.bytes,
                graph.operators.tensors[edge.tensor].bytes, tensors[edge.tensor], edge.shared,
            )
            for edge in graph.edges
            if numbers[edge.producer] != numbers[edge.consumer]
        ),
        tuple(last[one] for one in sorted(last)),
    )  # fmt: skip


def _clusters(graph: DataflowGraph) -> list[int]:
    """Number of the kernel, or of the kernels joined by untyped streams, in topological order.

    Such kernels come where the last of them does: only a combination is read by others.
    """
    parent = {kernel.name: kernel.name for kernel in graph.kernels}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for edge in graph.edges:
        if isinstance(edge.source, Untyped):
            parent[root(edge.producer)] = root(edge.consumer)
    place = {root(kernel.name): i for i, kernel in enumerate(graph.kernels)}
    order = sorted(place.values())
    return [order.index(place[root(kernel.name)]) for kernel in graph.kernels]


@typed
def fuse_kernels(
    graph: DataflowGraph,
    budget: int,
    method: Fusion = Choices.fusion,
    *,
    reuse_bytes: int = REUSE_BYTES,
    count_loads: bool = False,
) -> DataflowGraph:
    """Put kernels into groups whose converters fit the chip, and make the DMAs at their borders.

    Parameters
    ----------
    budget : bytes of on-chip memory for the converters of a group.
    method : ``greedy`` is the paper's algorithm as printed, ``merge`` joins its groups further,
        ``exhaustive`` tries all partitions of a small graph.
    reuse_bytes : a load whose consumer reads tiles again keeps them on chip in a buffer of up to so
        many bytes; with a larger one it loads them again.
    count_loads : buffers of loads are within the budget too. They have what the converters between
        the kernels of a group leave of it, those first that save the most traffic for their bytes;
        the other loads load again. Without it the budget is that of the paper.

    Raises
    ------
    CompileError : there is no such method, the budget or ``reuse_bytes`` is negative, or the graph
        is too large to try all partitions.
    """
    if min(budget, reuse_bytes) < 0:
        raise CompileError(
            f"fuse_kernels: budget and reuse_bytes are bytes from 0, found {budget}, {reuse_bytes}"
        )
    abstract, clusters = fusion_graph(graph), _clusters(graph)
    if method not in _METHODS:
        near = did_you_mean(method, _METHODS)
        raise CompileError(
            f"fuse_kernels: there is no method '{method}'{near} Known: {', '.join(_METHODS)}"
        )
    found = _METHODS[method](abstract, budget).labels
    labels = _in_running_order(abstract, tuple(found[one] for one in clusters))
    kernels = tuple(
        replace(kernel, group=label) for kernel, label in zip(graph.kernels, labels, strict=True)
    )
    fused = border_dmas(graph.replaced(kernels=kernels), reuse_bytes)
    return _loads_within(fused, budget) if count_loads else fused


def _loads_within(graph: DataflowGraph, budget: int) -> DataflowGraph:
    """Loads keep what is read again as far as the converters of their group leave bytes for it."""
    left = {
        kernels[0].group: budget - graph.converter_bytes_of(kernels[0].group)
        for kernels in graph.groups
    }
    replaced: dict[str, Dma] = {}
    worth: list[tuple[float, Dma]] = []
    for dma in graph.dmas:
        if dma.converter is not None and dma.converter.kind != "fifo":
            walk, joined = again(dma.converter.dst)
            replaced[dma.name] = replace(dma, walk=walk, converter=joined)
            saved = replaced[dma.name].traffic - dma.traffic
            worth.append((saved / dma.converter_bytes, dma))
    for _, dma in sorted(worth, key=lambda pair: (-pair[0], pair[1].name)):
        if dma.converter_bytes <= left[dma.group]:
            left[dma.group] -= dma.converter_bytes
            del replaced[dma.name]
    return graph.replaced(dmas=tuple(replaced.get(dma.name, dma) for dma in graph.dmas))


def _in_running_order(graph: FusionGraph, labels: tuple[int, ...]) -> list[int]:
    """Groups numbered so that each runs after those whose results it reads."""
    waits: dict[int, set[int]] = {label: set() for label in labels}
    for producer, consumer in graph.links:
        if labels[producer] != labels[consumer]:
            waits[labels[consumer]].add(labels[producer])
    order: list[int] = []
    while len(order) < len(waits):
        order.append(next(g for g in waits if g not in order and waits[g] <= set(order)))
    return [order.index(label) for label in labels]


def border_dmas(graph: DataflowGraph, reuse_bytes: int = REUSE_BYTES) -> DataflowGraph:
    """The loads and stores of every group: inputs, weights, states, results of other groups.

    A tensor that a group reads twice in the same order is loaded once and forked.

    Parameters
    ----------
    reuse_bytes : bytes, both halves of its buffer together, up to which a load keeps on chip what
        is read again; more is loaded again.
    """
    made_in = {kernel.output.tensor: kernel.group for kernel in graph.kernels}
    dmas: list[Dma] = []
    for kernels in graph.groups:
        group = kernels[0].group
        loads: dict[object, list[tuple[Kernel, int]]] = {}
        for kernel in kernels:
            for slot, port in enumerate(kernel.inputs):
                if made_in.get(port.tensor) != group and is_streamed(kernel.op, slot):
                    key: object = (kernel.name, slot)
                    if not isinstance(port.itensor, Untyped):
                        key = (port.tensor, port.window, port.itensor.normal_form())
                    loads.setdefault(key, []).append((kernel, slot))
        for readers in loads.values():
            port = readers[0][0].inputs[readers[0][1]]
            ports = tuple((kernel.name, slot) for kernel, slot in readers)
            dmas.append(_load(port, group, ports, reuse_bytes))
        dmas += [
            Dma("store", kernel.output.tensor, group, kernel.output.window, kernel.output.itensor)
            for kernel in kernels
            if _leaves(graph, kernel)
        ]
    return graph.replaced(dmas=tuple(dmas))


def _leaves(graph: DataflowGraph, kernel: Kernel) -> bool:
    """Whether its result is stored: an output of the model, or read by another group."""
    tensor = graph.operators.tensors[kernel.output.tensor]
    readers = {
        graph.kernel(edge.consumer).group for edge in graph.edges if edge.producer == kernel.name
    }
    return tensor.role == "output" or bool(readers - {kernel.group})


def _load(port: Port, group: int, ports: tuple[tuple[str, int], ...], reuse_bytes: int) -> Dma:
    stream = port.itensor
    if isinstance(stream, Untyped):  # Loaded again for every tile of rows.
        return Dma("load", port.tensor, group, port.window, stream, None, ports)
    walk, found = kept(stream, reuse_bytes)
    return Dma("load", port.tensor, group, port.window, walk, found, ports)
