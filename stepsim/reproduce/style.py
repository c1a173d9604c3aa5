"""The look of all figures: colours that colour-blind readers tell apart, marks, legends.

matplotlib is imported by what draws, so that figures can be declared and run without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = [
    "COLOURS",
    "MODEL_NAMES",
    "STYLE",
    "bars",
    "legend",
    "legend_mark",
    "open_marks",
    "panels",
    "published_mark",
    "solid_mark",
    "values",
]

_INK = "#333333"
# Okabe and Ito's palette.
COLOURS: Final = {
    "static": "#0072B2",
    "dynamic": "#D55E00",
    "coarse": "#56B4E9",
    "interleaved": "#009E73",
    "memory-matched": "#56B4E9",
    "performance-matched": "#009E73",
    "16 rows": "#0072B2",
    "32 rows": "#009E73",
    "64 rows": "#D55E00",
}
MODEL_NAMES: Final = {"mixtral-8x7b": "Mixtral-8x7B", "qwen3-30b-a3b": "Qwen3-30B-A3B"}

STYLE: Final[dict[str, Any]] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.titlecolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.dpi": 160,
    "savefig.dpi": 160,
    "svg.hashsalt": "stepsim",
    "svg.fonttype": "none",
}


def panels(
    columns: int, rows: int = 1, *, width: float = 4.2, height: float = 3.5, title: str
) -> tuple[Figure, list[Axes]]:
    """A figure with a title and a grid of axes, row by row."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06, wspace=0.03)
    figure = Figure(figsize=(width * columns, height * rows + 0.7), layout=layout)
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def values(rows: Iterable[Mapping[str, Any]], column: str, scale: float = 1) -> list[float]:
    """A column, nan where it is null or absent."""
    found = (row.get(column) for row in rows)
    return [float("nan") if value is None else value / scale for value in found]


def open_marks(axes: Axes, x: Sequence[float], y: Sequence[float], colour: str, mark: str) -> None:
    """Published points: open marks around ours."""
    axes.plot(x, y, linestyle="none", zorder=4, **_open(colour, mark))


def bars(
    axes: Axes, x: Sequence[float], heights: Sequence[float], theirs: Sequence[float],
    colour: str, width: float = 0.7,
) -> None:  # fmt: skip
    """Ours as bars, the published values as open marks on them."""
    axes.bar(x, heights, width, color=colour, zorder=2)
    open_marks(axes, x, theirs, _INK, "o")
    axes.grid(visible=False, axis="x")


def solid_mark(colour: str, label: str, mark: str = "o") -> Line2D:
    """Legend entry of ours."""
    return legend_mark(label, color=colour, marker=mark, markersize=6)


def published_mark(colour: str = _INK, mark: str = "o") -> Line2D:
    """Legend entry of published points."""
    return legend_mark("published", **_open(colour, mark))


def legend_mark(label: str, **look: Any) -> Line2D:
    """Legend entry of any look."""
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="none", label=label, **look)


def _open(colour: str, mark: str) -> dict[str, Any]:
    return {
        "marker": mark,
        "markersize": 9,
        "markerfacecolor": "none",
        "markeredgecolor": colour,
        "markeredgewidth": 1.1,
    }


def legend(figure: Figure, entries: Sequence[Any], *, compared: bool) -> None:
    """One legend below all panels; published marks only if there are any."""
    shown = [e for e in entries if compared or e.get_label() not in ("published", "HDL")]
    figure.legend(handles=shown, loc="outside lower center", ncols=len(shown))
