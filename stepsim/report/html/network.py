"""Where the page of a placed run draws its network: places, what is on them, and the links."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from stepsim.machine import Network
from stepsim.noc import Topology
from stepsim.report.network_picture import MOST_PLACES, Point, link_ends, place_points

_APART: Final = (144.0, 92.0)
"""Pixels between the middles of neighbors, in x and in y."""

_MARGIN: Final = 100.0
_ASIDE: Final = 7.0
"""Pixels from the straight line between two places to each link of a pair."""


def network_document(
    row: Mapping[str, Any], units: pa.Table, links: pa.Table | None
) -> dict[str, Any] | None:
    """Places and links of the drawing, in pixels; None for a run that was not placed.

    A place has the share of the run in which its busiest operator works.
    """
    provenance = row["provenance"]
    placed, machine = provenance.get("place"), provenance.get("machine")
    if links is None or placed is None or not machine or not machine.get("noc"):
        return None
    topology = Topology(Network(**machine["noc"]))
    if topology.places > MOST_PLACES:
        return {"size": [0, 0], "places": [], "links": [], **_shown(links)}
    points = place_points(topology, _APART, (_MARGIN, _MARGIN))
    on: dict[int, list[int]] = {}
    numbers = {name: unit for unit, name in enumerate(units["name"].to_pylist())}
    for name, places in placed["operators"].items():
        for place in _each(places):
            on.setdefault(place, []).append(numbers[name])
    ports: dict[int, list[str]] = {}
    for name, places in placed["ports"].items():
        for place in _each(places):
            ports.setdefault(place, []).append(name)
    busy, cycles = units["busy"].to_pylist(), max(row["cycles"], 1)
    return {
        "size": [
            round(max(x for x, _ in points) + _MARGIN), round(max(y for _, y in points) + _MARGIN)
        ],
        "places": [
            {
                "at": [round(x, 1), round(y, 1)], "name": topology.place_name(place),
                "units": on.get(place, []), "ports": ports.get(place, []),
                "busy": max((busy[unit] / cycles for unit in on.get(place, ())), default=None),
            }
            for place, (x, y) in enumerate(points)
        ],
        "links": [_line(topology, link, points) for link in links["link"].to_pylist()],
        **_shown(links),
    }  # fmt: skip


def _shown(links: pa.Table) -> dict[str, Any]:
    """What is said of every link: its name, the share of the run in which it is busy, and more."""
    waits = zip(links["link_flits"].to_pylist(), links["link_wait_cycles"].to_pylist(), strict=True)
    return {
        "names": links["link_name"].to_pylist(),
        "shares": links["link_share"].to_pylist(),
        "about": [f"{flits:,} flits, waits {cycles:,} cycles" for flits, cycles in waits],
        "where": "places",
    }


def _line(topology: Topology, link: int, points: list[Point]) -> list[float]:
    """Both ends of a link, and how far on its way the figure beside it is."""
    ends = link_ends(topology, link, points, _APART, _ASIDE)
    # A link around the edge of a grid ends outside of it.
    cut = topology.is_grid and math.dist(*ends) < 0.99 * min(_APART)
    return [*(round(number, 1) for end in ends for number in end), 0.85 if cut else 0.5]


def _each(places: Any) -> Iterable[int]:
    return places if isinstance(places, list) else (places,)
