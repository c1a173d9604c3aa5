"""The plot of design points: two costs, the Pareto frontier, a list of names beside it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stepsim.atomic import replacing
from stepsim.errors import SweepError
from stepsim.sweep.analysis.costs import DesignCost

__all__ = ["plot_designs"]

_LISTED = 24
"""Names that fit beside the picture."""

_NAME_WIDTH = 60
_NEAR = (0.05, 0.035)
"""Shares of width and height within which numbers would cover each other."""


def plot_designs(costs: Sequence[DesignCost], x: str, y: str, path: Path, remark: str = "") -> None:
    """Draw design points to a file; its ending decides the format.

    Points carry numbers, whose names are listed beside the picture: of all points, or, when these
    are too many, of the frontier. A remark stands above it.

    Raises
    ------
    SweepError
        matplotlib is not installed, or does not know the format.
    OutputError
        The file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SweepError(
            "plot: the package matplotlib is not installed; pip install 'stepsim[plot]'"
        ) from error
    figure = Figure(figsize=(6, 4))
    kind = path.suffix.removeprefix(".") or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        raise SweepError(f"plot: {path} has no format that matplotlib knows; use .png or .pdf")
    axes = figure.subplots()
    best = sorted((cost for cost in costs if cost.pareto_optimal), key=lambda cost: cost.x)
    others = [cost for cost in costs if not cost.pareto_optimal]
    # Between two points of the frontier, what one can have is the first one.
    axes.step([c.x for c in best], [c.y for c in best], where="post", color="0.7", zorder=1)
    for group, color, name in ((best, "tab:red", "Pareto-optimal"), (others, "tab:blue", "others")):
        if group:
            spots = axes.scatter([c.x for c in group], [c.y for c in group], s=16, zorder=2)
            spots.set(color=color, label=f"{name} ({len(group)})")
    axes.legend(fontsize=8)
    axes.margins(0.08)
    axes.set_title(remark, fontsize=8)
    _name_points(axes, best, others)
    _label_axis(axes.xaxis, x, max(cost.x for cost in costs))
    _label_axis(axes.yaxis, y, max(cost.y for cost in costs))
    with replacing(path) as (temporary,):
        # Tight, so that the list beside the axes is part of the picture, however wide it is.
        figure.savefig(temporary, format=kind, bbox_inches="tight", dpi=150)


def _name_points(axes: Any, best: Sequence[DesignCost], others: Sequence[DesignCost]) -> None:
    """Numbers at the points and their names to the right."""
    everything = sorted([*best, *others], key=lambda cost: (cost.x, cost.y))
    named = (everything if len(everything) <= _LISTED else best)[:_LISTED]
    spread = [max(getattr(c, k) for c in named) - min(getattr(c, k) for c in named) for k in "xy"]
    places: dict[tuple[float, float], list[str]] = {}
    lines = []
    for number, cost in enumerate(named, start=1):
        place = next((p for p in places if _near(p, cost, spread)), (cost.x, cost.y))
        places.setdefault(place, []).append(str(number))
        lost = f" ({cost.lost:,} runs lost)" if cost.lost else ""
        text = f"{number}  {cost.label}{lost}"
        lines += textwrap.wrap(text, _NAME_WIDTH, subsequent_indent="    ")
    for place, numbers in places.items():
        axes.annotate(
            ", ".join(numbers), place, xytext=(3, 3), textcoords="offset points", fontsize=8
        )
    if len(named) < len(everything):
        lines.append(f"{len(everything) - len(named)} more without a name here")
    right = {"transform": axes.transAxes, "verticalalignment": "top", "fontsize": 8}
    axes.text(1.03, 1, "\n".join(lines), **right)


def _near(place: tuple[float, float], cost: DesignCost, spread: Sequence[float]) -> bool:
    far = abs(place[0] - cost.x), abs(place[1] - cost.y)
    return all(far[i] <= _NEAR[i] * spread[i] for i in (0, 1))


def _label_axis(axis: Any, metric: str, largest: float) -> None:
    """Few ticks, and large numbers in thousands or millions: ``120 M``."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5))
    if largest >= 10_000:
        axis.set_major_formatter(EngFormatter())
    axis.set_label_text(f"mean {metric}")
