"""The plot of design points: two costs, the Pareto frontier, a list of names beside it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from stepsim.report.saving import save_picture
from stepsim.report.style import BLUE, FRAMED, VERMILION, empty

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DesignPoint", "draw_designs"]

_LISTED = 24
"""Names that fit beside the picture."""

_NAME_WIDTH = 60
_NEAR = (0.05, 0.035)
"""Shares of width and height within which numbers would cover each other."""


class DesignPoint(Protocol):
    """What is drawn of a design point; what `stepsim.sweep.design_costs` returns has all of it.

    Attributes
    ----------
    label : its name.
    x, y : its costs.
    pareto_optimal : no other point is at least as good in both and better in one.
    lost : runs that it lost, which its name is followed by.
    """

    @property
    def label(self) -> str: ...
    @property
    def x(self) -> float: ...
    @property
    def y(self) -> float: ...
    @property
    def pareto_optimal(self) -> bool: ...
    @property
    def lost(self) -> int: ...


def draw_designs(
    points: Sequence[DesignPoint], x: str, y: str, path: str | Path, remark: str = ""
) -> None:
    """Draw design points into an image file, with the Pareto frontier.

    Points carry numbers, whose names are listed beside the picture: of all points, or, when these
    are too many, of the frontier.

    Parameters
    ----------
    points : at least one.
    x, y : what the axes are labelled with.
    path : its suffix chooses the format: .png, .svg or .pdf. The file appears complete or not at
        all.
    remark : stands above the picture.

    Raises
    ------
    OutputError : the suffix is another, matplotlib is missing, or the file cannot be written.
    """
    # To fit, so that the list beside the axes is part of the picture, however wide it is.
    save_picture(partial(_draw, points, x, y, remark), path, FRAMED, fit=True)


def _draw(points: Sequence[DesignPoint], x: str, y: str, remark: str) -> Figure:
    figure, axes = empty(6, 4)
    best = sorted((point for point in points if point.pareto_optimal), key=lambda point: point.x)
    others = [point for point in points if not point.pareto_optimal]
    # Between two points of the frontier, what one can have is the first one.
    axes.step([p.x for p in best], [p.y for p in best], where="post", color="0.7", zorder=1)
    for group, color, name in ((best, VERMILION, "Pareto-optimal"), (others, BLUE, "others")):
        if group:
            spots = axes.scatter([p.x for p in group], [p.y for p in group], s=16, zorder=2)
            spots.set(color=color, label=f"{name} ({len(group)})")
    axes.legend(fontsize=8)
    axes.margins(0.08)
    axes.set_title(remark, fontsize=8, parse_math=False)
    _name_points(axes, best, others)
    _label_axis(axes.xaxis, x, max(point.x for point in points))
    _label_axis(axes.yaxis, y, max(point.y for point in points))
    return figure


def _name_points(axes: Any, best: Sequence[DesignPoint], others: Sequence[DesignPoint]) -> None:
    """Numbers at the points and their names to the right."""
    everything = sorted([*best, *others], key=lambda point: (point.x, point.y))
    named = (everything if len(everything) <= _LISTED else best)[:_LISTED]
    spread = [max(getattr(p, k) for p in named) - min(getattr(p, k) for p in named) for k in "xy"]
    places: dict[tuple[float, float], list[str]] = {}
    lines = []
    for number, point in enumerate(named, start=1):
        place = next((p for p in places if _near(p, point, spread)), (point.x, point.y))
        places.setdefault(place, []).append(str(number))
        lost = f" ({point.lost:,} runs lost)" if point.lost else ""
        text = f"{number}  {point.label}{lost}"
        lines += textwrap.wrap(text, _NAME_WIDTH, subsequent_indent="    ")
    for place, numbers in places.items():
        axes.annotate(
            ", ".join(numbers), place, xytext=(3, 3), textcoords="offset points", fontsize=8
        )
    if len(named) < len(everything):
        lines.append(f"{len(everything) - len(named)} more without a name here")
    right = {"transform": axes.transAxes, "verticalalignment": "top", "fontsize": 8}
    axes.text(1.03, 1, "\n".join(lines), parse_math=False, **right)


def _near(place: tuple[float, float], point: DesignPoint, spread: Sequence[float]) -> bool:
    far = abs(place[0] - point.x), abs(place[1] - point.y)
    return all(far[i] <= _NEAR[i] * spread[i] for i in (0, 1))


def _label_axis(axis: Any, label: str, largest: float) -> None:
    """Few ticks, and large numbers in thousands or millions: ``120 M``."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5))
    if largest >= 10_000:
        axis.set_major_formatter(EngFormatter())
    axis.set_label_text(label, parse_math=False)
