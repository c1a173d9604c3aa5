"""Sphinx extension: pictures of the runs of a page, drawn when the documentation is built.

``{picture} CALL`` draws what the call of a function of this module returns. The call may use all
names of the Python blocks above it, which are run for this. A picture is SVG within the page, so
that it takes the colors of the theme, light or dark.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import network_pictures
import path_pictures
import pyarrow as pa
import pyarrow.parquet as pq
from blocks import Session, blocks
from docutils import nodes
from docutils.parsers.rst import Directive
from elements import (
    BLUE,
    FAINT,
    FILL,
    GRAY,
    GREEN,
    INK,
    LEFT,
    ORANGE,
    PAPER,
    RED,
    ROW,
    WIDTH,
    axis,
    legend,
    line,
    rect,
    svg,
    text,
)

import stepsim as st
from stepsim.drawing import ARROW, Box, end_of, graph_elements, layered, placed_labels, text_width
from stepsim.report.serving.series import engines_of

DRAWN = ("accesses", "activity", "chips", "circular_wait", "design", "front", "graph", "load",
         "occupancy", "on_path", "over_time", "placement", "serving_loop", "streams",
         "tiles")  # fmt: skip
"""What a page can draw."""

CAUSES = {"work": BLUE, "access": GREEN, "token": GRAY, "slot": ORANGE}
"""Colors of what a unit does."""


def events(result: Any) -> list[dict[str, Any]]:
    """The events of a recorded run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        st.results.write_events(result, path)
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


# streams


def streams(values: Any, named: Mapping[str, Any]) -> str:
    """The tokens of streams of scalar tiles in their order, each with the stop that follows it."""
    parts, y, width = [], 14.0, 0.0
    for name, stream in named.items():
        sizes = ", ".join(map(str, values.shape(stream)))
        parts.append(text(0, y, name, INK, 'font-weight="bold"'))
        parts.append(text(len(name) * 7.6 + 16, y, f"[{sizes}]", FAINT))
        x = 4.0
        for token in values.stream(stream):
            parts.append(rect(x, y + 8, 26, ROW, FILL, f'stroke="{FAINT}"'))
            shown = f"{float(token.payload.data[0, 0]):g}"
            parts.append(text(x + 13, y + 24, shown, INK, 'text-anchor="middle"'))
            x += 26
            if token.level:
                color = (BLUE, ORANGE, RED)[token.level - 1]
                parts.append(rect(x, y + 8, 24, ROW, color))
                stop = f"S{token.level}"
                parts.append(text(x + 12, y + 24, stop, "#fff", 'text-anchor="middle"'))
                x += 24
            x += 5
        width = max(width, x)
        y += ROW + 32
    return svg(max(width, 300), y - 10, parts)


def tiles(named: Mapping[str, Iterable[Any]]) -> str:
    """The rows of tiles, full ones and padding, of each lane: a column for each tile."""
    parts: list[str] = []
    unit, y, width, padding = 9.0, 4.0, 0.0, False
    for name, lane in named.items():
        sizes = [(token.payload.valid, token.payload.data.shape[0]) for token in lane]
        high = max((rows for _, rows in sizes), default=1) * unit
        parts.append(text(0, y + high / 2 + 4, name))
        x = LEFT
        for valid, rows in sizes:
            for row in range(rows):
                full = row < valid
                padding |= not full
                look = f'stroke="{BLUE if full else GRAY}" stroke-width="1"'
                look += "" if full else ' stroke-dasharray="2 2"'
                fill = BLUE if full else "none"
                parts.append(rect(x, y + row * unit, 54, unit - 2, fill, look))
            x += 68
        width = max(width, x)
        y += high + 14
    parts += legend(LEFT, y + 6, {"row of a token": BLUE})
    if padding:
        x = LEFT + 130
        parts.append(rect(x, y - 3, 10, 10, "none", f'stroke="{GRAY}" stroke-dasharray="2 2"'))
        parts.append(text(x + 15, y + 6, "padding", FAINT, 'font-size="11"'))
    return svg(max(width, 420), y + 14, parts)


