"""Graphs as SVG without Graphviz: boxes with lines of text, edges with a text, frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from stepsim.drawing.layers import Layout, Point

FONT = "DejaVu Sans, Helvetica, sans-serif"

_LINE = 13.0
"""Height of a line of text, pixels; a character is about 6 wide."""
CHARACTER = 6.1
_BOLD = 6.9
_SMALL = 5.4
"""Width of a character on an edge."""

_LINES = "#555"
"""Color of outlines and edges."""

ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto"><path d="M0,0L8,4L0,8z" class="tip" fill="#555"/></marker>'
    "</defs>"
)
"""The tip of edges, to be put in once."""


@dataclass(frozen=True, slots=True)
class Box:
    """A node: its lines of text, the first of them in bold, its fill and whether it is round.

    ``look`` is a class by which a style sheet finds it, ``about`` what is shown when it is pointed
    at, ``room`` the height in pixels that is left free below the text, ``outline`` its color.
    """

    lines: tuple[str, ...]
    fill: str
    round: bool = False
    look: str = "box"
    about: str = ""
    room: float = 0.0
    outline: str = _LINES

    @property
    def size(self) -> Point:
        wide = max(len(self.lines[0]) * _BOLD, *(len(line) * CHARACTER for line in self.lines))
        return wide + 14, len(self.lines) * _LINE + 8 + self.room


def graph_elements(
    layout: Layout,
    boxes: Sequence[Box],
    texts: Sequence[str],
    move: Point,
    colors: Sequence[str] | None = None,
) -> Iterable[str]:
    """Boxes, edges and the texts of edges as elements of SVG, moved to a place of the drawing.

    ``colors`` are those of edges that stand out, empty for others; edges with a color are wider.
    """
    ends: list[tuple[float, float, str]] = []
    colors = colors or [""] * len(texts)
    for path, text, color in zip(layout.paths, texts, colors, strict=True):
        points = [(x + move[0], y + move[1]) for x, y in path]
        if color:
            (x, y), (_, before) = points[-1], points[-2]
            tip = 6 if y > before else -6
            yield (
                f'<path d="{_curve(points)}" fill="none" stroke="{color}" stroke-width="2.4"/>'
                f'<path d="M{x:.1f},{y:.1f}l-4,{-tip}h8z" fill="{color}"/>'
            )
        else:
            yield (
                f'<path d="{_curve(points)}" class="edge" fill="none" stroke="{_LINES}" '
                'stroke-width="1.1" marker-end="url(#arrow)"/>'
            )
        if text:
            ends.append((*end_of(points), text))
    for (x, y), box in zip(layout.centers, boxes, strict=True):
        yield from _box(x + move[0], y + move[1], box)
    for x, middle, text in placed_labels(ends):
        width = text_width(text)
        yield (
            f'<rect x="{x - width / 2:.1f}" y="{middle - 5.5:.1f}" width="{width:.1f}" '
            'height="11" rx="2" class="behind" fill="#fff" fill-opacity="0.85"/>'
        )
        yield (
            f'<text x="{x:.1f}" y="{middle + 3:.1f}" text-anchor="middle" font-size="9" '
            f'class="about" fill="#333">{escape(text)}</text>'
        )


def end_of(path: Sequence[Point]) -> Point:
    """Where an edge ends for its text, which is above that; below the box of one that leads up."""
    (x, y), (_, before) = path[-1], path[-2]
    return (x, y) if y > before else (x, y + 28)


def placed_labels(ends: Iterable[tuple[float, float, str]]) -> list[tuple[float, float, str]]:
    """The middle of each text above where its edge ends; those that would touch are in rows."""
    levels: list[tuple[float, list[tuple[float, str]]]] = []
    for x, y, text in sorted(ends, key=lambda end: end[1]):
        # Boxes of a layer are not equally tall.
        if not levels or y > levels[-1][0] + _LINE:
            levels.append((y, []))
        levels[-1][1].append((x, text))
    found = []
    for y, row in levels:
        taken: list[float] = []
        for x, text in sorted(row):
            width = text_width(text)
            place = next((i for i, end in enumerate(taken) if end <= x - width / 2), len(taken))
            taken[place : place + 1] = [x + width / 2 + 4]
            found.append((x, y - 13 - place * 11, text))
    return found


def text_width(text: str) -> float:
    """Width of the text of an edge in pixels."""
    return len(text) * _SMALL


def _box(x: float, y: float, box: Box) -> Iterable[str]:
    width, height = box.size
    if box.about:
        yield f"<g><title>{escape(box.about)}</title>"
    yield (
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" rx="{height / 2 if box.round else 3:.1f}" class="{box.look}" '
        f'fill="{box.fill}" stroke="{box.outline}"/>'
    )
    first = y - (len(box.lines) - 1) * _LINE / 2 + 3.5
    for i, line in enumerate(box.lines):
        weight = ' font-weight="bold"' if i == 0 else ' class="about"'
        yield (
            f'<text x="{x:.1f}" y="{first + i * _LINE:.1f}" text-anchor="middle"{weight}>'
            f"{escape(line)}</text>"
        )
    if box.about:
        yield "</g>"


def _curve(points: list[Point]) -> str:
    """A path that leaves and reaches every point downward."""
    (x, y), *rest = points
    made = f"M{x:.1f},{y:.1f}"
    for to_x, to_y in rest:
        middle = (y + to_y) / 2
        made += f"C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{to_y:.1f}"
        x, y = to_x, to_y
    return made
