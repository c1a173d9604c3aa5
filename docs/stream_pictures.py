"""Pictures of streams: their tokens in order, and the rows of tiles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import elements as el

__all__ = ["streams", "tiles"]


def streams(values: Any, named: Mapping[str, Any]) -> str:
    """The tokens of streams of scalar tiles in their order, each with the stop that follows it."""
    parts, y, width = [], 14.0, 0.0
    for name, stream in named.items():
        sizes = ", ".join(map(str, values.shape(stream)))
        parts.append(el.text(0, y, name, el.INK, 'font-weight="bold"'))
        parts.append(el.text(len(name) * 7.6 + 16, y, f"[{sizes}]", el.FAINT))
        x = 4.0
        for token in values.stream(stream):
            parts.append(el.rect(x, y + 8, 26, el.ROW, el.FILL, f'stroke="{el.FAINT}"'))
            shown = f"{float(token.payload.data[0, 0]):g}"
            parts.append(el.text(x + 13, y + 24, shown, el.INK, 'text-anchor="middle"'))
            x += 26
            if token.level:
                color = (el.BLUE, el.ORANGE, el.RED)[token.level - 1]
                parts.append(el.rect(x, y + 8, 24, el.ROW, color))
                stop = f"S{token.level}"
                parts.append(el.text(x + 12, y + 24, stop, "#fff", 'text-anchor="middle"'))
                x += 24
            x += 5
        width = max(width, x)
        y += el.ROW + 32
    return el.svg(max(width, 300), y - 10, parts)


def tiles(named: Mapping[str, Iterable[Any]]) -> str:
    """The rows of tiles, full ones and padding, of each lane: a column for each tile."""
    parts: list[str] = []
    unit, y, width, padding = 9.0, 4.0, 0.0, False
    for name, lane in named.items():
        sizes = [(token.payload.valid, token.payload.data.shape[0]) for token in lane]
        high = max((rows for _, rows in sizes), default=1) * unit
        parts.append(el.text(0, y + high / 2 + 4, name))
        x = el.LEFT
        for valid, rows in sizes:
            for row in range(rows):
                full = row < valid
                padding |= not full
                look = f'stroke="{el.BLUE if full else el.GRAY}" stroke-width="1"'
                look += "" if full else ' stroke-dasharray="2 2"'
                fill = el.BLUE if full else "none"
                parts.append(el.rect(x, y + row * unit, 54, unit - 2, fill, look))
            x += 68
        width = max(width, x)
        y += high + 14
    parts += el.legend(el.LEFT, y + 6, {"row of a token": el.BLUE})
    if padding:
        x = el.LEFT + 130
        parts.append(
            el.rect(x, y - 3, 10, 10, "none", f'stroke="{el.GRAY}" stroke-dasharray="2 2"')
        )
        parts.append(el.text(x + 15, y + 6, "padding", el.FAINT, 'font-size="11"'))
    return el.svg(max(width, 420), y + 14, parts)
