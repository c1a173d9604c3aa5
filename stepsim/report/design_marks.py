"""Colors and shapes of design points by axes, or by a third cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

from stepsim.deferred import deferred
from stepsim.report.style import INK, PALETTE, legend_mark
from stepsim.report.units import axis_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

matplotlib = deferred("matplotlib")

_MARKERS: Final = ("o", "s", "D", "^", "v", "P", "X", "*")
_SMALL, _LARGE = 14.0, 90.0
"""Areas of points by their third cost, in square points."""


@dataclass(frozen=True)
class DesignLook:
    """The meaning of the colors and shapes of points.

    Attributes
    ----------
    z : label of a third cost, which colors the points if no axis does, and otherwise sizes them.
    colors, markers : text for each point, by which it is colored or shaped; None if not used.
    color_name, marker_name : names of these texts.
    """

    z: str | None = None
    colors: Sequence[str] | None = None
    markers: Sequence[str] | None = None
    color_name: str | None = None
    marker_name: str | None = None


def draw_marks(figure: Figure, axes: Axes, points: Sequence[Any], look: DesignLook) -> None:
    """Draw the points, those of the frontier with a dark edge, and a legend below.

    If there are more values than colors or shapes, these are reused in turn.
    """
    colors = _values(look.colors)
    shapes = _values(look.markers)
    third = [point.z for point in points] if look.z is not None else None
    shown: Any = None
    for at, point in enumerate(points):
        marker = _MARKERS[shapes.index(look.markers[at]) % len(_MARKERS)] if look.markers else "o"
        options: dict[str, Any] = {"s": 26.0}
        if look.colors is not None:
            options["color"] = PALETTE[colors.index(look.colors[at]) % len(PALETTE)]
            if third is not None:
                span = max(third) - min(third) or 1
                options["s"] = _SMALL + (_LARGE - _SMALL) * (point.z - min(third)) / span
        elif third is not None:
            options |= {"c": [point.z], "cmap": "viridis", "vmin": min(third), "vmax": max(third)}
        else:
            options["color"] = PALETTE[0]
        edge = {"edgecolors": INK, "linewidths": 1.3} if point.pareto_optimal else {"alpha": 0.55}
        drawn = axes.scatter([point.x], [point.y], marker=marker, zorder=3, **options, **edge)
        shown = drawn if "c" in options else shown
    entries = [legend_mark("Pareto-optimal", marker="o", color="white", markeredgecolor=INK)]
    for value, color in zip(colors, cycle(PALETTE), strict=False):
        entries.append(legend_mark(f"{look.color_name} = {value}", marker="o", color=color))
    for value, shape in zip(shapes, cycle(_MARKERS), strict=False):
        entries.append(legend_mark(f"{look.marker_name} = {value}", marker=shape, color="0.4"))
    if third is not None and shown is None:
        entries.append(legend_mark(f"larger: more {look.z}", marker="o", color="0.4"))
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.17)}
    axes.legend(handles=entries, fontsize=8, frameon=False, ncols=3, **place)
    if third is not None and look.z is not None and shown is not None:
        scale, unit = axis_unit(look.z, max(third))
        bar = figure.colorbar(shown, ax=axes, location="top", shrink=0.8, pad=0.09)
        scaled_ticks(bar.ax.xaxis, scale)
        bar.set_label(f"{look.z} [{unit}]" if unit else look.z, fontsize=8)
        bar.ax.tick_params(labelsize=8)


def scaled_ticks(axis: Any, scale: float) -> None:
    """Few ticks at round numbers of a unit, ``scale`` times that of the data."""

    class Ticks(matplotlib.ticker.MaxNLocator):  # type: ignore[misc, name-defined]
        def tick_values(self, vmin: float, vmax: float) -> Any:
            return [one * scale for one in super().tick_values(vmin / scale, vmax / scale)]

    axis.set_major_locator(Ticks(5))
    axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value / scale:g}"))


def logarithmic_ticks(axis: Any, scale: float) -> None:
    """Plain numbers of a unit at 1, 2 and 5 times powers of ten, ``scale`` times that of the
    data."""
    axis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value / scale:g}"))
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


def _values(texts: Sequence[str] | None) -> list[str]:
    """The distinct texts, numbers in numeric order."""

    def order(text: str) -> tuple[bool, float, str]:
        try:
            return False, float(text), text
        except ValueError:
            return True, 0.0, text

    return sorted(dict.fromkeys(texts or ()), key=order)
