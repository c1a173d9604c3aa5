"""The fused graph as SVG, drawn without Graphviz: ``graph.svg`` of a plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from stepsim.design.dataflow.graph import DataflowGraph
from stepsim.design.plan.picture import COLORS, sides_text
from stepsim.drawing import ARROW, CHARACTER, FONT, Box, Layout, graph_elements, layered

_KERNEL_FILL, _CONVERTER_FILL, _OFF_CHIP_FILL = "#ffffff", "#ffd966", "#ececec"
_PAD, _ACROSS, _DOWN = 18.0, 22.0, 46.0

_KEY = (
    "white: kernel; yellow: layout converter; gray: load or store; on edges: depth of the FIFO "
    "(and its bytes)"
)


@dataclass(frozen=True, slots=True)
class _Group:
    number: int
    boxes: list[Box]
    edges: list[tuple[int, int]]
    labels: list[str]
    layout: Layout


def to_svg(graph: DataflowGraph) -> str:
    """The kernels of a design, its groups side by side in the order in which they run.

    Kernels have tile, unroll and interval, converters their bytes, loads and stores their traffic,
    and edges the depth and bytes of their FIFO, or ``unsized``.
    """
    groups = [_group(graph, kernels[0].group) for kernels in graph.groups]
    left = _PAD
    parts: list[str] = []
    for one in groups:
        parts += _drawn(one, left)
        left += one.layout.width + 3 * _PAD
    tall = max((one.layout.height for one in groups), default=0)
    width, height = max(left, len(_KEY) * CHARACTER + 2 * _PAD), tall + 7 * _PAD
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{FONT}" '
        'font-size="10">\n'
        f"<title>{escape(graph.name)}</title>\n"
        f"{ARROW}\n"
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>\n'
        f'<text x="{_PAD}" y="22" font-size="14" font-weight="bold">{escape(graph.name)}</text>\n'
        f'<text x="{_PAD}" y="38" fill="#555">{_KEY}</text>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"


def _group(graph: DataflowGraph, group: int) -> _Group:
    """Boxes and edges of a group, in topological order, and their places."""
    names: list[tuple[str, object]] = []
    boxes: dict[tuple[str, object], Box] = {}
    edges: list[tuple[tuple[str, object], tuple[str, object], str]] = []

    def add(key: tuple[str, object], box: Box) -> None:
        names.append(key)
        boxes[key] = box

    inner = graph.edges_in(group)
    for dma in graph.dmas_of(group, "load"):
        kept = f", buffer {_bytes(dma.bytes)}" if dma.converter_bytes else ""
        add(("load", dma.name), Box((dma.tensor, f"load {_bytes(dma.traffic)}{kept}"),
                                     _OFF_CHIP_FILL, round=True))  # fmt: skip
        for reader in dict.fromkeys(kernel for kernel, _ in dma.ports):
            edges.append((("load", dma.name), ("kernel", reader), _fifo(dma.depth, dma.token_bits)))
    for kernel in graph.kernels:
        if kernel.group != group:
            continue
        die = "" if kernel.die is None else f", die {kernel.die}"
        details = f"tile {sides_text(kernel)}, unroll {kernel.unroll}, II {kernel.ii}{die}"
        add(("kernel", kernel.name), Box((kernel.name, details), _KERNEL_FILL))
        for edge in inner:
            if edge.producer != kernel.name:
                continue
            source: tuple[str, object] = ("kernel", edge.producer)
            if not edge.matched:
                source = ("converter", edge.buffer)
                if source not in boxes:
                    chunk = "x".join(map(str, edge.converter.chunk)) or "scalar"
                    add(source, Box((f"convert {chunk}", _bytes(edge.bytes)), _CONVERTER_FILL))
                    before = _fifo(edge.depth_before, edge.source.token_bits)
                    edges.append((("kernel", edge.producer), source, before))
            depth = "one buffer" if edge.folded else _fifo(edge.depth, edge.fifo_bits)
            edges.append((source, ("kernel", edge.consumer), depth))
    for dma in graph.dmas_of(group, "store"):
        add(("store", dma.name), Box((dma.tensor, f"store {_bytes(dma.traffic)}"),
                                      _OFF_CHIP_FILL, round=True))  # fmt: skip
        edges.append((("kernel", graph.maker(dma.tensor).name), ("store", dma.name), ""))
    place = {key: i for i, key in enumerate(names)}
    ends = [(place[source], place[target]) for source, target, _ in edges]
    listed = [boxes[key] for key in names]
    layout = layered([box.size for box in listed], ends, across=_ACROSS, down=_DOWN)
    return _Group(group, listed, ends, [text for *_, text in edges], layout)


def _drawn(group: _Group, left: float) -> Iterable[str]:
    """The group as elements of SVG."""
    layout, top = group.layout, 4 * _PAD
    color = COLORS[group.number % len(COLORS)]
    yield (
        f'<rect x="{left - _PAD / 2:.1f}" y="{top - _PAD:.1f}" rx="8" '
        f'width="{layout.width + _PAD:.1f}" height="{layout.height + 2.5 * _PAD:.1f}" '
        f'fill="{color}" fill-opacity="0.55"/>'
    )
    yield f'<text x="{left:.1f}" y="{top - 5:.1f}" font-weight="bold">group {group.number}</text>'
    move = (left, top + _PAD / 2)
    yield from graph_elements(layout, group.boxes, group.labels, move)


def _fifo(depth: int | None, bits: int) -> str:
    return "unsized" if depth is None else f"{depth:,} ({_bytes(-(-depth * bits // 8))})"


def _bytes(count: int) -> str:
    return f"{count:,} B"
