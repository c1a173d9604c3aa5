"""Curves of metrics over an axis of a sweep: a panel for each metric, a color for each curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepsim.errors import ArgError
from stepsim.report.design_marks import logarithmic_ticks, scaled_ticks
from stepsim.report.saving import save_picture
from stepsim.report.style import OPEN, PALETTE, panels
from stepsim.report.units import axis_unit
from stepsim.typed import typed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS: Final = ("o", "s", "D", "^", "v", "P", "X")
_DECADE: Final = 10.0
_COLUMNS: Final = 3


@dataclass(frozen=True, slots=True)
class DrawnCurve:
    """A curve.

    Attributes
    ----------
    label : its name in the legend.
    x, y : its points, in order.
    low, high : ends of the interval of each point, which is drawn as a bar; None without one.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float | None]
    high: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class CurvePanel:
    """Curves of one metric; ``y`` is its label, which names a column, as ``mean goodput``."""

    y: str
    curves: Sequence[DrawnCurve]


@typed
def draw_curves(shown: Sequence[CurvePanel], x: str, path: str | Path, title: str = "") -> None:
    """Draw curves into an image file, a panel for each metric.

    Parameters
    ----------
    shown : at least one panel.
    x : label of the axis that all panels share.
    path : its suffix chooses the format: .png, .svg or .pdf. The file is written completely or not
        at all.
    title : a text above the picture.

    Raises
    ------
    ArgError : there is no panel or no curve, or a text has characters that cannot be written.
    OutputError : the suffix is not supported, matplotlib is missing, or the file cannot be written.
    """
    if not shown or not all(panel.curves for panel in shown):
        raise ArgError("draw_curves: expected panels with at least one curve each, found none")
    texts = {"x": x, "title": title}
    texts |= {f"panel {at}": panel.y for at, panel in enumerate(shown)}
    texts |= {f"curve {at}": one.label for at, one in enumerate(shown[0].curves)}
    save_picture(partial(_draw, shown, x, title), path, OPEN, texts=texts)


def _draw(shown: Sequence[CurvePanel], x: str, title: str) -> Figure:
    columns = min(_COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    figure, every = panels(columns, rows, title=title)
    labels = list(dict.fromkeys(one.label for panel in shown for one in panel.curves))
    looks = dict(zip(labels, zip(cycle(PALETTE), cycle(_MARKERS), strict=False), strict=False))
    for axes, panel in zip(every, shown, strict=False):
        for one in panel.curves:
            color, marker = looks[one.label]
            axes.plot(
                one.x, one.y, color=color, marker=marker, markersize=4.5, linewidth=1.3,
                label=one.label,
            )  # fmt: skip
            _bars(axes, one, color)
        _axis(axes, "y", panel.y, [value for one in panel.curves for value in one.y])
        _axis(axes, "x", x, [value for one in panel.curves for value in one.x])
    for axes in every[len(shown) :]:
        axes.set_visible(False)
    handles: dict[str, Any] = {}
    for axes in every[: len(shown)]:
        artists, names = axes.get_legend_handles_labels()
        handles |= dict(zip(names, artists, strict=True))
    if handles:  # a single curve has no label
        entries = [handles[label] for label in labels if label in handles]
        columns = min(4, len(handles))
        figure.legend(handles=entries, loc="outside lower center", ncols=columns)
    return figure


def _bars(axes: Any, one: DrawnCurve, color: str) -> None:
    """The intervals of the points that have one."""
    for place, low, high in zip(one.x, one.low, one.high, strict=True):
        if low is not None and high is not None:
            axes.plot([place, place], [low, high], color=color, linewidth=1.0, alpha=0.6)


def _axis(axes: Any, which: str, label: str, values: Sequence[float]) -> None:
    """Logarithmic where values span more than a decade; from 0 on elsewhere."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    scale, unit = axis_unit(label, max(values))
    if min(values) > 0 and max(values) >= _DECADE * min(values):
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        logarithmic_ticks(axis, scale)
    else:
        scaled_ticks(axis, scale)
        (axes.set_xlim if which == "x" else axes.set_ylim)(0, None)
    axis.set_label_text(f"{label} [{unit}]" if unit else label, parse_math=False)
