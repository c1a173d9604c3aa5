"""What pictures of the documentation are made of: SVG in the colors of the theme."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape

INK, FAINT = "var(--color-foreground-primary, #222)", "var(--color-foreground-muted, #777)"
PAPER, FILL = "var(--color-background-primary, #fff)", "var(--color-background-secondary, #eee)"
BLUE, ORANGE, GREEN, RED, GRAY = "#3f87d4", "#d98324", "#38a169", "#dd4b4b", "#8d939c"

LETTER, ROW = 6.6, 24.0
"""Width of a character, and height of a row, pixels."""
WIDTH, LEFT = 700.0, 130.0
"""Width of a picture with an axis of time, and where the axis begins."""


def text(x: float, y: float, words: str, color: str = INK, more: str = "") -> str:
    """A line of text at its base line."""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" {more}>{escape(words)}</text>'


def rect(x: float, y: float, width: float, height: float, fill: str, more: str = "") -> str:
    """A rectangle."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}" '
        f'fill="{fill}" {more}/>'
    )


def line(points: Iterable[tuple[float, float]], color: str, more: str = "") -> str:
    """A line through points."""
    path = "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<path d="M{path}" fill="none" stroke="{color}" {more}/>'


def filled(points: list[tuple[float, float]], base: float, width: float) -> Iterator[str]:
    """A blue line, and the area between it and a base line."""
    yield line([*points, (points[-1][0], base)], "none", f'style="fill:{BLUE}" fill-opacity="0.25"')
    yield line(points, BLUE, f'stroke-width="{width}"')


def svg(width: float, height: float, parts: Iterable[str]) -> str:
    """A picture, as wide as its page at most."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="width:{width:.0f}px;max-width:100%;height:auto" role="img" '
        f'font-family="sans-serif" font-size="12">{"".join(parts)}</svg>'
    )


def axis(until: float, top: float, bottom: float, unit: str = "cycles") -> Iterator[str]:
    """The axis of time below a picture, with round numbers."""
    step = next(s * 10**e for e in range(12) for s in (1, 2, 5) if until / (s * 10**e) <= 8)
    for cycle in range(0, int(until) + 1, step):
        x = LEFT + cycle / until * (WIDTH - LEFT - 20)
        yield line([(x, top), (x, bottom)], FAINT, 'stroke-opacity="0.25"')
        yield text(x, bottom + 14, f"{cycle:,}", FAINT, 'text-anchor="middle" font-size="11"')
    yield text(WIDTH - 12, bottom + 28, unit, FAINT, 'text-anchor="end" font-size="11"')


def legend(x: float, y: float, entries: Mapping[str, str]) -> Iterator[str]:
    """Colors and what they mean, in a row."""
    for words, color in entries.items():
        yield rect(x, y - 9, 10, 10, color)
        yield text(x + 15, y, words, FAINT, 'font-size="11"')
        x += 30 + len(words) * LETTER
