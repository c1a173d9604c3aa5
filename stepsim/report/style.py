"""The look of all pictures: colors safe for color-blind readers, panels, marks, legends.

matplotlib is imported only for drawing, so that figures can be declared and run without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from stepsim.deferred import deferred

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

matplotlib = deferred("matplotlib")

INK: Final = "#333333"
# Okabe and Ito's palette.
BLUE: Final = "#0072B2"
VERMILION: Final = "#D55E00"
_SKY = "#56B4E9"
_GREEN = "#009E73"

COLORS: Final = {
    "static": BLUE,
    "dynamic": VERMILION,
    "coarse": _SKY,
    "interleaved": _GREEN,
    "memory-matched": _SKY,
    "performance-matched": _GREEN,
    "16 rows": BLUE,
    "32 rows": _GREEN,
    "64 rows": VERMILION,
}
"""Colors of series that are compared."""

PALETTE: Final = (BLUE, VERMILION, _GREEN, _SKY, "#CC79A7", "#E69F00", "#F0E442", "#000000")
"""Okabe and Ito's colors, for values of an axis in turn."""

FRAMED: Final[dict[str, Any]] = {
    "font.family": "DejaVu Sans",
    "figure.dpi": 160,
    "savefig.dpi": 160,
    "svg.hashsalt": "stepsim",
}
"""Look of distributions, maps and scatter plots: axes on all sides, no grid."""

OPEN: Final[dict[str, Any]] = {
    **FRAMED,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "none",
}
"""Look of curves and bars from which values are read: a grid, axes below and to the left."""


def empty(width: float, height: float, **options: Any) -> tuple[Figure, Axes]:
    """A figure of a size in inches with one pair of axes; options are those of `Figure`."""

    figure = matplotlib.figure.Figure(figsize=(width, height), **options)
    return figure, figure.add_subplot()


def panels(
    columns: int, rows: int = 1, *, width: float = 4.2, height: float = 3.5, title: str
) -> tuple[Figure, list[Axes]]:
    """A figure with a title and a grid of axes, row by row."""

    layout = matplotlib.layout_engine.ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06, wspace=0.03)
    figure = matplotlib.figure.Figure(figsize=(width * columns, height * rows + 0.7), layout=layout)
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def open_marks(axes: Axes, x: Sequence[float], y: Sequence[float], color: str, mark: str) -> None:
    """Published points: open marks around ours."""
    axes.plot(x, y, linestyle="none", zorder=4, **_open(color, mark))


def bars(
    axes: Axes, x: Sequence[float], heights: Sequence[float], theirs: Sequence[float],
    color: str, width: float = 0.7,
) -> None:  # fmt: skip
    """Our values as bars, the published ones as open marks on them."""
    axes.bar(x, heights, width, color=color, zorder=2)
    open_marks(axes, x, theirs, INK, "o")
    axes.grid(visible=False, axis="x")


def solid_mark(color: str, label: str, mark: str = "o") -> Line2D:
    """Legend entry of our values."""
    return legend_mark(label, color=color, marker=mark, markersize=6)


def published_mark() -> Line2D:
    """Legend entry of published points."""
    return legend_mark("published", **_open(INK, "o"))


def legend_mark(label: str, **look: Any) -> Line2D:
    """Legend entry of any look."""

    mark: Line2D = matplotlib.lines.Line2D([], [], linestyle="none", label=label, **look)
    return mark


def _open(color: str, mark: str) -> dict[str, Any]:
    return {
        "marker": mark,
        "markersize": 9,
        "markerfacecolor": "none",
        "markeredgecolor": color,
        "markeredgewidth": 1.1,
    }


def legend(
    figure: Figure, entries: Sequence[Any], *, compared: bool, columns: int | None = None
) -> None:
    """One legend below all panels, by default in one row.

    An entry for published values is shown only if there are any.
    """
    shown = [e for e in entries if compared or e.get_label() not in ("published", "HDL")]
    figure.legend(handles=shown, loc="outside lower center", ncols=columns or len(shown))


def logarithmic(axes: Axes, which: str, found: Sequence[float]) -> None:
    """Make the ``"x"`` or ``"y"`` axis logarithmic, with plain numbers and room for labels.

    ``found`` are the values shown, all above zero.
    """

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    span = max(found) / min(found)
    margin = span**0.14
    (axes.set_xlim if which == "x" else axes.set_ylim)(min(found) / margin, max(found) * margin)
    if span < 3:
        marks: tuple[float, ...] = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8)
    else:
        marks = (1, 1.5, 2, 3, 5, 7) if span < 12 else (1, 2, 5)
    axis.set_major_locator(matplotlib.ticker.LogLocator(subs=marks))
    axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


def whole_numbers(axes: Axes) -> None:
    """Mark whole numbers alone on the y axis, with commas."""
    axes.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:,.0f}"))
