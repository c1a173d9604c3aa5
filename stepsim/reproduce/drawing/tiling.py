"""Figures 9, 10, 19 and 20: tilings of mixture-of-experts layers, time or traffic over memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from stepsim.reproduce.drawing import style

__all__ = ["draw"]

_TITLES = {
    "9": "Figure 9: tilings of a mixture-of-experts layer, 64 tokens",
    "10": "Figure 10: tilings of a mixture-of-experts layer, 1024 tokens",
    "19": "Figure 19: off-chip traffic of tilings, 64 tokens",
    "20": "Figure 20: off-chip traffic of tilings, 1024 tokens",
}
_MARKS = {"static": "o", "dynamic": "D"}


def draw(figure: str, rows: Sequence[Mapping[str, Any]]) -> Figure:
    """One panel for each model. Lower left is better."""
    picture, axes = style.panels(2, title=_TITLES[figure])
    traffic = figure in ("19", "20")
    for panel, (model, name) in zip(axes, style.MODEL_NAMES.items(), strict=True):
        own = [row for row in rows if row["model"] == model]
        _panel(panel, own, "offchip_bytes" if traffic else "cycles", 1e9 if traffic else 1e6)
        panel.set_title(name)
        panel.set_xlabel("on-chip memory (MB)")
    axes[0].set_ylabel("off-chip traffic (GB)" if traffic else "time (million cycles)")
    entries = [
        style.solid_mark(style.COLOURS[series], f"{series} tiles", mark)
        for series, mark in _MARKS.items()
    ]
    compared = any(row.get("published_cycles") is not None for row in rows)
    style.legend(picture, [*entries, style.published_mark()], compared=compared)
    return picture


def _panel(axes: Axes, rows: Sequence[Mapping[str, Any]], column: str, scale: float) -> None:
    for series, mark in _MARKS.items():
        own = [row for row in rows if row["series"] == series]
        x, y = style.values(own, "onchip_bytes", 1e6), style.values(own, column, scale)
        colour = style.COLOURS[series]
        line = "-" if series == "static" else "none"
        axes.plot(x, y, color=colour, marker=mark, markersize=5, linestyle=line, linewidth=1)
        style.open_marks(
            axes,
            style.values(own, "published_onchip_bytes", 1e6),
            style.values(own, f"published_{column}", scale),
            colour,
            mark,
        )
        for row, left, top in zip(own, x, y, strict=True):
            dynamic = series == "dynamic"
            axes.annotate(
                "dynamic" if dynamic else row["tile"], (left, top), color=colour, fontsize=8,
                xytext=(0, -15) if dynamic else (6, 6), textcoords="offset points",
                ha="center" if dynamic else "left",
            )  # fmt: skip
    _logarithmic(axes, "x", style.values(rows, "onchip_bytes", 1e6))
    _logarithmic(axes, "y", style.values(rows, column, scale))


def _logarithmic(axes: Axes, which: str, found: Sequence[float]) -> None:
    """A logarithmic axis with plain numbers and room for the labels."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    span = max(found) / min(found)
    margin = span**0.14
    (axes.set_xlim if which == "x" else axes.set_ylim)(min(found) / margin, max(found) * margin)
    if span < 3:
        marks: tuple[float, ...] = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8)
    else:
        marks = (1, 1.5, 2, 3, 5, 7) if span < 12 else (1, 2, 5)
    axis.set_major_locator(LogLocator(subs=marks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
