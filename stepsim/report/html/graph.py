"""Where the page of a run draws its operators and what flows between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepsim.drawing import Point, end_of, placed_labels, text_width
from stepsim.report.html.groups import Groups
from stepsim.report.program_picture import picture_of
from stepsim.results import OUTLINE_VERSION, Outline

_BAR: Final = 12.0
"""Height for the bar of a box, which shows what the operator did."""


def graph_document(groups: Groups, outline: Outline | None) -> dict[str, Any]:
    """Boxes, edges, frames and texts of the drawing, in pixels.

    The page makes room where the lanes of an operator are shown.

    Parameters
    ----------
    outline : of the program, as the file of the run has it. None for files without one: then
        streams have no shapes.
    """
    picture = picture_of(_matching(groups, outline) or _from_tables(groups), room=_BAR)
    layout = picture.layout
    ends = [
        (*end_of(path), text)
        for path, text in zip(layout.paths, picture.texts, strict=True)
        if text
    ]  # fmt: skip
    return {
        "size": _rounded((layout.width, layout.height)),
        "boxes": [_rounded(box.size) for box in picture.boxes],
        "lines": [list(box.lines) for box in picture.boxes],
        "about": [box.about for box in picture.boxes],
        "centers": [_rounded(point) for point in layout.centers],
        "edges": [list(edge) for edge in picture.edges],
        "paths": [[_rounded(point) for point in path] for path in layout.paths],
        "texts": [[*_rounded((x, y)), text, round(text_width(text), 1)]
                  for x, y, text in placed_labels(ends)],
        "frames": [
            [title, *_rounded((f.left, f.top)), *_rounded((f.width, f.height))]
            for title, f in picture.frames
        ],
    }  # fmt: skip


def _matching(groups: Groups, outline: Outline | None) -> Outline | None:
    """The outline if it has the boxes of these units, so that both are numbered alike."""
    if outline is None or outline.get("version") != OUTLINE_VERSION:
        return None
    found = [(one["name"], one["units"]) for one in outline["boxes"]]
    mine = list(zip(groups.names, map(len, groups.members), strict=True))
    return outline if found == mine else None


def _from_tables(groups: Groups) -> Mapping[str, Any]:
    """What the tables of units and FIFOs say about the program."""
    each = zip(groups.names, groups.kinds, groups.sources, groups.counts, strict=True)
    return {
        "boxes": [
            {
                "name": name, "operators": [kind], "function": "", "source": source,
                "count": count, "parameters": {}, "outputs": [],
            }
            for name, kind, source, count in each
        ],
        "edges": [{"from": a, "to": b, "count": count, "elements": ""}
                  for a, b, count in groups.edges],
    }  # fmt: skip


def _rounded(point: Point) -> list[float]:
    return [round(value, 1) for value in point]
