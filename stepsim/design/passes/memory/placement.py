"""Placement of a design on a device: kinds of memory for its buffers, dies for its kernels."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from stepsim.design.dataflow.graph import DataflowGraph, Dma, Edge, Kernel
from stepsim.design.passes.memory.dies import Stream, Task, partition as best_dies
from stepsim.design.passes.memory.memory_kinds import Allocation, Buffer, allocate, kinds_of
from stepsim.errors import CompileError
from stepsim.typed import typed

if TYPE_CHECKING:
    from stepsim.machine import Device


@typed
def buffers_of(graph: DataflowGraph, group: int) -> tuple[Buffer, ...]:
    """The memories of a group: FIFOs and converters, buffers of loads and stores, kept results.

    A half of a ping-pong buffer is read while the other is written, so both are one memory that is
    twice as deep. Its words, in bits, are those that pass in a cycle: the vectors of a FIFO, else
    tiles.

    Parameters
    ----------
    group : its number; a group that does not exist has no buffers.
    """
    return tuple(buffer for buffer, _ in _placed(graph, group))


def _placed(graph: DataflowGraph, group: int) -> list[tuple[Buffer, Edge | Dma | Kernel]]:
    found: list[tuple[Buffer, Edge | Dma | Kernel]] = []
    shared: set[object] = set()
    for edge in graph.edges_in(group):
        if not edge.folded:
            found.append((Buffer(f"fifo {edge.name}", edge.fifo_bits, edge.fifo_depth), edge))
        key = edge.buffer
        if not edge.matched and key not in shared:
            shared.add(key)
            before = edge.source.tokens if edge.depth_before is None else edge.depth_before
            found.append((Buffer(f"fifo {edge.name}/before", edge.source.token_bits, before), edge))
            words = -(-edge.bytes * 8 // edge.fifo_bits)
            found.append((Buffer(f"converter {edge.name}", edge.fifo_bits, words), edge))
    for dma in graph.dmas:
        if dma.group == group:
            width = dma.word_bits or dma.walk.token_bits
            found.append((Buffer(dma.name, width, -(-dma.bytes * 8 // width)), dma))
            for kernel_name, slot in dma.ports if dma.depth is not None else ():
                bits = graph.kernel(kernel_name).inputs[slot].itensor.token_bits
                name = f"fifo {dma.name}->{kernel_name}.{slot}"
                found.append((Buffer(name, bits, dma.depth or 1), dma))
    for kernel in graph.kernels:
        if kernel.group == group:
            found.append((_strip(kernel), kernel))
    return found


def _strip(kernel: Kernel) -> Buffer:
    """The results that a kernel keeps: a tile, or those of all loops within its reductions."""
    tiles = prod(loop.trip for loop in kernel.kept)
    return Buffer(f"kernel {kernel.name}", kernel.output.itensor.token_bits, 2 * tiles)


@typed
def place_in_memory(
    graph: DataflowGraph, device: Device
) -> tuple[DataflowGraph, tuple[Allocation, ...]]:
    """Choose a kind of memory for every buffer, group by group.

    Parameters
    ----------
    device : which kinds there are, how many blocks of each, and their sizes in bits.

    Returns
    -------
    The graph, whose edges and DMAs say the kind of their largest buffer, and what each group takes.

    Raises
    ------
    CompileError : the buffers of a group do not fit the device; names the buffer.
    """
    kinds = kinds_of(device)
    allocations, chosen = [], {}
    for kernels in graph.groups:
        group = kernels[0].group
        placed = _placed(graph, group)
        try:
            found = allocate([buffer for buffer, _ in placed], kinds)
        except CompileError as error:
            raise CompileError(f"place_in_memory: group {group} of {graph.name}: {error}") from None
        allocations.append(found)
        # Of an edge the converter comes after the FIFO.
        chosen.update({id(owner): found.kinds[buffer.name] for buffer, owner in placed})
    edges = tuple(replace(edge, memory=chosen.get(id(edge))) for edge in graph.edges)
    dmas = tuple(replace(dma, memory=chosen.get(id(dma))) for dma in graph.dmas)
    return graph.replaced(edges=edges, dmas=dmas), tuple(allocations)


_LARGEST_WEIGHT = 1_000_000
"""Of an objective; with larger ones the solver runs into the limits of floating point."""


@typed
def place_on_dies(
    graph: DataflowGraph,
    device: Device,
    *,
    traffic_weight: float = 1.0,
    imbalance_weight: float = 0.0,
) -> DataflowGraph:
    """Place the kernels of every group on the dies of a device.

    A die takes an even share of the lanes of a group and one kernel, the largest, more, so that
    whole kernels fit, and has an even share of the memory of the device. A stream over the border
    of a die counts the bits that a run sends; the weights are those of
    :func:`stepsim.design.passes.memory.dies.partition`.

    Raises
    ------
    CompileError : a group fits no placement.
    """
    for name, weight in (("traffic", traffic_weight), ("imbalance", imbalance_weight)):
        if not 0 <= weight <= _LARGEST_WEIGHT:
            raise CompileError(
                f"place_on_dies: {name}_weight must be from 0 to {_LARGEST_WEIGHT:,}, found "
                f"{weight}; only the ratio of the two weights matters"
            )
    where: dict[str, int] = {}
    memory = sum(
        kind.blocks * max(words * bits for words, bits in kind.shapes)
        for kind in kinds_of(device).values()
    )
    for kernels in graph.groups:
        numbers = {kernel.name: i for i, kernel in enumerate(kernels)}
        tasks = _tasks(graph, kernels)
        lanes = sum(kernel.unroll for kernel in kernels)
        largest = max(kernel.unroll for kernel in kernels)
        capacity = {
            "lanes": lanes / device.dies + largest,
            "memory_bits": memory / device.dies,
        }
        streams = [
            Stream(
                numbers[edge.producer], numbers[edge.consumer],
                edge.target.tokens * edge.target.token_bits,
            )
            for edge in graph.inner_edges
            if edge.producer in numbers
        ]  # fmt: skip
        found = best_dies(
            tasks, streams, [capacity] * device.dies,
            traffic_weight=traffic_weight, imbalance_weight=imbalance_weight,
        )  # fmt: skip
        where.update(zip(numbers, found.dies, strict=True))
    return graph.replaced(
        kernels=tuple(replace(kernel, die=where[kernel.name]) for kernel in graph.kernels)
    )


def _tasks(graph: DataflowGraph, kernels: tuple[Kernel, ...]) -> list[Task]:
    """Kernels with their lanes, and the memories that feed them and hold their results."""
    held = dict.fromkeys((kernel.name for kernel in kernels), 0)
    for buffer, owner in _placed(graph, kernels[0].group):
        if isinstance(owner, Edge):
            held[owner.consumer] += buffer.bits
        elif isinstance(owner, Dma):
            first = owner.ports[0][0] if owner.ports else graph.maker(owner.tensor).name
            held[first] += buffer.bits
        else:
            held[owner.name] += buffer.bits
    return [
        Task(kernel.name, {"lanes": kernel.unroll, "memory_bits": held[kernel.name]})
        for kernel in kernels
    ]
