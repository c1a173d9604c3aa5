"""Figures 9, 10, 19 and 20: tilings of mixture-of-experts layers, time or traffic over memory."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from stepsim.report import style
from stepsim.reproduce.figure import Figure, Rows, legend, values
from stepsim.reproduce.headline import Headline, Numbers, excess, ratio
from stepsim.reproduce.points import Point
from stepsim.reproduce.settings import (
    MODEL_NAMES,
    MODELS,
    ROUTINGS,
    published_run,
    published_settings,
)
from stepsim.sweep import pareto_improvement_distance
from stepsim.workloads import Moe

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

_TITLES = {
    "9": "Figure 9: tilings of a mixture-of-experts layer, 64 tokens",
    "10": "Figure 10: tilings of a mixture-of-experts layer, 1024 tokens",
    "19": "Figure 19: off-chip traffic of tilings, 64 tokens",
    "20": "Figure 20: off-chip traffic of tilings, 1024 tokens",
}
_TILES: Final = {"9": (8, 16, 32, 64), "10": (16, 32, 64, 128, 256, 512, 1024)}
_MARKS = {"static": "o", "dynamic": "D"}


def tiling_points(figure: str) -> Iterable[Point]:
    """The points of one of these figures."""
    small = figure in ("9", "19")
    batch = 64 if small else 1024
    for model, short in MODELS.items():
        for tile in (*_TILES["9" if small else "10"], "dynamic"):
            config = published_settings(Moe, batch, model=model, tile=tile)
            given = {name: config[name] for name in ("tile_inter", "fifo_depth")}
            given |= {"model": model, "tile": tile}
            run = published_run("moe", given, batch=batch, routing=ROUTINGS[model, batch])
            dynamic = isinstance(tile, str)
            name = f"f{'9' if small else '10'}_{short}_{'dyn' if dynamic else tile}"
            yield Point(figure, name, "dynamic" if dynamic else "static", run)


def _draw(figure: str, rows: Rows) -> Picture:
    """One panel for each model. Lower left is better."""
    picture, axes = style.panels(2, title=_TITLES[figure])
    traffic = figure in ("19", "20")
    for panel, (model, name) in zip(axes, MODEL_NAMES.items(), strict=True):
        own = [row for row in rows if row["model"] == model]
        _panel(panel, own, "offchip_bytes" if traffic else "cycles", 1e9 if traffic else 1e6)
        panel.set_title(name)
        panel.set_xlabel("on-chip memory (MB)")
    axes[0].set_ylabel("off-chip traffic (GB)" if traffic else "time (million cycles)")
    entries = [
        style.solid_mark(style.COLORS[series], f"{series} tiles", mark)
        for series, mark in _MARKS.items()
    ]
    legend(picture, entries, rows)
    return picture


def _panel(axes: Axes, rows: Rows, column: str, scale: float) -> None:
    for series, mark in _MARKS.items():
        own = [row for row in rows if row["series"] == series]
        x, y = values(own, "onchip_bytes", 1e6), values(own, column, scale)
        color = style.COLORS[series]
        line = "-" if series == "static" else "none"
        axes.plot(x, y, color=color, marker=mark, markersize=5, linestyle=line, linewidth=1)
        style.open_marks(
            axes,
            values(own, "published_onchip_bytes", 1e6),
            values(own, f"published_{column}", scale),
            color,
            mark,
        )
        for row, left, top in zip(own, x, y, strict=True):
            dynamic = series == "dynamic"
            axes.annotate(
                "dynamic" if dynamic else row["tile"], (left, top), color=color, fontsize=8,
                xytext=(0, -15) if dynamic else (6, 6), textcoords="offset points",
                ha="center" if dynamic else "left",
            )  # fmt: skip
    style.logarithmic(axes, "x", values(rows, "onchip_bytes", 1e6))
    style.logarithmic(axes, "y", values(rows, column, scale))


def _dynamic(figure: str, model: str) -> str:
    return f"f{figure}_{model}_dyn"


def _speedup(figure: str, claim: str, model: str, tile: int) -> Headline:
    over, point = f"f{figure}_{model}_{tile}", _dynamic(figure, model)
    return ratio(figure, claim, lambda n: n.speedup(over, point))


def _saving(
    figure: str, claim: str, model: str, *tiles: int, plotted: str = "", column: str = ""
) -> Headline:
    source = plotted or figure
    point = _dynamic(source, model)
    return Headline(
        figure, claim, "x",
        lambda n: tuple(
            n.saving(f"f{source}_{model}_{tile}", point, column or "onchip_bytes")
            for tile in tiles
        ),
    )  # fmt: skip


def _distance(n: Numbers, figure: str, model: str) -> float:
    """PID of dynamic tiling against all static tiles, in cycles and on-chip bytes."""

    def costs(point: str) -> tuple[float, float]:
        return n.cycles(point), n.onchip(point)

    static = [costs(f"f{figure}_{model}_{tile}") for tile in _TILES[figure]]
    return pareto_improvement_distance(costs(_dynamic(figure, model)), static)


def _pid(figure: str, claim: str, model: str) -> Headline:
    return ratio(figure, claim, lambda n: _distance(n, figure, model), unit="PID")


def _all_distances(n: Numbers) -> tuple[float, ...]:
    found = [_distance(n, figure, model) for figure in _TILES for model in ("mixtral", "qwen")]
    return min(found), max(found)


_SMALL: Final = (
    _speedup(
        "9", "Mixtral b=64: speedup of dynamic tiling over tile=16 at equal on-chip memory",
        "mixtral", 16,
    ),
    _saving("9", "Mixtral b=64: on-chip saving of dynamic vs tile=32", "mixtral", 32),
    excess(
        "9", "Mixtral b=64: cycles of dynamic relative to tile=32",
        "f9_mixtral_dyn", "f9_mixtral_32",
    ),
    _speedup("9", "Qwen b=64: speedup of dynamic over tile=8", "qwen", 8),
    _saving("9", "Qwen b=64: on-chip saving of dynamic vs tile=8", "qwen", 8),
    _saving("9", "Qwen b=64: on-chip saving of dynamic vs tile=64", "qwen", 64),
    excess("9", "Qwen b=64: cycles of dynamic relative to tile=64", "f9_qwen_dyn", "f9_qwen_64"),
    _pid("9", "PID of dynamic tiling, Mixtral b=64", "mixtral"),
    _pid("9", "PID of dynamic tiling, Qwen b=64", "qwen"),
)  # fmt: skip

_LARGE: Final = (
    _speedup("10", "Mixtral b=1024: speedup of dynamic over tile=128", "mixtral", 128),
    ratio(
        "10", "Mixtral b=1024: extra on-chip memory of dynamic vs tile=128",
        lambda n: n.saving("f10_mixtral_dyn", "f10_mixtral_128"), unit="x more",
    ),
    _speedup("10", "Mixtral b=1024: speedup over tile=256 at equal on-chip memory", "mixtral", 256),
    _speedup("10", "Qwen b=1024: speedup of dynamic over tile=64", "qwen", 64),
    _saving("10", "Qwen b=1024: on-chip saving vs tile=64", "qwen", 64),
    _speedup("10", "Qwen b=1024: speedup over best static (tile=1024)", "qwen", 1024),
    _saving("10", "Qwen b=1024: on-chip saving vs tile=1024", "qwen", 1024),
    _pid("10", "PID, Mixtral b=1024", "mixtral"),
    _pid("10", "PID, Qwen b=1024", "qwen"),
    Headline(
        "9;10", "PID range of dynamic tiling quoted in the introduction", "PID", _all_distances
    ),
)  # fmt: skip

_SMALL_TRAFFIC: Final = (
    _saving("19", "Mixtral on-chip saving annotation", "mixtral", 32, plotted="9"),
    _saving("19", "Qwen on-chip saving annotations", "qwen", 8, 64, plotted="9"),
    _saving("19", "Qwen traffic saving vs tile=8", "qwen", 8, plotted="9", column="offchip_bytes"),
)  # fmt: skip

_LARGE_TRAFFIC: Final = (
    _saving(
        "20", "Mixtral traffic saving vs tile=256", "mixtral", 256,
        plotted="10", column="offchip_bytes",
    ),
    _saving(
        "20", "Qwen traffic saving vs tile=64", "qwen", 64, plotted="10", column="offchip_bytes"
    ),
    _saving("20", "Qwen on-chip saving vs tile=1024", "qwen", 1024, plotted="10"),
)  # fmt: skip


def _figure(number: str, headlines: tuple[Headline, ...]) -> Figure:
    return Figure(number, partial(tiling_points, number), partial(_draw, number), headlines)


SMALL_BATCH: Final = _figure("9", _SMALL)
LARGE_BATCH: Final = _figure("10", _LARGE)
SMALL_BATCH_TRAFFIC: Final = _figure("19", _SMALL_TRAFFIC)
LARGE_BATCH_TRAFFIC: Final = _figure("20", _LARGE_TRAFFIC)
