"""Figure 17: decoder layers in three variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from stepsim.reproduce.drawing import style

__all__ = ["draw"]

_VARIANTS = ("memory-matched", "performance-matched", "dynamic")
_COLUMNS = (
    ("ratio", 1, "speedup over memory-matched"),
    ("onchip_bytes", 1 << 20, "on-chip memory (MiB)"),
    ("allocated_flops_per_cycle", 1e3, "compute (thousand FLOPs/cycle)"),
)


def draw(figure: str, rows: Sequence[Mapping[str, Any]]) -> Figure:
    """A panel each for speedup, memory and compute, the models side by side."""
    title = "Figure 17: decoder layers (the published graph is not known, ours is inferred)"
    picture, axes = style.panels(3, width=3.1, height=2.9, title=title)
    models = list(style.MODEL_NAMES)
    for panel, (column, scale, label) in zip(axes, _COLUMNS, strict=True):
        for place, variant in enumerate(_VARIANTS):
            own = [row for row in rows if row["series"] == variant]
            x = [models.index(row["model"]) + 0.27 * (place - 1) for row in own]
            theirs = style.values(own, f"published_{column}", scale)
            ours = style.values(own, column, scale)
            style.bars(panel, x, ours, theirs, style.COLOURS[variant], 0.25)
        every = [*style.values(rows, column, scale)]
        panel.set_ylim(0, 1.12 * max(every))
        panel.set_xticks(range(len(models)), list(style.MODEL_NAMES.values()))
        panel.set_ylabel(label)
    entries = [style.solid_mark(style.COLOURS[v], v, "s") for v in _VARIANTS]
    compared = any(row.get("published_ratio") is not None for row in rows)
    style.legend(picture, [*entries, style.published_mark()], compared=compared)
    return picture
