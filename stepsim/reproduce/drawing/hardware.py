"""Figure 8: the simulator against hardware."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from stepsim.reproduce.drawing import style

__all__ = ["draw"]

_TILES = ("16 rows", "32 rows", "64 rows")


def draw(figure: str, rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Cycles over traffic; beside it, where hardware cycles are known, ours against them."""
    title = "Figure 8: SwiGLU layer, simulator and hardware"
    hardware = any(row.get("hdl_cycles") is not None for row in rows)
    picture, axes = style.panels(2 if hardware else 1, title=title, height=3.4)
    first = axes[0]
    for series in _TILES:
        own = [row for row in rows if row["series"] == series]
        colour = style.COLOURS[series]
        x, y = style.values(own, "offchip_bytes", 1e6), style.values(own, "cycles", 1e3)
        first.plot(x, y, color=colour, marker="o", markersize=5, linewidth=1)
        theirs = style.values(own, "published_cycles", 1e3)
        style.open_marks(first, style.values(own, "published_offchip_bytes", 1e6), theirs, colour,
                         "o")  # fmt: skip
        real = style.values(own, "hdl_cycles", 1e3)
        first.plot(style.values(own, "hdl_offchip_bytes", 1e6), real, color=colour, marker="x",
                   linestyle="none")  # fmt: skip
        if hardware:
            axes[1].plot(real, y, color=colour, marker="o", markersize=5, linestyle="none")
            style.open_marks(axes[1], real, theirs, colour, "o")
            _name_tilings(axes[1], own, real, y, colour)
    first.set_xlabel("off-chip traffic (MB)")
    first.set_ylabel("time (thousand cycles)")
    first.set_xlim(0)
    first.set_ylim(0)
    if hardware:
        most = 1.15 * max(v for v in style.values(rows, "hdl_cycles", 1e3) if not math.isnan(v))
        axes[1].plot([0, most], [0, most], color="#333333", linewidth=0.8, zorder=1)
        axes[1].set_xlim(0, most)
        axes[1].set_ylim(0, most)
        axes[1].set_xlabel("hardware simulation (thousand cycles)")
        axes[1].set_ylabel("simulator (thousand cycles)")
    entries = [style.solid_mark(style.COLOURS[name], f"tiles of {name}") for name in _TILES]
    real_mark = Line2D([], [], linestyle="none", color="#333333", marker="x", label="HDL")
    style.legend(picture, [*entries, style.published_mark(), real_mark], compared=hardware)
    return picture


def _name_tilings(
    axes: Any, rows: Sequence[Mapping[str, Any]], x: list[float], y: list[float], colour: str
) -> None:
    """Name the points that lie off the diagonal by a twelfth and more, on their side of it."""
    for row, left, top in zip(rows, x, y, strict=True):
        if abs(top / left - 1) > 1 / 12:
            above = top > left
            axes.annotate(
                f"tile {row['tile']} x {row['tile_inter']}", (left, top),
                xytext=(-6, 7) if above else (0, -16), textcoords="offset points",
                fontsize=8, color=colour, ha="center",
            )  # fmt: skip
