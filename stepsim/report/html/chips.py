"""Where the page of a run on several chips draws them: chips and switches on circles, and links."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

_CARRIERS: Final = ("SendMessage", "ReceiveMessage")
"""Operators that belong to streams between chips."""

MOST_CHIPS: Final = 64
"""Chips that are drawn."""

_AROUND: Final = 118.0
"""Pixels on the circle from the middle of a chip to that of the next."""

_LEAST: Final = 150.0
_MARGIN: Final = 80.0
_ASIDE: Final = 6.0
"""Pixels from the straight line between two devices to each link of a pair."""

_INSIDE: Final = 0.45
"""Radius of the circle of several switches, as a part of that of the chips."""


def chips_document(
    row: Mapping[str, Any], units: pa.Table, links: pa.Table | None
) -> dict[str, Any] | None:
    """Chips, switches and links of the drawing, in pixels; None for a run on one chip.

    A chip has the share of the run in which its busiest operator works.
    """
    if links is None or "from_device" not in links.schema.names:
        return None
    begin, end = links["from_device"].to_pylist(), links["to_device"].to_pylist()
    chips, names = _total(row), _devices(row, links)
    switches = len(names) - chips
    shown = {
        "names": link_names(row, links),
        "shares": links["link_utilization"].to_pylist(),
        "about": [
            f"{link['link_messages']:,} messages, {link['link_bytes']:,} bytes, waits "
            f"{link['link_waited_cycles']:,} cycles"
            for link in links.to_pylist()
        ],
        "where": "chips",
    }
    if chips > MOST_CHIPS:
        return {"size": [0, 0], "places": [], "links": [], **shown}
    radius = max(_LEAST, chips * _AROUND / (2 * math.pi))
    middle = radius + _MARGIN
    points = _circle(chips, radius, middle)
    points += [(middle, middle)] if switches == 1 else _circle(switches, radius * _INSIDE, middle)
    own: dict[int, list[int]] = {}
    kinds = units["operator"].to_pylist()
    for unit, chip in enumerate(units["chip"].to_pylist()):
        if kinds[unit] not in _CARRIERS:
            own.setdefault(chip, []).append(unit)
    busy, cycles = units["busy"].to_pylist(), max(row["cycles"], 1)
    return {
        "size": [round(2 * middle)] * 2,
        "places": [
            {
                "at": [round(x, 1), round(y, 1)], "name": names[device],
                "units": own.get(device, []), "ports": [],
                "busy": max((busy[unit] / cycles for unit in own.get(device, ())), default=None),
            }
            for device, (x, y) in enumerate(points)
        ],
        "links": [
            _line(points[one], points[other]) for one, other in zip(begin, end, strict=True)
        ],
        **shown,
    }  # fmt: skip


def link_names(row: Mapping[str, Any], links: pa.Table) -> list[str]:
    """The links in words, as elsewhere: ``chip 0 to the switch``."""
    names = _devices(row, links)
    ends = zip(links["from_device"].to_pylist(), links["to_device"].to_pylist(), strict=True)
    return [f"{names[one]} to {names[other]}" for one, other in ends]


def _devices(row: Mapping[str, Any], links: pa.Table) -> list[str]:
    chips = _total(row)
    ends = (links[end].to_pylist() for end in ("from_device", "to_device"))
    switches = max((device for end in ends for device in end), default=0) + 1 - chips
    names = [f"chip {chip}" for chip in range(chips)]
    if switches == 1:
        return [*names, "the switch"]
    return names + [f"switch {number}" for number in range(switches)]


def _total(row: Mapping[str, Any]) -> int:
    count = row["provenance"]["machine"]["chips"]["count"]
    return math.prod(count) if isinstance(count, list | tuple) else int(count)


def _circle(count: int, radius: float, middle: float) -> list[tuple[float, float]]:
    """Points on a circle, the first one at its top."""
    angles = [2 * math.pi * i / count for i in range(count)]
    return [(middle + radius * math.sin(a), middle - radius * math.cos(a)) for a in angles]


def _line(one: tuple[float, float], other: tuple[float, float]) -> list[float]:
    """Both ends of a link, beside that which leads back, and where its figure is."""
    length = math.dist(one, other) or 1.0
    across = (other[0] - one[0]) / length, (other[1] - one[1]) / length
    x, y = -across[1] * _ASIDE, across[0] * _ASIDE
    ends = (one[0] + x, one[1] + y, other[0] + x, other[1] + y)
    return [*(round(number, 1) for number in ends), 0.5]
