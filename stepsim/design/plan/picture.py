"""The fused graph as a picture: kernels in the color of their group, converters marked."""

from __future__ import annotations

from stepsim.design.dataflow.graph import DataflowGraph, Dma, Kernel

COLORS = ("#cfe3f7", "#f9ddc4", "#d5ecd0", "#e8d7f1", "#f6f0c4", "#d3efef", "#f7d3d8", "#e2e2e2")
"""Of groups, in turn."""


def to_dot(graph: DataflowGraph) -> str:
    """Graphviz digraph: a cluster for each group, a diamond for each converter, DMAs as notes."""
    lines = [f"digraph {_text(graph.name)} {{", "  rankdir=TB;", "  node [fontname=sans];"]
    numbers = {kernel.name: i for i, kernel in enumerate(graph.kernels)}
    for kernels in graph.groups:
        group = kernels[0].group
        color = COLORS[group % len(COLORS)]
        lines += [
            f"  subgraph cluster_{group} {{",
            f'    label="group {group}"; style=filled; color="{color}";',
        ]
        for kernel in kernels:
            lines.append(
                f"    k{numbers[kernel.name]} [shape=box, style=filled, fillcolor=white, "
                f"label={_text(_kernel(kernel))}];"
            )
        lines.append("  }")
    lines += _edges(graph, numbers)
    for i, dma in enumerate(graph.dmas):
        lines += _dma(i, dma, numbers, graph)
    return "\n".join([*lines, "}"]) + "\n"


def sides_text(kernel: Kernel) -> str:
    """Steps of a kernel's dims, as ``16x16``."""
    tiling = kernel.op.tiling
    return "x".join(map(str, tiling.tile.values() if tiling else ())) or "1"


def _kernel(kernel: Kernel) -> str:
    die = "" if kernel.die is None else f", die {kernel.die}"
    return f"{kernel.name}\\ntile {sides_text(kernel)}, unroll {kernel.unroll}, II {kernel.ii}{die}"


def _edges(graph: DataflowGraph, numbers: dict[str, int]) -> list[str]:
    lines: list[str] = []
    made: dict[object, str] = {}
    for i, edge in enumerate(graph.inner_edges):
        source, target = f"k{numbers[edge.producer]}", f"k{numbers[edge.consumer]}"
        depth = "" if edge.depth is None else f"{edge.depth}"
        if not edge.matched:
            key = edge.buffer
            if key not in made:
                made[key] = f"c{i}"
                lines.append(
                    f"  c{i} [shape=diamond, style=filled, fillcolor=gold, "
                    f"label={_text(f'{edge.bytes:,} B')}];"
                )
                before = "" if edge.depth_before is None else f"{edge.depth_before}"
                lines.append(f"  {source} -> c{i} [label={_text(before)}];")
            source = made[key]
        lines.append(f"  {source} -> {target} [label={_text(depth)}];")
    return lines


def _dma(i: int, dma: Dma, numbers: dict[str, int], graph: DataflowGraph) -> list[str]:
    label = f"{dma.tensor}\\n{dma.traffic:,} B"
    lines = [f"  d{i} [shape=cylinder, label={_text(label)}];"]
    if dma.direction == "store":
        return [*lines, f"  k{numbers[graph.maker(dma.tensor).name]} -> d{i};"]
    readers = dict.fromkeys(kernel for kernel, _ in dma.ports)
    return [*lines, *(f"  d{i} -> k{numbers[kernel]};" for kernel in readers)]


def _text(text: str) -> str:
    quoted = text.replace('"', "'")
    return f'"{quoted}"'
