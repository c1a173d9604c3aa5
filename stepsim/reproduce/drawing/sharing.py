"""Figures 12 and 13: experts that share regions of hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stepsim.reproduce.drawing import style

__all__ = ["draw_resources", "draw_time"]

Rows = Sequence[Mapping[str, Any]]
_NAMES = {"static": "static tiles of 32 rows", "dynamic": "dynamic tiles"}


def draw_time(figure: str, rows: Rows) -> Figure:
    """Figure 12: cycles above, compute utilisation below."""
    title = "Figure 12: time-multiplexed experts, Qwen3-30B-A3B, 64 tokens"
    picture, axes = style.panels(2, 2, height=2.5, title=title)
    for column, series in enumerate(_NAMES):
        own = [row for row in rows if row["series"] == series]
        colour = style.COLOURS[series]
        _bars(axes[column], own, "cycles", 1e3, colour)
        _bars(axes[2 + column], own, "compute_utilization", 0.01, colour)
        axes[column].set_title(_NAMES[series])
        axes[2 + column].set_xlabel("parallel regions")
    axes[0].set_ylabel("time (thousand cycles)")
    axes[2].set_ylabel("compute utilisation (%)")
    _finish(picture, rows, list(_NAMES))
    return picture


def draw_resources(figure: str, rows: Rows) -> Figure:
    """Figure 13: what static tiling needs, and how much of the bandwidth it uses."""
    title = "Figure 13: resources of time-multiplexed experts, static tiles of 32 rows"
    picture, axes = style.panels(3, width=3.1, height=2.7, title=title)
    for panel, (column, scale, label) in zip(
        axes,
        (
            ("allocated_flops_per_cycle", 1e3, "compute (thousand FLOPs/cycle)"),
            ("onchip_bytes", 1e6, "on-chip memory (MB)"),
            ("bandwidth_utilization", 0.01, "off-chip bandwidth used (%)"),
        ),
        strict=True,
    ):
        _bars(panel, rows, column, scale, style.COLOURS["static"])
        panel.set_ylabel(label)
        panel.set_xlabel("parallel regions")
    _finish(picture, rows, ["static"])
    return picture


def _bars(axes: Axes, rows: Rows, column: str, scale: float, colour: str) -> None:
    x = list(range(len(rows)))
    ours = style.values(rows, column, scale)
    style.bars(axes, x, ours, style.values(rows, f"published_{column}", scale), colour)
    axes.set_xticks(x, [str(row["regions"]) for row in rows])
    axes.set_ylim(0, 1.12 * max(ours))


def _finish(picture: Figure, rows: Rows, series: Sequence[str]) -> None:
    entries = [style.solid_mark(style.COLOURS[name], f"{name} tiles", "s") for name in series]
    compared = any(row.get("published_cycles") is not None for row in rows)
    style.legend(picture, [*entries, style.published_mark()], compared=compared)
