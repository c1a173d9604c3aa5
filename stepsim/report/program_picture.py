"""A program as a picture: operators with lanes as one, what flows between them, frames by label.

The page of a run draws the same (:mod:`stepsim.report.html.graph`), with what happened in the run.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, Final

from stepsim.atomic import replacing
from stepsim.drawing import ARROW, CHARACTER, FONT, Box, Layout, graph_elements, text_width
from stepsim.report.clustered import Frame, clustered
from stepsim.results import Outline, line_of, place_of, unnumbered
from stepsim.typed import typed

_ACROSS, _DOWN = 30.0, 62.0
_PAD, _HEAD = 18.0, 46.0
_LONG: Final = 44
"""Letters of a text from which on it is shortened."""

_TILES = re.compile(r"of Tile\[(.*)\]")
_MEMORY: Final = ("linear_load", "linear_store", "random_load", "random_store")

_FILLS: Final = {"memory": "#ececec", "copy": "#f7f7f7", "box": "#ffffff"}
_TIMES: Final = "\N{MULTIPLICATION SIGN}"
_KEY: Final = (
    f"gray: load or store; {_TIMES} n: lanes, drawn once; on edges: shape of the stream and its "
    "elements"
)

_DARK: Final = {
    "text": "fill:#e4e7ec",
    "text.about": "fill:#b4bccb",
    "rect.page": "fill:#14161a",
    "rect.box": "fill:#1d2026;stroke:#8d97a8",
    "rect.memory": "fill:#333a45;stroke:#8d97a8",
    "rect.copy": "fill:#191c21;stroke:#626c7c",
    "rect.behind": "fill:#14161a",
    "rect.frame": "fill:#20304a;stroke:#48608a",
    "path.edge": "stroke:#9aa4b4",
    "path.tip": "fill:#9aa4b4",
}
"""Colors on dark pages; those on light ones are attributes, which every viewer of SVG knows."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes and edges of a program, and where they lie.

    Attributes
    ----------
    boxes, edges, texts : boxes, edges between them and the text of each.
    layout : their places in pixels.
    frames : title and place of the frame around the boxes whose labels begin alike.
    """

    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]
    texts: tuple[str, ...]
    layout: Layout
    frames: tuple[tuple[str, Frame], ...]


def picture_of(outline: Outline, room: float = 0.0) -> Picture:
    """The picture of a program from its outline, with ``room`` below the text of each box."""
    boxes = tuple(_box(one, room) for one in outline["boxes"])
    edges = tuple((one["from"], one["to"]) for one in outline["edges"])
    stages: dict[str, list[int]] = {}
    for number, one in enumerate(outline["boxes"]):
        if stage := place_of(one["name"]).stage:
            stages.setdefault(stage, []).append(number)
    titles = [stage for stage, members in stages.items() if len(members) > 1]
    texts = tuple(_edge_text(one) for one in outline["edges"])
    layout, frames = clustered(
        [box.size for box in boxes], edges, [stages[one] for one in titles],
        texts=[text_width(text) for text in texts], across=_ACROSS, down=_DOWN,
    )  # fmt: skip
    return Picture(boxes, edges, texts, layout, tuple((titles[f.cluster], f) for f in frames))


def _box(one: Mapping[str, Any], room: float) -> Box:
    """What a box says: its name and count, the operator and function, the source line."""
    count = one["count"]
    title = _cut(one["name"]) + (f" {_TIMES} {count:,}" if count > 1 else "")
    plain, words = unnumbered(one["name"]), ", ".join(one["operators"])
    if one["function"] and one["function"] != plain:
        words += f" {one['function']}"
    # Do not repeat what the title says.
    details = ["" if words == plain else words, line_of(one["source"])]
    lines = [title, *filter(None, [_cut(" · ".join(filter(None, details)))])]
    look = "box"
    if one["operators"] in (["broadcast"], ["Broadcast"]):
        look, lines = "copy", [f"copy{f' {_TIMES} {count:,}' if count > 1 else ''}"]
    elif any(kind in _MEMORY for kind in one["operators"]):
        look = "memory"
    about = [one["name"], *(f"{name}: {value}" for name, value in one["parameters"].items())]
    about += [f"output: {text}" for text in one["outputs"]]
    about += [one["source"]] if one["source"] else []
    return Box(tuple(lines), _FILLS[look], look == "memory", look, "\n".join(about), room)


def _edge_text(one: Mapping[str, Any]) -> str:
    """``[4, 1] of 16x64 bf16``, with the number of FIFOs where there are several."""
    text = _cut(_TILES.sub(r"of \1", one["elements"]))
    return f"{text} {_TIMES} {one['count']:,}".strip() if one["count"] > 1 else text


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"


def program_svg(outline: Outline, title: str) -> str:
    """The picture as an SVG file, light or dark as the viewer prefers."""
    rules = "".join(f"{name}{{{look}}}" for name, look in _DARK.items())
    style = f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>"
    return _svg(picture_of(outline), title, style)


def program_page(outline: Outline, title: str) -> str:
    """The picture as an HTML page with a switch between light and dark."""
    dark = "".join(f":root.dark {name}{{{look}}}" for name, look in _DARK.items())
    style = (
        "body{margin:0;background:#fff;font-family:system-ui,sans-serif}"
        ":root.dark body{background:#14161a}"
        "button{position:fixed;top:.6rem;right:.8rem;font:inherit;padding:.3rem .8rem;"
        "border:1px solid #8d97a8;border-radius:6px;background:#fff;color:#1c2430}"
        ":root.dark button{background:#1d2026;color:#e4e7ec}"
        f"svg{{display:block;margin:0 auto}}{dark}"
    )
    digest = base64.b64encode(hashlib.sha256(_SWITCH.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} · stepsim graph</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<button type="button" id="theme" aria-pressed="false">Dark</button>\n'
        f"{_svg(picture_of(outline), title, '')}<script>{_SWITCH}</script>\n</body>\n</html>\n"
    )


_SWITCH: Final = (
    "const root=document.documentElement,button=document.getElementById('theme');"
    "const show=(dark)=>{root.classList.toggle('dark',dark);"
    "button.setAttribute('aria-pressed',String(dark));button.textContent=dark?'Light':'Dark';};"
    "show(matchMedia('(prefers-color-scheme: dark)').matches);"
    "button.onclick=()=>show(!root.classList.contains('dark'));"
)


@typed
def write_picture(path: str | PathLike[str], outline: Mapping[str, Any], title: str) -> None:
    """Write the picture of a program, as SVG or, with the suffix ``.html``, as a page.

    Raises
    ------
    OutputError : the file cannot be written; then no file remains.
    """
    make = program_page if Path(path).suffix == ".html" else program_svg
    with replacing(path) as (part,):
        part.write_text(make(outline, title), encoding="utf-8")


def _svg(picture: Picture, title: str, style: str) -> str:
    layout = picture.layout
    sides = [
        path[-1][0] + side * text_width(text) / 2
        for path, text in zip(layout.paths, picture.texts, strict=True)
        for side in (-1, 1)
    ]
    left, right = min(0.0, *sides, 0.0), max(layout.width, *sides, 0.0)
    move = (_PAD - left, _HEAD + _PAD)
    width = max(right - left, len(_KEY) * CHARACTER, len(title) * 9.0) + 2 * _PAD
    height = layout.height + _HEAD + 2 * _PAD
    parts = [*_frames(picture.frames, move)]
    parts += graph_elements(layout, picture.boxes, picture.texts, move)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{FONT}" font-size="10">\n'
        f"<title>{escape(title)}</title>\n{style}\n{ARROW}\n"
        f'<rect class="page" width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>\n'
        f'<text x="{_PAD}" y="24" font-size="14" font-weight="bold">{escape(title)}</text>\n'
        f'<text x="{_PAD}" y="40" class="about" fill="#555">{_KEY}</text>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _frames(frames: Sequence[tuple[str, Frame]], move: tuple[float, float]) -> list[str]:
    """The frames as elements of SVG, with their titles."""
    found = []
    for title, frame in frames:
        left, top = frame.left + move[0], frame.top + move[1]
        found.append(
            f'<rect class="frame" x="{left:.1f}" y="{top:.1f}" width="{frame.width:.1f}" '
            f'height="{frame.height:.1f}" rx="8" fill="#e8f0fb" stroke="#a9c1e3"/>'
            f'<text x="{left + 8:.1f}" y="{top + 14:.1f}" font-weight="bold">'
            f"{escape(_cut(title))}</text>"
        )
    return found
