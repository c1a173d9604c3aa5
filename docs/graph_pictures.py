"""Pictures of graphs: programs, circular waits, designs, and the loop of a service."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import elements as el

from stepsim.drawing import ARROW, Box, end_of, graph_elements, layered, placed_labels, text_width

__all__ = ["circular_wait", "design", "graph", "serving_loop"]

_OF_THEME = (
    f"<style>.boxes text{{fill:{el.INK}}}.boxes .about{{fill:{el.FAINT}}}"
    f".boxes .behind{{fill:{el.PAPER}}}.boxes .edge{{stroke:{el.FAINT}}}"
    f".boxes .tip{{fill:{el.FAINT}}}.boxes .box{{fill:{el.FILL}}}</style>"
)
"""The colors of drawings of graphs, in place of those for white paper."""


def boxes_of(
    named: Sequence[tuple[str, str, str]], edges: Sequence[tuple[int, int, str, str]], down: float
) -> tuple[float, float, list[str]]:
    """A layered graph; a box has two lines and a color, an edge a text and a color."""
    boxes = [
        Box(tuple(filter(None, (first, second))), el.FILL, outline=color)
        for first, second, color in named
    ]
    places = layered(
        [box.size for box in boxes], [edge[:2] for edge in edges], across=18, down=down
    )
    texts = [words for _, _, words, _ in edges]
    colors = ["" if color == el.FAINT else color for *_, color in edges]
    last = [
        (*end_of(path), words) for path, words in zip(places.paths, texts, strict=True) if words
    ]
    sides = [(x - text_width(words) / 2, x + text_width(words) / 2)
             for x, _, words in placed_labels(last)]  # fmt: skip
    left = min([0.0, *(low for low, _ in sides)])
    right = max([places.width, *(high for _, high in sides)])
    parts = graph_elements(places, boxes, texts, (-left, 0.0), colors)
    group = f'<g class="boxes" font-size="10.5">{_OF_THEME}{ARROW}{"".join(parts)}</g>'
    return right - left, places.height, [group]


def graph(program: Any, down: float = 40.0) -> str:
    """The operators of a program; edges have the shapes and types of their streams."""
    place = {op.id: number for number, op in enumerate(program.operators)}
    named = [
        (op.title(), "", el.GREEN if op.name.endswith(("_load", "_store")) else el.FAINT)
        for op in program.operators
    ]
    edges = []
    for op in program.operators:
        for stream in op.inputs:
            found = re.match(r"Stream(\[.*?\]) of (?:Tile\[(\S+) )?", repr(stream))
            shape = " ".join(filter(None, found.groups())) if found is not None else ""
            edges.append((place[stream.producer.id], place[op.id], shape, el.FAINT))
    return beside([("", boxes_of(named, edges, down))])


def serving_loop() -> str:
    """What happens to the requests of a service: each step takes time, and ends in a new choice."""
    named = [
        ("requests", "a trace or a source, with times of arrival", el.GREEN),
        ("router", "chooses the engine of a request", el.FAINT),
        ("scheduler", "chooses the batch of a step; holds the KV blocks", el.BLUE),
        ("step", "its time: a program on the machine, or a table", el.BLUE),
        ("clock", "moves to the end of the step", el.BLUE),
        ("clients", "TTFT, TPOT and latency of every request", el.GREEN),
    ]
    edges = [
        (0, 1, "arrivals", el.FAINT),
        (1, 2, "queues", el.FAINT),
        (2, 3, "batch", el.FAINT),
        (3, 4, "time", el.FAINT),
        (4, 5, "tokens", el.FAINT),
        (4, 2, "next step", el.BLUE),
    ]
    return beside([("", boxes_of(named, edges, 40.0))])


def circular_wait(result: Any, down: float = 40.0) -> str:
    """The units and FIFOs of a run that is stuck, with those of the circular wait in red."""
    units = result.units["name"].to_pylist()
    stuck = result.diagnosis.circular_wait
    waiting = {wait.unit for wait in stuck}
    blocked = {wait.fifo: f"{wait.held}/{wait.depth}" for wait in result.diagnosis.waits}
    on_cycle = {wait.fifo for wait in stuck}
    states = dict(zip(units, result.units["state"].to_pylist(), strict=True))
    named = [(unit, states[unit], el.RED if unit in waiting else el.FAINT) for unit in units]
    edges = [
        (
            units.index(fifo["producer"]),
            units.index(fifo["consumer"]),
            blocked.get(fifo["name"], f"{fifo['sent'] - fifo['received']}/{fifo['depth']}"),
            el.RED if fifo["name"] in on_cycle else el.FAINT,
        )
        for fifo in result.fifos.to_pylist()
    ]
    return beside([("", boxes_of(named, edges, down))])


def design(model: Any, compiled: Any) -> str:
    """A graph of operators, and the kernels, converters, loads and stores that it became."""
    named: list[tuple[str, str, str]] = []
    for tensor in model.tensors.values():
        if tensor.role != "intermediate":
            sides = " x ".join(map(str, tensor.shape))
            named.append((f"{tensor.role} {tensor.name}", f"{sides} {tensor.dtype}", el.GREEN))
    place = {
        name: number
        for number, name in enumerate(
            one.name for one in model.tensors.values() if one.role != "intermediate"
        )
    }
    edges: list[tuple[int, int, str, str]] = []
    for op in model.ops:
        kernel = len(named)
        sizes = ", ".join(f"{dim.name} {dim.size}" for dim in op.dims)
        named.append((op.name, sizes, el.FAINT))
        edges += [(place[operand.tensor], kernel, "", el.FAINT) for operand in op.inputs]
        if op.output.tensor in place:
            edges.append((kernel, place[op.output.tensor], "", el.FAINT))
        place[op.output.tensor] = kernel
    return beside([("operators", boxes_of(named, edges, 40)), ("design", _dataflow(compiled))])


def _dataflow(compiled: Any) -> tuple[float, float, list[str]]:
    """The kernels of a design with what joins them; edges have the depth of their FIFO."""
    found = compiled.plan.graph
    named: list[tuple[str, str, str]] = []
    edges: list[tuple[int, int, str, str]] = []
    place = {}
    for kernel in found.kernels:
        place[kernel.name] = len(named)
        loops = ", ".join(f"{loop.dim}/{loop.step}" for loop in kernel.loops)
        named.append((kernel.name, f"{loops}; {kernel.unroll} lanes", el.BLUE))
    for dma in found.dmas:
        if dma.direction == "load":
            edges += [
                (len(named), place[name], _tokens(dma.depth), el.FAINT) for name, _ in dma.ports
            ]
        else:
            edges.append((place[found.maker(dma.tensor).name], len(named), "", el.FAINT))
        named.append((f"{dma.direction} {dma.tensor}", f"{dma.traffic:,} B", el.GREEN))
    for edge in found.edges:
        source = place[edge.producer]
        if not edge.matched:
            edges.append((source, len(named), _tokens(edge.depth_before), el.FAINT))
            source = len(named)
            named.append(("converter", f"{edge.bytes:,} B", el.ORANGE))
        edges.append((source, place[edge.consumer], _tokens(edge.depth), el.FAINT))
    return boxes_of(named, edges, 40)


def _tokens(depth: int | None) -> str:
    return "" if depth is None else f"FIFO {depth}"


def beside(panels: Sequence[tuple[str, tuple[float, float, list[str]]]]) -> str:
    """Graphs next to each other, each below its heading."""
    parts, x, high = [], 4.0, 0.0
    for head, (width, height, inner) in panels:
        top = 26 if head else 4
        parts.append(el.text(x, 14, head, el.INK, 'font-weight="bold"'))
        parts.append(f'<g transform="translate({x:.0f},{top})">{"".join(inner)}</g>')
        x += width + 40
        high = max(high, height + top)
    return el.svg(x - 36, high + 4, parts)
