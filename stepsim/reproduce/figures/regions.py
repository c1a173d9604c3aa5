"""Figures 12 and 13: experts that share regions of hardware."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from stepsim.report import style
from stepsim.reproduce.figure import Figure, Rows, legend, values
from stepsim.reproduce.headline import Headline, excess, ratio, share
from stepsim.reproduce.points import Point
from stepsim.reproduce.settings import QWEN, ROUTINGS, published_run, published_settings
from stepsim.workloads import Moe

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

_NAMES = {"static": "static tiles of 32 rows", "dynamic": "dynamic tiles"}


def shared_point(figure: str, tile: int | str, regions: int) -> Point:
    """Experts that share a number of regions, as a point of a figure or outside of any."""
    config = published_settings(Moe, 64, model=QWEN, tile=tile, regions=regions)
    series = "dynamic" if isinstance(tile, str) else "static"
    given = {name: config[name] for name in ("tile_inter", "fifo_depth")}
    given |= {"model": QWEN, "tile": tile, "regions": regions}
    run = published_run("moe", given, batch=64, routing=ROUTINGS[QWEN, 64])
    short = "dyn" if series == "dynamic" else series
    return Point(figure, f"{'f12' if figure else 'ts'}_{short}_{regions}", series, run)


def _sharing_points(figure: str) -> Iterable[Point]:
    for tile in (32, "dynamic") if figure == "12" else (32,):
        for regions in (128, 64, 32, 16, 8, 4):
            yield shared_point(figure, tile, regions)


def _draw_time(rows: Rows) -> Picture:
    """Figure 12: cycles above, compute utilization below."""
    title = "Figure 12: time-multiplexed experts, Qwen3-30B-A3B, 64 tokens"
    picture, axes = style.panels(2, 2, height=2.5, title=title)
    for column, series in enumerate(_NAMES):
        own = [row for row in rows if row["series"] == series]
        color = style.COLORS[series]
        _bars(axes[column], own, "cycles", 1e3, color)
        _bars(axes[2 + column], own, "compute_utilization", 0.01, color)
        axes[column].set_title(_NAMES[series])
        axes[2 + column].set_xlabel("parallel regions")
    axes[0].set_ylabel("time (thousand cycles)")
    axes[2].set_ylabel("compute utilization (%)")
    _finish(picture, rows, list(_NAMES))
    return picture


def _draw_resources(rows: Rows) -> Picture:
    """Figure 13: resources and bandwidth use of static tiling."""
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
        _bars(panel, rows, column, scale, style.COLORS["static"])
        panel.set_ylabel(label)
        panel.set_xlabel("parallel regions")
    _finish(picture, rows, ["static"])
    return picture


def _bars(axes: Axes, rows: Rows, column: str, scale: float, color: str) -> None:
    x = list(range(len(rows)))
    ours = values(rows, column, scale)
    style.bars(axes, x, ours, values(rows, f"published_{column}", scale), color)
    axes.set_xticks(x, [str(row["regions"]) for row in rows])
    axes.set_ylim(0, 1.12 * max(ours))


def _finish(picture: Picture, rows: Rows, series: Sequence[str]) -> None:
    entries = [style.solid_mark(style.COLORS[name], f"{name} tiles", "s") for name in series]
    legend(picture, entries, rows)


def utilization_gain(figure: str, claim: str, series: str) -> Headline:
    """Compute utilization with 32 regions over that with 128."""
    names = f"f12_{series}_32", f"f12_{series}_128"
    return ratio(figure, claim, lambda n: n.saving(*names, "compute_utilization"))


_TIME: Final = (
    utilization_gain(
        "12a", "static tile 32: compute utilisation gain (32 regions vs 128)", "static"
    ),
    excess(
        "12a", "static tile 32: cycle overhead at 32 regions", "f12_static_32", "f12_static_128",
        note="depends on who wins a race at the end of a stream: closure slack 1 gives 0.76",
    ),
    utilization_gain("12b", "dynamic tile: compute utilisation gain (32 regions vs 128)", "dyn"),
    excess("12b", "dynamic tile: cycle overhead at 32 regions", "f12_dyn_32", "f12_dyn_128"),
    ratio(
        "12", "total FLOPs of static tile 32 relative to dynamic (padding)",
        lambda n: n.saving("f12_static_128", "f12_dyn_128", "flops"),
    ),
)  # fmt: skip

_RESOURCES: Final = (
    share(
        "13", "allocated compute freed at 32 regions", "allocated_flops_per_cycle",
        "f12_static_32", "f12_static_128",
    ),
    share(
        "13", "allocated on-chip memory freed at 32 regions", "onchip_bytes",
        "f12_static_32", "f12_static_128",
    ),
)  # fmt: skip

_COLUMNS: Final = (
    "offchip_bytes", "onchip_bytes", "compute_utilization", "bandwidth_utilization",
)  # fmt: skip

TIME: Final = Figure("12", partial(_sharing_points, "12"), _draw_time, _TIME, columns=_COLUMNS)
RESOURCES: Final = Figure(
    "13", partial(_sharing_points, "13"), _draw_resources, _RESOURCES, columns=_COLUMNS
)