# runs over time


def occupancy(
    runs: Mapping[str, Any], fifo: str, until: int | None = None, high: float = 70.0
) -> str:
    """The slots of a FIFO in use in every cycle of some recorded runs, and its depth."""
    until = until or max(result.cycles for result in runs.values())
    scale = (WIDTH - LEFT - 20) / until
    parts, y = [], 10.0
    for name, result in runs.items():
        depth = next(row["depth"] for row in result.fifos.to_pylist() if row["name"] == fifo)
        steps = sorted(
            change
            for event in events(result)
            if event["event"] == "token" and event["name"] == fifo
            for change in ((event["begin"], 1), (event["end"], -1))
        )
        held, last = 0, min(result.cycles, until)
        points = [(LEFT, y + high)]
        for cycle, change in steps:
            x = LEFT + min(cycle, last) * scale
            points.append((x, y + high * (1 - held / (depth + 1))))
            held += change if cycle < result.cycles else 0
            points.append((x, y + high * (1 - held / (depth + 1))))
        points.append((LEFT + last * scale, points[-1][1]))
        parts.append(line([*points, (points[-1][0], y + high)], "none", f'style="fill:{BLUE}" '
                          'fill-opacity="0.25"'))  # fmt: skip
        parts.append(line(points, BLUE, 'stroke-width="1.6"'))
        full = y + high * (1 - depth / (depth + 1))
        parts.append(line([(LEFT, full), (WIDTH - 20, full)], RED, 'stroke-dasharray="5 4"'))
        parts.append(text(LEFT - 8, full + 4, f"depth {depth}", RED, 'text-anchor="end"'))
        parts.append(text(0, y + high / 2 + 8, name, INK, 'font-weight="bold"'))
        parts.append(text(LEFT - 8, y + high, "0", FAINT, 'text-anchor="end"'))
        if result.status != "ok":
            x = LEFT + result.cycles * scale
            parts.append(line([(x, y), (x, y + high)], RED, 'stroke-width="2"'))
            parts.append(text(x + 6, y + high - 6, f"{result.status} at {result.cycles:,}", RED))
        y += high + 22
    return svg(WIDTH, y + 22, [*axis(until, 4, y - 8), *parts])


def activity(runs: Mapping[str, Any], until: int | None = None) -> str:
    """What each unit of recorded runs does in every cycle: work, access, or wait for what."""
    until = until or max(result.cycles for result in runs.values())
    scale = (WIDTH - LEFT - 20) / until
    parts, y = [], 18.0
    seen: set[str] = set()
    for name, result in runs.items():
        note = f"{result.cycles:,} cycles"
        parts.append(text(0, y, f"{name}: {note}" if name else note, INK, 'font-weight="bold"'))
        y += 6
        found = events(result)
        for unit in result.units["name"].to_pylist():
            spans = [event for event in found if event["name"] == unit and event["event"] in
                     ("work", "access", "wait")]  # fmt: skip
            # Accesses are drawn over the waits for them, and work over both.
            spans.sort(key=lambda event: ("wait", "access", "work").index(event["event"]))
            if not any(event["event"] in ("work", "access") for event in spans):
                continue
            parts.append(text(0, y + 14, unit))
            parts.append(rect(LEFT, y + 3, until * scale, 14, FILL))
            for event in spans:
                kind = event["wait_cause"] if event["event"] == "wait" else event["event"]
                kind = next((one for one in CAUSES if one in str(kind)), "")
                if kind and event["begin"] < until:
                    seen.add(kind)
                    begin, end = event["begin"], min(event["end"], until)
                    x, wide = LEFT + begin * scale, max((end - begin) * scale, 0.6)
                    waits = kind in ("token", "slot")
                    top, tall = (y + 8, 4) if waits else (y + 3, 14)
                    parts.append(rect(x, top, wide, tall, CAUSES[kind]))
            y += ROW - 2
        y += 18
    words = {"work": "works", "access": "off-chip access", "token": "waits for a token",
             "slot": "waits for a slot"}  # fmt: skip
    key = {words[kind]: color for kind, color in CAUSES.items() if kind in seen}
    frame = [*axis(until, 4, y - 14), *legend(LEFT, y + 32, key)]
    return svg(WIDTH, y + 40, [*frame, *parts])


