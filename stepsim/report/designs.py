"""The plot of design points: two costs, the Pareto frontier, a list of names next to it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from stepsim.report.design_marks import DesignLook, draw_marks, logarithmic_ticks, scaled_ticks
from stepsim.report.saving import save_picture
from stepsim.report.style import BLUE, FRAMED, VERMILION, empty
from stepsim.report.units import axis_unit
from stepsim.typed import typed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DesignLook", "DesignPoint", "draw_designs"]

_LISTED = 24
"""Names that fit next to the picture."""

_NAME_WIDTH = 60
_NEAR = (0.05, 0.035)
"""Fractions of width and height within which numbers would overlap."""

_DECADE = 10.0

_TRIES, _STEP = 12, 4.0
"""Places that are tried for a number, and their distance in points."""

_ROUNDS, _EXTRA = 20, 1.3
"""Most times an axis is widened, and by how much more than a number sticks out: points move
together when it is widened, so that one step is not enough.
"""


class DesignPoint(Protocol):
    """The drawn attributes of a design point; `stepsim.sweep.design_costs` returns such points.

    Attributes
    ----------
    label : its name.
    x, y : its costs.
    pareto_optimal : whether no other point is at least as good in both costs and better in one.
    lost : number of runs that it lost, shown after its name.
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


@typed
def draw_designs(
    points: Sequence[DesignPoint],
    x: str,
    y: str,
    path: str | Path,
    remark: str = "",
    look: DesignLook | None = None,
) -> None:
    """Draw design points into an image file, with the Pareto frontier.

    Points carry numbers; their names are listed next to the picture: of all points, or, if these
    are too many, of the frontier.

    Parameters
    ----------
    points : at least one.
    x, y : labels of the axes.
    path : its suffix chooses the format: .png, .svg or .pdf. The file is written completely or not
        at all.
    remark : a text above the picture.
    look : the meaning of colors and shapes; by default colors mark the frontier.

    Raises
    ------
    OutputError : the suffix is not supported, matplotlib is missing, or the file cannot be written.
    """
    # Fitted, so that the list next to the axes is part of the picture, however wide it is.
    picture = partial(_draw, points, x, y, remark, look or DesignLook())
    texts = {"x": x, "y": y, "remark": remark}
    save_picture(picture, path, FRAMED, fit=True, texts=texts)


def _draw(points: Sequence[DesignPoint], x: str, y: str, remark: str, look: DesignLook) -> Figure:
    figure, axes = empty(6, 4)
    best = sorted((point for point in points if point.pareto_optimal), key=lambda point: point.x)
    others = [point for point in points if not point.pareto_optimal]
    if look.z is None:
        # Between two points of the frontier, the first one is the best available.
        axes.step([p.x for p in best], [p.y for p in best], where="post", color="0.7", zorder=1)
    if look != DesignLook():
        draw_marks(figure, axes, points, look)
    else:
        groups = ((best, VERMILION, "Pareto-optimal", 3), (others, BLUE, "others", 2))
        for group, color, name, order in groups:
            if group:
                spots = axes.scatter([p.x for p in group], [p.y for p in group], s=16, zorder=order)
                spots.set(color=color, label=f"{name} ({len(group)})")
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13)}
        axes.legend(fontsize=8, frameon=False, ncols=2, **place)
    _scale(axes, points)
    axes.margins(0.08)
    axes.set_title(remark, fontsize=8, parse_math=False)
    numbers = _name_points(axes, best, others)
    _label_axis(axes.xaxis, x, max(point.x for point in points))
    _label_axis(axes.yaxis, y, max(point.y for point in points))
    _make_room(axes, numbers, "x")
    _part(numbers)
    _make_room(axes, numbers, "y")
    return figure


def _scale(axes: Any, points: Sequence[DesignPoint]) -> None:
    """Logarithmic axes for costs that span more than a decade, on which the small ones would
    otherwise lie on top of each other."""
    for key, choose in (("x", axes.set_xscale), ("y", axes.set_yscale)):
        found = [getattr(point, key) for point in points]
        if min(found) > 0 and max(found) >= _DECADE * min(found):
            choose("log")


