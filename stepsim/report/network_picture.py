"""A network as a picture: its places, and its links in the color of their load."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape
from os import PathLike
from pathlib import Path
from typing import Final

import numpy as np

from stepsim.atomic import replacing
from stepsim.drawing import FONT
from stepsim.errors import OutputError
from stepsim.noc import NocRun, Topology
from stepsim.placement import FoundPlacement
from stepsim.typed import typed

_STEP: Final = 56.0
_SIDE: Final = 24.0
_MARGIN: Final = 44.0
_HEAD: Final = 58.0
_APART: Final = 4.0
"""Pixels from the middle of a pair of links to each."""

_FILLS: Final = {"W": "#ffffff", "D": "#cfe0f3", "E": "#dcecd5", "U": "#ececec"}
_KEY: Final = {"W": "worker", "D": "DRAM", "E": "Ethernet", "U": "unused"}
_COLD: Final = (221, 221, 221)
_HOT: Final = (178, 24, 43)
MOST_PLACES: Final = 4096
"""Places of a network that is drawn."""

Point = tuple[float, float]

_Link = tuple[int, float, str]
"""Number of a link, its share of what is red, and what pointing at it shows."""


@typed
def draw_network(run: NocRun, path: str | PathLike[str]) -> None:
    """Write a picture of the network of a run as SVG.

    A link is the redder the nearer its load is to what it can take from cycle 0 to the last
    arrival; pointing at it shows its name, load and transfers. Links around the edge of a torus end
    half-way.

    Raises
    ------
    OutputError : the name does not end in .svg, the file cannot be written, or the network has too
        many places to be drawn.
    """
    rows = [
        (
            row["link"],
            row["link_share"],
            f"{row['link_name']}: {row['link_share']:.1%}, {row['link_transfers']:,} transfers",
        )
        for row in run.links().to_pylist()
    ]
    _write(run.topology, path, rows, _head_of_run(run), {}, "of the link", "NocRun.links()")


@typed
def draw_placement(found: FoundPlacement, path: str | PathLike[str]) -> None:
    """Write a picture of a placement as SVG: the grid, its operators, and the load of every link.

    A link is the redder the nearer its bytes are to those of the busiest one; pointing at it shows
    its bytes, pointing at a place its operators and memory ports. Places have the name that links
    and files have for them, in bold where there are operators.

    Raises
    ------
    OutputError : as `draw_network`.
    """
    topology, loads = found.topology, found.link_bytes
    most = max(int(loads.max(initial=0)), 1)
    links = np.flatnonzero(topology.exists(np.arange(topology.link_count)))
    rows = [
        (int(link), loads[link] / most, f"{topology.name_of(int(link))}: {loads[link]:,} bytes")
        for link in links
    ]
    placement = found.placement
    holds: dict[int, list[str]] = {}
    on_tiles = ((name, tile) for name, tiles in placement.tiles.items() for tile in tiles)
    for name, place in on_tiles:
        holds.setdefault(place, []).append(name)
    for name, place in placement.ports.items():
        holds.setdefault(place, []).append(f"memory port of {name}")
    figures = found.metrics()
    head = (
        f"{placement.network.name}: {figures['operators']} operators on {figures['tiles']} tiles",
        "no link is used"
        if found.busiest_link is None
        else f"busiest link {found.busiest_link}, {figures['busiest_link_bytes']:,} bytes "
        f"({figures['row_major_busiest_link_bytes']:,} row by row)",
    )
    _write(topology, path, rows, head, holds, "of the busiest link", "FoundPlacement.link_bytes")


def _write(
    topology: Topology, path: str | PathLike[str], rows: list[_Link], head: tuple[str, str],
    holds: Mapping[int, list[str]], key: str, instead: str,
) -> None:  # fmt: skip
    file = Path(path)
    if file.suffix.lower() != ".svg":
        raise OutputError(f"{file}: the suffix is {file.suffix or 'missing'}, expected .svg")
    if topology.places > MOST_PLACES:
        raise OutputError(
            f"{file}: a network of {topology.places:,} places is not drawn; expected at most "
            f"{MOST_PLACES:,}, use {instead}"
        )
    points = place_points(topology, (_STEP, _STEP), (_MARGIN, _HEAD + _MARGIN))
    wide = max(max(x for x, _ in points) + _MARGIN, 420.0)
    high = max(y for _, y in points) + _MARGIN
    body = [
        *_links(topology, rows, points), *_places(topology, points, holds), *_head(*head, key)
    ]  # fmt: skip
    with replacing(file) as (part,):
        part.write_text(_svg(wide, high, body), encoding="utf-8")


def _svg(wide: float, high: float, body: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" '
        f'viewBox="0 0 {wide:.0f} {high:.0f}" font-family="{FONT}" font-size="11">\n'
        f'<rect width="{wide:.0f}" height="{high:.0f}" fill="#ffffff"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def place_points(topology: Topology, apart: Point, first: Point) -> list[Point]:
    """Where the middle of every place is, and at last that of a switch.

    Parameters
    ----------
    apart : of the middles of neighbors, in x and y.
    first : the least x and y of them.
    """
    network = topology.network
    if topology.is_grid:
        return [
            (first[0] + apart[0] * (place % network.cols),
             first[1] + apart[1] * (place // network.cols))
            for place in range(topology.places)
        ]  # fmt: skip
    count, step = topology.places, max(apart)
    radius = max(1.5 * step, step * count / (2 * math.pi))
    middle = first[0] + radius, first[1] + radius
    around = [
        (
            middle[0] + radius * math.sin(2 * math.pi * i / count),
            middle[1] - radius * math.cos(2 * math.pi * i / count),
        )
        for i in range(count)
    ]
    return [*around, middle] if network.topology == "switch" else around


def link_ends(
    topology: Topology, link: int, points: list[Point], apart: Point, aside: float
) -> tuple[Point, Point]:
    """Where a link begins and ends between the `place_points`, to the right of its way."""
    one, other = (int(place[0]) for place in topology.places_of(np.array([link])))
    begin, end = points[one], points[other]
    if topology.is_grid:
        ways = ((apart[0], 0.0), (0.0, apart[1]), (0.0, -apart[1]), (-apart[0], 0.0))
        across, down = ways[link % 4]
        far = abs(end[0] - begin[0] - across) + abs(end[1] - begin[1] - down)
        if far > 1e-6:  # around the edge
            end = begin[0] + across * 0.6, begin[1] + down * 0.6
    length = math.hypot(end[0] - begin[0], end[1] - begin[1])
    x, y = -(end[1] - begin[1]) / length * aside, (end[0] - begin[0]) / length * aside
    return (begin[0] + x, begin[1] + y), (end[0] + x, end[1] + y)


def _links(topology: Topology, rows: list[_Link], points: list[Point]) -> Iterator[str]:
    for link, share, about in sorted(rows, key=lambda row: row[1]):
        begin, end = link_ends(topology, link, points, (_STEP, _STEP), _APART)
        yield (
            f'<line x1="{begin[0]:.1f}" y1="{begin[1]:.1f}" '
            f'x2="{end[0]:.1f}" y2="{end[1]:.1f}" '
            f'stroke="{_color(share)}" stroke-width="5">'
            f"<title>{escape(about)}</title></line>"
        )


def _places(
    topology: Topology, points: list[Point], holds: Mapping[int, list[str]]
) -> Iterator[str]:
    letters = topology.network.core_letters
    for place, (x, y) in enumerate(points):
        fill = _FILLS[letters[place]] if place < len(letters) else "#ffffff"
        name = topology.place_name(place)
        kind = (
            f", {_KEY[letters[place]]}" if topology.network.cores and place < len(letters) else ""
        )
        held = "".join(f"\n{one}" for one in holds.get(place, ()))
        yield (
            f'<rect x="{x - _SIDE / 2:.1f}" y="{y - _SIDE / 2:.1f}" width="{_SIDE:g}" '
            f'height="{_SIDE:g}" rx="3" fill="{fill}" stroke="#555">'
            f"<title>{escape(name + kind + held)}</title></rect>"
        )
        short = name.strip("()").replace(" ", "") if place < topology.places else "S"
        size = 9 if len(short) < 5 else 7
        bold = ' font-weight="bold"' if held else ""
        yield (
            f'<text x="{x:.1f}" y="{y + 3.5:.1f}" font-size="{size}"{bold} text-anchor="middle" '
            f'fill="#333333" pointer-events="none">{short}</text>'
        )


def _head_of_run(run: NocRun) -> tuple[str, str]:
    load = "no link is used"
    if run.busiest_link is not None:
        share = run.metrics()["busiest_link_share"]
        load = f"busiest link {run.busiest_link}, {share:.1%} of what it can take"
    name = run.topology.network.name
    transfers, cycles = len(run.arrival), run.cycles
    return f"{name}, model {run.model}: {transfers:,} transfers in {cycles:,.0f} cycles", load


def _head(title: str, load: str, key: str) -> Iterator[str]:
    yield f'<text x="12" y="20" font-weight="bold" fill="#333333">{escape(title)}</text>'
    yield f'<text x="12" y="37" fill="#333333">{escape(load)}</text>'
    for i in range(5):
        yield (
            f'<rect x="{12 + 22 * i}" y="45" width="22" height="8" fill="{_color(i / 4)}">'
            f"<title>{i / 4:.0%}</title></rect>"
        )
    yield f'<text x="130" y="53" font-size="9" fill="#333333">0 to 100 % {key}</text>'


def _color(share: float) -> str:
    part = min(1.0, max(0.0, share))
    mixed = (round(cold + (hot - cold) * part) for cold, hot in zip(_COLD, _HOT, strict=True))
    return "#{:02x}{:02x}{:02x}".format(*mixed)