def accesses(runs: Mapping[str, Any]) -> str:
    """The off-chip accesses of every load and store of recorded runs: one bar, one tile."""
    until = max(result.cycles for result in runs.values())
    scale = (WIDTH - LEFT - 20) / until
    parts, y = [], 18.0
    for name, result in runs.items():
        parts.append(text(0, y, f"{name}: {result.cycles:,} cycles", INK, 'font-weight="bold"'))
        y += 8
        found = [event for event in events(result) if event["event"] == "access"]
        for unit in dict.fromkeys(event["name"] for event in found):
            parts.append(text(0, y + 11, unit))
            own = [event for event in found if event["name"] == unit]
            for number, event in enumerate(own):
                x, wide = LEFT + event["begin"] * scale, (event["end"] - event["begin"]) * scale
                parts.append(rect(x + 0.5, y + 2, wide - 1, 11, GREEN,
                                  f'fill-opacity="{0.6 if number % 2 else 1}"'))  # fmt: skip
            y += 17
        y += 20
    return svg(WIDTH, y + 22, [*axis(until, 4, y - 14), *parts])


def over_time(
    table: Any, columns: Mapping[str, str], high: float = 60.0, unit_of_time: str = "cycles"
) -> str:
    """Columns of a timeline, one below the other: the name of the column and its unit."""
    until = table["end"].to_pylist()[-1]
    scale = (WIDTH - LEFT - 20) / until
    parts, y = [], 10.0
    for column, unit in columns.items():
        values = table[column].to_pylist()
        most = max(values) or 1
        points = [(LEFT, y + high)]
        for begin, end, value in zip(table["begin"].to_pylist(), table["end"].to_pylist(),
                                     values, strict=True):  # fmt: skip
            level = y + high * (1 - value / most)
            points += [(LEFT + begin * scale, level), (LEFT + end * scale, level)]
        points.append((LEFT + until * scale, y + high))
        parts.append(line(points, "none", f'style="fill:{BLUE}" fill-opacity="0.25"'))
        parts.append(line(points, BLUE, 'stroke-width="1.4"'))
        words = column.replace("_", " ").removesuffix(" in use")
        parts.append(text(0, y + high / 2, words, INK, 'font-size="11"'))
        parts.append(text(LEFT - 6, y + 10, f"{max(values):,.4g} {unit}".strip(), FAINT,
                          'text-anchor="end" font-size="11"'))  # fmt: skip
        y += high + 16
    return svg(WIDTH, y + 22, [*axis(until, 4, y - 6, unit_of_time), *parts])


def load(result: Any) -> str:
    """Requests and KV blocks of a service with one replica, after each choice of its scheduler."""
    (engine,) = engines_of(result)
    held = result.summary["kv_blocks"] - engine.free
    named = {"running": engine.running, "waiting": engine.waiting, "KV_blocks_held": held}
    lines = {name: engine.line(values, 0) for name, values in named.items()}
    at = (lines["running"][0] - engine.start[0]) // 1_000_000
    table = pa.table(
        {"begin": at, "end": [*at[1:], at[-1]], **{name: own[1] for name, own in lines.items()}}
    )
    units = {"running": "requests", "waiting": "requests", "KV_blocks_held": ""}
    return over_time(table, units, unit_of_time="ms")


# graphs


_OF_THEME = (
    f"<style>.boxes text{{fill:{INK}}}.boxes .about{{fill:{FAINT}}}.boxes .behind{{fill:{PAPER}}}"
    f".boxes .edge{{stroke:{FAINT}}}.boxes .tip{{fill:{FAINT}}}.boxes .box{{fill:{FILL}}}</style>"
)
"""The colors of drawings of graphs, in place of those for white paper."""