def _part(numbers: Sequence[Any]) -> None:
    """Move numbers that would lie on an earlier one further from their points."""
    placed: list[Any] = []
    for number in numbers:
        x, y = number.get_position()
        for step in range(_TRIES):
            number.set_position((x, y + (step if y > 0 else -step) * _STEP))
            box = number.get_window_extent()
            if not any(box.overlaps(other) for other in placed):
                break
        placed.append(number.get_window_extent())


def _name_points(
    axes: Any, best: Sequence[DesignPoint], others: Sequence[DesignPoint]
) -> list[Any]:
    """Write numbers at the points, and their names to the right; returns the numbers.

    Numbers of the frontier are to the lower left of their points: there is no other point there.
    """
    everything = sorted([*best, *others], key=lambda point: (point.x, point.y))
    named = (everything if len(everything) <= _LISTED else best)[:_LISTED]
    logs = [axes.get_xscale() == "log", axes.get_yscale() == "log"]
    spots = [[_place(getattr(p, k), log) for p in named] for k, log in zip("xy", logs, strict=True)]
    spread = [max(found) - min(found) for found in spots]
    places: dict[tuple[bool, float, float], list[str]] = {}
    lines = []
    for number, point in enumerate(named, start=1):
        own = (point.pareto_optimal, point.x, point.y)
        place = next((p for p in places if _near(p, point, spread, logs)), own)
        places.setdefault(place, []).append(str(number))
        lost = f" ({point.lost:,} runs lost)" if point.lost else ""
        text = f"{number}  {point.label}{lost}"
        lines += textwrap.wrap(text, _NAME_WIDTH, subsequent_indent="    ")
    made = [_annotate(axes, *place, ", ".join(numbers)) for place, numbers in places.items()]
    if len(named) < len(everything):
        lines.append(f"{len(everything) - len(named)} more without a name here")
    right = {"transform": axes.transAxes, "verticalalignment": "top", "fontsize": 8}
    axes.text(1.03, 1, "\n".join(lines), parse_math=False, **right)
    return made


def _annotate(axes: Any, best: bool, x: float, y: float, text: str) -> Any:
    look: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8}
    if best:
        look |= {"xytext": (-3, -3), "ha": "right", "va": "top", "color": VERMILION}
    else:
        look |= {"xytext": (3, 3)}
    return axes.annotate(text, (x, y), **look)


def _place(value: float, log: bool) -> float:
    """Where a value is along an axis."""
    return math.log(value) if log else value


def _near(
    place: tuple[bool, float, float],
    point: DesignPoint,
    spread: Sequence[float],
    logs: Sequence[bool],
) -> bool:
    best, *at = place
    own = point.x, point.y
    far = [abs(_place(at[i], logs[i]) - _place(own[i], logs[i])) for i in (0, 1)]
    return best is point.pareto_optimal and all(far[i] <= _NEAR[i] * spread[i] for i in (0, 1))


def _make_room(axes: Any, numbers: Sequence[Any], which: str) -> None:
    """Widen the ``"x"`` or ``"y"`` axis until no number crosses the frame."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    limits = axes.get_xlim if which == "x" else axes.get_ylim
    place = axes.set_xlim if which == "x" else axes.set_ylim
    frame = getattr(axes.get_window_extent(), f"interval{which}")
    for _ in range(_ROUNDS):
        low, high = limits()  # called first: it applies the margins, which move the numbers
        spans = [getattr(number.get_window_extent(), f"interval{which}") for number in numbers]
        before = max(0, frame[0] - min(span[0] for span in spans))
        after = max(0, max(span[1] for span in spans) - frame[1])
        if before == after == 0:
            return
        share = _EXTRA / (frame[1] - frame[0])
        if axis.get_scale() == "log":
            factor = (high / low) ** share
            place(low / factor**before, high * factor**after)
        else:
            place(low - share * (high - low) * before, high + share * (high - low) * after)


def _label_axis(axis: Any, label: str, largest: float) -> None:
    """A few ticks in a unit that suits the largest number: ``mean cycles (Mcycles)``."""
    scale, unit = axis_unit(label, largest)
    if axis.get_scale() == "log":
        logarithmic_ticks(axis, scale)
    else:
        scaled_ticks(axis, scale)
    axis.set_label_text(f"{label} [{unit}]" if unit else label, parse_math=False)
