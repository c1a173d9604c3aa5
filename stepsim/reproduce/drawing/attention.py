"""Figures 14, 15 and 21: ways of sharing decode attention among regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from stepsim.reproduce.drawing import style

__all__ = ["draw_batches", "draw_gains", "draw_means"]

Rows = Sequence[Mapping[str, Any]]
_SPREADS = {"low": "low", "med": "medium", "high": "high"}
_BATCHES = {16: "16 requests", 64: "64 requests", 80: "64 + 16 requests"}


def draw_gains(figure: str, rows: Rows) -> Figure:
    """Figure 14: gain of dynamic over interleaved sharing for each trace."""
    title = "Figure 14: decode attention, dynamic against interleaved sharing, 64 requests"
    picture, (axes,) = style.panels(1, width=7.2, height=3, title=title)
    own = [row for row in rows if row["series"] == "dynamic"]
    x = [i + 0.6 * list(_SPREADS).index(row["kv_class"]) for i, row in enumerate(own)]
    ratios = style.values(own, "ratio")
    style.bars(axes, x, ratios, style.values(own, "published_ratio"), style.COLOURS["dynamic"])
    axes.set_xticks(x, [row["point_id"].split("_")[1] for row in own])
    for kv_class, name in _SPREADS.items():
        places = [a for a, row in zip(x, own, strict=True) if row["kv_class"] == kv_class]
        axes.annotate(
            f"{name} spread", (sum(places) / len(places), -0.16),
            xycoords=("data", "axes fraction"), ha="center", annotation_clip=False,
        )  # fmt: skip
    axes.set_xlabel("first request of the window, by spread of the KV lengths", labelpad=22)
    axes.set_ylabel("speedup of dynamic sharing")
    axes.axhline(1, color="#333333", linewidth=0.8)
    axes.set_ylim(0, 1.15 * max(ratios))
    entries = [style.solid_mark(style.COLOURS["dynamic"], "dynamic", "s"), style.published_mark()]
    style.legend(picture, entries, compared=_compared(rows))
    return picture


def draw_batches(figure: str, rows: Rows) -> Figure:
    """Figure 15: coarse and dynamic sharing over the batch."""
    title = "Figure 15: decode attention, coarse and dynamic sharing"
    picture, (axes,) = style.panels(1, width=6, height=3, title=title)
    batches = sorted({row["batch"] for row in rows})
    for offset, series in ((-0.2, "coarse"), (0.2, "dynamic")):
        own = [row for row in rows if row["series"] == series]
        x = [batches.index(row["batch"]) + offset for row in own]
        ours = style.values(own, "cycles", 1e3)
        theirs = style.values(own, "published_cycles", 1e3)
        style.bars(axes, x, ours, theirs, style.COLOURS[series], 0.38)
        if series == "dynamic":
            for place, height, row in zip(x, ours, own, strict=True):
                axes.annotate(
                    f"{row['ratio']:.2f}x", (place, height), xytext=(0, 7),
                    textcoords="offset points", ha="center", fontsize=8,
                    color=style.COLOURS[series],
                )  # fmt: skip
    axes.set_xticks(range(len(batches)), [str(batch) for batch in batches])
    axes.set_xlabel("requests")
    axes.set_ylabel("time (thousand cycles)")
    axes.set_ylim(0, 1.15 * max(style.values(rows, "cycles", 1e3)))
    entries = [style.solid_mark(style.COLOURS[s], s, "s") for s in ("coarse", "dynamic")]
    style.legend(picture, [*entries, style.published_mark()], compared=_compared(rows))
    return picture


def draw_means(figure: str, rows: Rows) -> Figure:
    """Figure 21: time of the static ways over that of the dynamic one, mean of three traces."""
    title = "Figure 21: decode attention, time over that of dynamic sharing"
    picture, axes = style.panels(3, width=3, height=3, title=title)
    means = [row for row in rows if row.get("status") is None]
    for panel, (batch, name) in zip(axes, _BATCHES.items(), strict=True):
        for offset, series in ((-0.2, "coarse"), (0.2, "interleaved")):
            own = [row for row in means if (row["batch"], row["series"]) == (batch, series)]
            own.sort(key=lambda row: list(_SPREADS).index(row["kv_class"]))
            x = [i + offset for i in range(len(own))]
            ours = style.values(own, "ratio")
            theirs = style.values(own, "published_ratio")
            style.bars(panel, x, ours, theirs, style.COLOURS[series], 0.38)
            for place, height in zip(x, ours, strict=True):
                panel.annotate(
                    f"{height:.2f}", (place, height), xytext=(0, 7), fontsize=7,
                    textcoords="offset points", ha="center",
                )  # fmt: skip
        panel.axhline(1, color=style.COLOURS["dynamic"], linewidth=1)
        panel.set_xticks(range(len(_SPREADS)), list(_SPREADS.values()))
        panel.set_title(name)
        panel.set_xlabel("spread of the KV lengths")
        panel.set_ylim(0, 1.15 * max(style.values(means, "ratio")))
    axes[0].set_ylabel("time / time of dynamic sharing")
    entries = [style.solid_mark(style.COLOURS[s], s, "s") for s in ("coarse", "interleaved")]
    compared = any(row.get("published_ratio") is not None for row in means)
    dynamic = style.solid_mark(style.COLOURS["dynamic"], "dynamic = 1", "_")
    style.legend(picture, [*entries, dynamic, style.published_mark()], compared=compared)
    return picture


def _compared(rows: Rows) -> bool:
    return any(row.get("published_cycles") is not None for row in rows)