def _boxes(
    named: Sequence[tuple[str, str, str]], edges: Sequence[tuple[int, int, str, str]], down: float
) -> tuple[float, float, list[str]]:
    """A layered graph; a box has two lines and a color, an edge a text and a color."""
    boxes = [
        Box(tuple(filter(None, (first, second))), FILL, outline=color)
        for first, second, color in named
    ]
    places = layered(
        [box.size for box in boxes], [edge[:2] for edge in edges], across=18, down=down
    )
    texts = [words for _, _, words, _ in edges]
    colors = ["" if color == FAINT else color for *_, color in edges]
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
        (op.title(), "", GREEN if op.name.endswith(("_load", "_store")) else FAINT)
        for op in program.operators
    ]
    edges = []
    for op in program.operators:
        for stream in op.inputs:
            found = re.match(r"Stream(\[.*?\]) of (?:Tile\[(\S+) )?", repr(stream))
            shape = " ".join(filter(None, found.groups())) if found is not None else ""
            edges.append((place[stream.producer.id], place[op.id], shape, FAINT))
    return _beside([("", _boxes(named, edges, down))])


def serving_loop() -> str:
    """What happens to the requests of a service: each step takes time, and ends in a new choice."""
    named = [
        ("requests", "a trace or a source, with times of arrival", GREEN),
        ("router", "chooses the engine of a request", FAINT),
        ("scheduler", "chooses the batch of a step; holds the KV blocks", BLUE),
        ("step", "its time: a program on the machine, or a table", BLUE),
        ("clock", "moves to the end of the step", BLUE),
        ("clients", "TTFT, TPOT and latency of every request", GREEN),
    ]
    edges = [
        (0, 1, "arrivals", FAINT),
        (1, 2, "queues", FAINT),
        (2, 3, "batch", FAINT),
        (3, 4, "time", FAINT),
        (4, 5, "tokens", FAINT),
        (4, 2, "next step", BLUE),
    ]
    return _beside([("", _boxes(named, edges, 40.0))])


def circular_wait(result: Any, down: float = 40.0) -> str:
    """The units and FIFOs of a run that is stuck, with those of the circular wait in red."""
    units = result.units["name"].to_pylist()
    stuck = result.diagnosis.circular_wait
    waiting = {wait.unit for wait in stuck}
    blocked = {wait.fifo: f"{wait.held}/{wait.depth}" for wait in result.diagnosis.waits}
    on_cycle = {wait.fifo for wait in stuck}
    states = dict(zip(units, result.units["state"].to_pylist(), strict=True))
    named = [(unit, states[unit], RED if unit in waiting else FAINT) for unit in units]
    edges = [
        (
            units.index(fifo["producer"]),
            units.index(fifo["consumer"]),
            blocked.get(fifo["name"], f"{fifo['sent'] - fifo['received']}/{fifo['depth']}"),
            RED if fifo["name"] in on_cycle else FAINT,
        )
        for fifo in result.fifos.to_pylist()
    ]
    return _beside([("", _boxes(named, edges, down))])


def design(model: Any, compiled: Any) -> str:
    """A graph of operators, and the kernels, converters, loads and stores that it became."""
    named: list[tuple[str, str, str]] = []
    for tensor in model.tensors.values():
        if tensor.role != "intermediate":
            sides = " x ".join(map(str, tensor.shape))
            named.append((f"{tensor.role} {tensor.name}", f"{sides} {tensor.dtype}", GREEN))
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
        named.append((op.name, sizes, FAINT))
        edges += [(place[operand.tensor], kernel, "", FAINT) for operand in op.inputs]
        if op.output.tensor in place:
            edges.append((kernel, place[op.output.tensor], "", FAINT))
        place[op.output.tensor] = kernel
    return _beside([("operators", _boxes(named, edges, 40)), ("design", _dataflow(compiled))])


