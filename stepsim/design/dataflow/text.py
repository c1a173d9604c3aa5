"""Dataflow graphs as text: kernels, edges and DMAs, group by group."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepsim.design.dataflow.graph import DataflowGraph, Dma, Edge, Kernel

__all__ = ["text_of"]


def text_of(graph: DataflowGraph) -> str:
    """Head, then for each group its loads, kernels with the edges that feed them, and stores."""
    groups = graph.groups
    lines = [
        f"{graph.name}: {len(graph.kernels)} kernels in {len(groups)} groups, "
        f"{graph.converter_bytes:,} bytes of converters, {graph.traffic:,} bytes off chip"
    ]
    feeding: dict[tuple[str, int], Edge] = {(e.consumer, e.slot): e for e in graph.inner_edges}
    for kernels in groups:
        number = kernels[0].group
        lines.append(f"group {number}:")
        dmas = [dma for dma in graph.dmas if dma.group == number]
        lines += [_dma(dma) for dma in dmas if dma.direction == "load"]
        for kernel in kernels:
            lines.append(_kernel(kernel))
            for slot, port in enumerate(kernel.inputs):
                edge = feeding.get((kernel.name, slot))
                by = "off chip" if edge is None else _edge(edge)
                lines.append(f"    in {slot} {port.tensor}: {port.itensor}, {by}")
            lines.append(f"    out  {kernel.output.tensor}: {kernel.output.itensor}")
        lines += [_dma(dma) for dma in dmas if dma.direction == "store"]
    return "\n".join(lines) + "\n"


def _kernel(kernel: Kernel) -> str:
    loops = ", ".join(map(str, kernel.loops)) or "one tile"
    die = "" if kernel.die is None else f", die {kernel.die}"
    return (
        f"  kernel {kernel.name}: loops {loops}; unroll {kernel.unroll}, II {kernel.ii}, "
        f"D {kernel.d}{die}"
    )


def _edge(edge: Edge) -> str:
    told = f"from {edge.producer} by {edge.converter}"
    if edge.shared is not None:
        told += f" (shared, {edge.shared})"
    if edge.depth is not None:
        told += f", depth {edge.depth}"
    if edge.vector is not None:
        told += f", vector {edge.vector[0]}x{edge.vector[1]}"
    if edge.folded:
        told += ", folded"
    return told + (f", in {edge.memory}" if edge.memory else "")


def _dma(dma: Dma) -> str:
    told = f"  {dma.direction} {dma.tensor}: {dma.walk}, {dma.traffic:,} bytes"
    if dma.converter is not None and dma.converter.kind != "fifo":
        told += f", kept on chip: {dma.converter}"
    if dma.packed:
        told += f", packed in bursts of {dma.burst}" * (dma.burst > 1) or ", packed"
        told += f" in words of {dma.word_bits} bits" if dma.word_bits else ""
    return told
