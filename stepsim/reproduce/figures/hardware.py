"""Figure 8: the simulator against hardware."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from stepsim.report import style
from stepsim.reproduce.figure import Figure, Rows, values
from stepsim.reproduce.headline import MissingNumber, Numbers, correlation, mean_error, ratio
from stepsim.reproduce.points import Point
from stepsim.reproduce.published import Published
from stepsim.reproduce.settings import published_run, published_settings
from stepsim.workloads import Swiglu

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

__all__ = ["HARDWARE"]

_TILES = ("16 rows", "32 rows", "64 rows")


def _hardware_points() -> Iterable[Point]:
    for tile in (16, 32, 64):
        for inner in (16, 32, 64, 128, 256):
            config = published_settings(Swiglu, 0)
            given = {name: config[name] for name in ("batch", "fifo_depth")}
            given |= {"tile": tile, "tile_inter": inner}
            run = published_run("swiglu", given, machine="sda-hdl")
            yield Point("8", f"f8_step_{tile}_{inner}", f"{tile} rows", run)


def _draw(rows: Rows) -> Picture:
    """Cycles over traffic; beside it, where hardware cycles are known, ours against them."""
    title = "Figure 8: SwiGLU layer, simulator and hardware"
    hardware = any(row.get("hdl_cycles") is not None for row in rows)
    picture, axes = style.panels(2 if hardware else 1, title=title, height=3.4)
    first = axes[0]
    for series in _TILES:
        own = [row for row in rows if row["series"] == series]
        color = style.COLORS[series]
        x, y = values(own, "offchip_bytes", 1e6), values(own, "cycles", 1e3)
        first.plot(x, y, color=color, marker="o", markersize=5, linewidth=1)
        theirs = values(own, "published_cycles", 1e3)
        style.open_marks(first, values(own, "published_offchip_bytes", 1e6), theirs, color,
                         "o")  # fmt: skip
        real = values(own, "hdl_cycles", 1e3)
        first.plot(values(own, "hdl_offchip_bytes", 1e6), real, color=color, marker="x",
                   linestyle="none")  # fmt: skip
        if hardware:
            axes[1].plot(real, y, color=color, marker="o", markersize=5, linestyle="none")
            style.open_marks(axes[1], real, theirs, color, "o")
            _name_tilings(axes[1], own, real, y, color)
    first.set_xlabel("off-chip traffic (MB)")
    first.set_ylabel("time (thousand cycles)")
    first.set_xlim(0)
    first.set_ylim(0)
    if hardware:
        most = 1.15 * max(v for v in values(rows, "hdl_cycles", 1e3) if not math.isnan(v))
        axes[1].plot([0, most], [0, most], color=style.INK, linewidth=0.8, zorder=1)
        axes[1].set_xlim(0, most)
        axes[1].set_ylim(0, most)
        axes[1].set_xlabel("hardware simulation (thousand cycles)")
        axes[1].set_ylabel("simulator (thousand cycles)")
    entries = [style.solid_mark(style.COLORS[name], f"tiles of {name}") for name in _TILES]
    real_mark = style.legend_mark("HDL", color=style.INK, marker="x")
    style.legend(picture, [*entries, style.published_mark(), real_mark], compared=hardware)
    return picture


def _name_tilings(axes: Any, rows: Rows, x: list[float], y: list[float], color: str) -> None:
    """Name the points that lie off the diagonal by a twelfth and more, on their side of it."""
    for row, left, top in zip(rows, x, y, strict=True):
        if abs(top / left - 1) > 1 / 12:
            above = top > left
            axes.annotate(
                f"tile {row['tile']} x {row['tile_inter']}", (left, top),
                xytext=(-6, 7) if above else (0, -16), textcoords="offset points",
                fontsize=8, color=color, ha="center",
            )  # fmt: skip


def _measured(point: Point, published: Published) -> Iterable[tuple[str, int]]:
    """Cycles and traffic of the hardware with the same tiles."""
    given = point.run.parameters
    found = published.hardware.get((given["tile"], given["tile_inter"]))
    if found is not None:
        yield "hdl_cycles", found.cycles
        yield "hdl_offchip_bytes", found.offchip_bytes


def _agreement(rows: Rows) -> list[str]:
    """How close ours and the published simulator come to the hardware cycles."""
    lines = []
    for name, prefix in (("ours", ""), ("published simulator", "published_")):
        try:
            simulated, measured = Numbers(rows, prefix).hardware()
        except MissingNumber:
            continue
        lines.append(
            f"{name} against HDL cycles, {len(measured)} tilings: Pearson correlation "
            f"{correlation(simulated, measured):.4f}, mean absolute error "
            f"{100 * mean_error(simulated, measured):.2f} %"
        )
    return lines


_HEADLINES: Final = (
    ratio(
        "8", "Pearson correlation of cycles, STeP simulator vs HDL, 15 tilings",
        lambda n: correlation(*n.hardware()), unit="r", same_points=True,
    ),
    ratio(
        "8", "(derived) mean absolute relative error of STeP cycles vs HDL",
        lambda n: mean_error(*n.hardware()), unit="fraction", same_points=True,
    ),
)  # fmt: skip

HARDWARE: Final = Figure(
    "8",
    points=_hardware_points,
    draw=_draw,
    headlines=_HEADLINES,
    beside=_measured,
    remarks=_agreement,
)