def _dataflow(compiled: Any) -> tuple[float, float, list[str]]:
    """The kernels of a design with what joins them; edges have the depth of their FIFO."""
    found = compiled.plan.graph
    named: list[tuple[str, str, str]] = []
    edges: list[tuple[int, int, str, str]] = []
    place = {}
    for kernel in found.kernels:
        place[kernel.name] = len(named)
        loops = ", ".join(f"{loop.dim}/{loop.step}" for loop in kernel.loops)
        named.append((kernel.name, f"{loops}; {kernel.unroll} lanes", BLUE))
    for dma in found.dmas:
        if dma.direction == "load":
            edges += [(len(named), place[name], _tokens(dma.depth), FAINT) for name, _ in dma.ports]
        else:
            edges.append((place[found.maker(dma.tensor).name], len(named), "", FAINT))
        named.append((f"{dma.direction} {dma.tensor}", f"{dma.traffic:,} B", GREEN))
    for edge in found.edges:
        source = place[edge.producer]
        if not edge.matched:
            edges.append((source, len(named), _tokens(edge.depth_before), FAINT))
            source = len(named)
            named.append(("converter", f"{edge.bytes:,} B", ORANGE))
        edges.append((source, place[edge.consumer], _tokens(edge.depth), FAINT))
    return _boxes(named, edges, 40)


def _tokens(depth: int | None) -> str:
    return "" if depth is None else f"FIFO {depth}"


def _beside(panels: Sequence[tuple[str, tuple[float, float, list[str]]]]) -> str:
    """Graphs next to each other, each below its heading."""
    parts, x, high = [], 4.0, 0.0
    for head, (width, height, inner) in panels:
        top = 26 if head else 4
        parts.append(text(x, 14, head, INK, 'font-weight="bold"'))
        parts.append(f'<g transform="translate({x:.0f},{top})">{"".join(inner)}</g>')
        x += width + 40
        high = max(high, height + top)
    return svg(x - 36, high + 4, parts)


# the directive


@contextmanager
def _inside(folder: str) -> Iterator[None]:
    """A folder as the current one, whose modules can be imported."""
    before, modules = Path.cwd(), set(sys.modules)
    os.chdir(folder)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        os.chdir(before)
        sys.path.remove(folder)
        # Pages have modules of the same name.
        for name in set(sys.modules) - modules:
            if folder in (getattr(sys.modules[name], "__file__", None) or ""):
                del sys.modules[name]


def drawn(call: str, names: Mapping[str, Any]) -> str:
    """The picture that a call makes with the names of a page."""
    functions = vars(network_pictures) | vars(path_pictures) | globals()
    return str(eval(call, {**names, **{name: functions[name] for name in DRAWN}}))


@cache
def of_page(page: Path) -> dict[str, str]:
    """The pictures of a page by their calls."""
    found = list(blocks(page.read_text(encoding="utf-8")))
    last = max(number for number, block in enumerate(found) if block.kind == "{picture}")
    session, made = Session(page.name), {}
    with tempfile.TemporaryDirectory() as folder, _inside(folder):
        for block in found[: last + 1]:
            if block.kind == "{picture}":
                made[block.about] = drawn(block.about, session.names)
            else:
                session.run(block)
    return made


class Picture(Directive):
    """``{picture} CALL``, with a caption as its content, which also is the text for readers."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The figure."""
        page = Path(self.state.document.settings.env.doc2path(
            self.state.document.settings.env.docname))  # fmt: skip
        figure = nodes.figure()
        picture = of_page(page)[self.arguments[0]]
        label = escape(" ".join(self.content), quote=True).replace("`", "")
        figure += nodes.raw("", picture.replace("<svg ", f'<svg aria-label="{label}" ', 1),
                            format="html")  # fmt: skip
        caption = nodes.caption()
        parsed, _ = self.state.inline_text(" ".join(self.content), self.lineno)
        figure += caption
        caption += parsed
        return [figure]


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True}
