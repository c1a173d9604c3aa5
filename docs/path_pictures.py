"""Pictures of a critical path, and of designs by two metrics, for the pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import elements as el

__all__ = ["front", "on_path"]

_CAUSES = {
    "work": ("work", el.BLUE),
    "hbm latency": ("off-chip memory", el.GREEN),
    "hbm transfer": ("off-chip memory", el.GREEN),
    "hbm queue": ("off-chip memory", el.GREEN),
    "memory tail": ("off-chip memory", el.GREEN),
}
"""Words and color of a cause; all others are ways and waits between operators."""

_OTHER = ("from one operator to another", el.GRAY)


def on_path(found: Any) -> str:
    """A critical path over time: the row of a bar is the operator that the cycles belong to."""
    rows = found.segments.to_pylist()
    names = list(dict.fromkeys(row["operator"] for row in rows))
    scale = (el.WIDTH - el.LEFT - 20) / found.cycles
    high, parts, last = 26.0, [], None
    for number, name in enumerate(names):
        parts.append(el.text(0, number * high + 20, name))
        parts.append(el.rect(el.LEFT, number * high + 8, found.cycles * scale, 16, el.FILL))
    seen: dict[str, str] = {}
    for row in rows:
        words, color = _CAUSES.get(row["cause"], _OTHER)
        seen[words] = color
        x, y = el.LEFT + row["begin"] * scale, names.index(row["operator"]) * high + 8
        if last is not None and last != y:
            down = last < y
            ends = [(x, last + 16 if down else last), (x, y if down else y + 16)]
            parts.append(el.line(ends, el.GRAY, 'stroke-width="1.6"'))
        parts.append(el.rect(x, y, max(row["cycles"] * scale, 1.2), 16, color))
        last = y
    bottom = len(names) * high + 8
    key = el.legend(el.LEFT, bottom + 44, seen)
    return el.svg(el.WIDTH, bottom + 50, [*el.axis(found.cycles, 4, bottom), *parts, *key])


def front(costs: Iterable[Any], across: str, up: str) -> str:
    """The designs of ``st.sweep.design_costs``; the Pareto-optimal ones are joined.

    ``across`` and ``up`` are the words on the axes, of the first and of the second metric.
    """
    designs = sorted(costs, key=lambda one: one.x)
    most = [max(one.x for one in designs) * 1.08, max(one.y for one in designs) * 1.08]
    high, left = 300.0, 90.0
    wide = el.WIDTH - left - 40
    places = [(left + one.x / most[0] * wide, 10 + high * (1 - one.y / most[1])) for one in designs]
    best = [at for at, one in zip(places, designs, strict=True) if one.pareto_optimal]
    parts = [*_grid(most, left, wide, high), el.line(best, el.BLUE, 'stroke-width="1.6"')]
    for (x, y), one in zip(places, designs, strict=True):
        fill, color = (el.BLUE, el.BLUE) if one.pareto_optimal else (el.PAPER, el.GRAY)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{color}"/>')
        if one.pareto_optimal:
            last = x > left + 0.75 * wide
            anchor = "end" if last else "start"
            more = f'text-anchor="{anchor}" font-size="10.5"'
            parts.append(el.text(x if last else x + 7, y - 9, one.label, el.FAINT, more))
    parts.append(
        el.text(left + wide, high + 42, across, el.INK, 'text-anchor="end" font-size="11"')
    )
    parts.append(el.text(0, 8, up, el.INK, 'font-size="11"'))
    return el.svg(el.WIDTH, high + 50, parts)


def _grid(most: Sequence[float], left: float, wide: float, high: float) -> Iterable[str]:
    """Lines with round numbers on both axes."""
    for i, limit in enumerate(most):
        step = next(s * 10**e for e in range(15) for s in (1, 2, 5) if limit / (s * 10**e) <= 7)
        for number in range(0, int(limit) + 1, step):
            share = number / limit
            x, y = left + share * wide, 10 + high * (1 - share)
            ends = [(x, 10.0), (x, 10 + high)] if i == 0 else [(left, y), (left + wide, y)]
            yield el.line(ends, el.FAINT, 'stroke-opacity="0.25"')
            place, anchor = ((x, high + 24), "middle") if i == 0 else ((left - 8, y + 4), "end")
            yield el.text(*place, f"{number:,}", el.FAINT, f'text-anchor="{anchor}" font-size="11"')
