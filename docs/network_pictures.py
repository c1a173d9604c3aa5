"""Pictures of what is between operators and between chips: places, links and their loads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import elements as el
import numpy as np

__all__ = ["chips", "placement"]

Point = tuple[float, float]

_CENTERED = 'text-anchor="middle"'


def _arrow(begin: Point, end: Point, words: str, color: str, wide: float = 2.4) -> Iterator[str]:
    """An arrow to the right of the line between two points, and a text on its side of the line."""
    length = math.hypot(end[0] - begin[0], end[1] - begin[1])
    along = (end[0] - begin[0]) / length, (end[1] - begin[1]) / length
    aside = -along[1], along[0]
    ends = [(x + 6 * aside[0], y + 6 * aside[1]) for x, y in (begin, end)]
    yield el.line(ends, color, f'stroke-width="{wide}"')
    (x, y), tip = ends[1], (along[0] * 7, along[1] * 7)
    wings = [(x - tip[0] + way * aside[0] * 4, y - tip[1] + way * aside[1] * 4) for way in (1, -1)]
    head = "L".join(f"{a:.1f},{b:.1f}" for a, b in ((x, y), *wings))
    yield f'<path d="M{head}z" fill="{color}"/>'
    # A text beside an arrow begins or ends there; one along a level arrow is centered.
    anchor = "middle" if abs(aside[0]) < 0.3 else "start" if aside[0] > 0 else "end"
    x = (ends[0][0] + ends[1][0]) / 2 + aside[0] * 8
    y = (ends[0][1] + ends[1][1]) / 2 + aside[1] * (14 if aside[1] > 0 else 5)
    y += 4 if anchor != "middle" and abs(aside[1]) < 0.3 else 0
    yield el.text(x, y, words, color, f'text-anchor="{anchor}" font-size="11"')


def placement(found: Any) -> str:
    """The tiles of a mesh with their operators and memory ports, and the bytes of the links."""
    topology, loads, places = found.topology, found.link_bytes, found.placement
    cols, rows = topology.network.cols, topology.network.rows
    holds: dict[int, list[tuple[str, str]]] = {}
    for name, tiles in places.tiles.items():
        for tile in tiles:
            holds.setdefault(tile, []).append((name, el.INK))
    for name, place in places.ports.items():
        holds.setdefault(place, []).append((f"port of {name}", el.GREEN))
    wide = max((len(words) for held in holds.values() for words, _ in held), default=0) * 6.2 + 16
    high = 22 + 14 * max(len(held) for held in holds.values())
    across, down = wide + 62, high + 40
    parts = []
    for place in range(topology.places):
        x, y = place % cols * across + 4, place // cols * down + 4
        held = holds.get(place, [])
        look = f'rx="4" stroke="{el.FAINT}"'
        parts.append(el.rect(x, y, wide, high, el.FILL if held else el.PAPER, look))
        parts.append(el.text(x + 6, y + 15, topology.place_name(place), el.FAINT, 'font-size="11"'))
        for number, (words, color) in enumerate(held):
            parts.append(el.text(x + wide / 2, y + 30 + 14 * number, words, color, _CENTERED))
    for link in range(topology.link_count):
        if loads[link]:
            one, other = (int(p[0]) for p in topology.places_of(np.array([link])))
            middle = [(p % cols * across + 4 + wide / 2, p // cols * down + 4 + high / 2)
                      for p in (one, other)]  # fmt: skip
            level = abs(one - other) == 1
            way = math.copysign(1, other - one)
            step = (way * wide / 2, 0.0) if level else (0.0, way * high / 2)
            begin = middle[0][0] + step[0], middle[0][1] + step[1]
            end = middle[1][0] - step[0], middle[1][1] - step[1]
            busiest = topology.name_of(link) == found.busiest_link
            parts += _arrow(begin, end, f"{loads[link]:,}", el.RED if busiest else el.BLUE)
    return el.svg(cols * across - 50, rows * down - 30, parts)


def chips(run: Any) -> str:
    """The chips of a run, when each was done, and the bytes of the links between them."""
    found, links = run.chips().to_pylist(), run.links().to_pylist()
    count, radius = len(found), max(100.0, 44.0 * len(found) / math.pi)
    wide, high = 128.0, 40.0
    middle = radius + wide / 2 + 60, radius + high / 2 + 24
    at = {
        row["chip"]: (
            middle[0] + 2.1 * radius * math.sin(2 * math.pi * number / count),
            middle[1] - radius * math.cos(2 * math.pi * number / count),
        )
        for number, row in enumerate(found)
    }
    left = min(x for x, _ in at.values()) - wide / 2 - 4
    parts = []
    for link in links:
        # A link to a switch, which is at none of the chips, goes to the middle.
        one, other = (at.get(link[end], middle) for end in ("from_device", "to_device"))
        begin, end = (_edge(a, b, wide + 10, high + 10) for a, b in ((one, other), (other, one)))
        begin, end = (begin[0] - left, begin[1]), (end[0] - left, end[1])
        if link["link_bytes"]:
            share = link["link_busy_cycles"] / run.cycles
            parts += _arrow(begin, end, f"{link['link_bytes']:,} B, {share:.0%}", el.BLUE)
        else:
            parts.append(el.line([begin, end], el.FAINT, 'stroke-opacity="0.4"'))
    for row in found:
        x, y = at[row["chip"]]
        box = el.rect(x - left - wide / 2, y - high / 2, wide, high, el.FILL,
                   f'rx="4" stroke="{el.FAINT}"')  # fmt: skip
        parts.append(box)
        parts.append(el.text(x - left, y - 3, f"chip {row['chip']}", el.INK,
                          f'{_CENTERED} font-weight="bold"'))  # fmt: skip
        parts.append(
            el.text(x - left, y + 13, f"done at {row['chip_cycles']:,}", el.FAINT, _CENTERED)
        )
    right = max(x for x, _ in at.values()) + wide / 2 + 4
    return el.svg(right - left, middle[1] + radius + high / 2 + 8, parts)


def _edge(of: Point, toward: Point, wide: float, high: float) -> Point:
    """Where the line from the middle of a box to another point leaves the box."""
    x, y = toward[0] - of[0], toward[1] - of[1]
    share = min(wide / 2 / abs(x) if x else math.inf, high / 2 / abs(y) if y else math.inf)
    return of[0] + x * share, of[1] + y * share
