"""Figure 8: the simulator at each of its levels against hardware."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepsim.report import style
from stepsim.reproduce.figure import Figure, Rows, values
from stepsim.reproduce.headline import (
    Headline,
    MissingNumber,
    Numbers,
    correlation,
    mean_error,
    ratio,
)
from stepsim.reproduce.points import Point, Run
from stepsim.reproduce.published import Published
from stepsim.reproduce.settings import published_run, published_settings
from stepsim.workloads import Swiglu

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture


class HardwareModel(NamedTuple):
    """A model of the layer: a level of simulation and a machine.

    Attributes
    ----------
    name : in words.
    points : prefix of the names of its points.
    level, machine : level of simulation, and its machine.
    mark : marker in pictures.
    """

    name: str
    points: str
    level: str
    machine: str
    mark: str


MODELS: Final = (
    HardwareModel("tile level as published", "f8_step", "tile", "sda-hdl", "o"),
    HardwareModel("tile level with DRAM", "f8_dram", "tile", "hdl-arbiter", "s"),
    HardwareModel("hardware level", "f8_hardware", "hardware", "hdl", "D"),
)
"""As the paper's simulator, as the last step of the ladder to the hardware, and as the hardware."""

TILINGS: Final = tuple(
    (tile, inner) for tile in (16, 32, 64) for inner in (16, 32, 64, 128, 256)
)  # fmt: skip
"""Rows and inner columns per tile of the points of the figure."""

_TILES = ("16 rows", "32 rows", "64 rows")


def layer_run(tile: int, inner: int, *, machine: str, level: str = "tile", **more: Any) -> Run:
    """The layer of the figure with one of its tilings, on a machine; more are fields of Run."""
    config = published_settings(Swiglu, 0)
    given = {name: config[name] for name in ("batch", "fifo_depth")}
    given |= {"tile": tile, "tile_inter": inner}
    return published_run("swiglu", given, machine=machine, level=level, **more)


def _hardware_points() -> Iterable[Point]:
    for model in MODELS:
        for tile, inner in TILINGS:
            run = layer_run(tile, inner, machine=model.machine, level=model.level)
            yield Point("8", f"{model.points}_{tile}_{inner}", f"{tile} rows", run)


def _of(rows: Rows, model: HardwareModel) -> Rows:
    return [row for row in rows if str(row["point_id"]).startswith(f"{model.points}_")]


def _draw(rows: Rows) -> Picture:
    """Time over traffic and, where counts of the HDL are known, the errors of each model."""
    title = "Figure 8: SwiGLU layer, levels of simulation and hardware"
    known = any(row.get("hdl_cycles") is not None for row in rows)
    picture, axes = style.panels(2 if known else 1, title=title, height=3.8, width=4.8)
    first = axes[0]
    for model in MODELS:
        # The HDL counts the bytes moved by requests to the DRAM, stop words included.
        traffic = "offchip_bytes" if model is MODELS[0] else "bus_bytes"
        for series in _TILES:
            own = [row for row in _of(rows, model) if row["series"] == series]
            color = style.COLORS[series]
            x, y = values(own, traffic, 1e6), values(own, "cycles", 1e3)
            line = "-" if model is MODELS[0] else "none"
            face = _face(model, color)
            first.plot(
                x, y, color=color, marker=model.mark, markersize=5, linewidth=0.8,
                linestyle=line, markerfacecolor=face,
            )  # fmt: skip
            if model is MODELS[0]:
                first.plot(
                    values(own, "hdl_offchip_bytes", 1e6), values(own, "hdl_cycles", 1e3),
                    color=color, marker="x", markersize=5, linestyle="none",
                )  # fmt: skip
    first.set_xlabel("off-chip traffic (MB)")
    first.set_ylabel("time (thousand cycles)")
    first.set_xlim(0)
    first.set_ylim(0)
    if known:
        _draw_errors(axes[1], rows)
    tiles = [style.solid_mark(style.COLORS[name], f"tiles of {name}") for name in _TILES]
    ours = [
        style.legend_mark(
            one.name,
            color=style.INK,
            marker=one.mark,
            markersize=5,
            markerfacecolor=_face(one, style.INK),
        )
        for one in MODELS
    ]
    theirs = [
        style.legend_mark("HDL", color=style.INK, marker="x"),
        style.legend_mark("published", color=style.INK, marker="_", markersize=11),
    ]  # fmt: skip
    style.legend(picture, [*tiles, *ours, *theirs], compared=known, columns=3)
    return picture


def _face(model: HardwareModel, color: str) -> str:
    """Filled marks are those of the paper's simulator."""
    return color if model is MODELS[0] else "none"


def _draw_errors(axes: Axes, rows: Rows) -> None:
    """Error of every model against the HDL, by tiling; between the points that are known."""
    names: list[str] = []
    for row in _of(rows, MODELS[0]):
        if row.get("hdl_cycles") is None:
            continue
        place, color = len(names), style.COLORS[row["series"]]
        names.append(f"{row['tile']} x {row['tile_inter']}")
        published = row.get("published_cycles")
        if published is not None:
            axes.plot([place], [_error(published, row)], color=color, marker="_",
                      markersize=11, linestyle="none")  # fmt: skip
        for model in MODELS:
            found = [
                _error(one["cycles"], row)
                for one in _of(rows, model)
                if (one["tile"], one["tile_inter"]) == (row["tile"], row["tile_inter"])
            ]
            face = _face(model, color)
            axes.plot([place] * len(found), found, color=color, marker=model.mark, markersize=5,
                      markerfacecolor=face, linestyle="none")  # fmt: skip
    axes.axhline(0, color=style.INK, linewidth=0.8, zorder=1)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize=8)
    axes.set_xlabel("tile")
    axes.set_ylabel("cycles against HDL (%)")


def _error(cycles: int, row: Mapping[str, Any]) -> float:
    return 100 * (cycles / float(row["hdl_cycles"]) - 1)


def _measured(point: Point, published: Published) -> Iterable[tuple[str, int]]:
    """Cycles and traffic of the hardware with the same tiles."""
    given = point.run.parameters
    found = published.hardware.get((given["tile"], given["tile_inter"]))
    if found is not None:
        yield "hdl_cycles", found.cycles
        yield "hdl_offchip_bytes", found.offchip_bytes


def _agreement(rows: Rows) -> list[str]:
    """Accuracy of each model and of the published simulator against hardware, and the traffic."""
    lines = []
    for model in MODELS:
        own = _of(rows, model)
        for name, prefix in ((f"ours, {model.name}", ""), ("published simulator", "published_")):
            try:
                simulated, measured = Numbers(own, prefix).hardware()
            except MissingNumber:
                continue
            errors = [a / b - 1 for a, b in zip(simulated, measured, strict=True)]
            equal = sum(not error for error in errors)
            lines.append(
                f"{name} against HDL cycles, {len(measured)} tilings: Pearson correlation "
                f"{correlation(simulated, measured):.4f}, mean absolute error "
                f"{100 * mean_error(simulated, measured):.2f} %, largest "
                f"{100 * max(errors, key=abs):+.2f} %, equal at {equal}"
            )
    return lines + list(_traffic(_of(rows, MODELS[-1])))


def _traffic(rows: Rows) -> Iterable[str]:
    """How the traffic of the hardware level relates to the published traffic."""
    known = [
        (row["memory_reads"], row["memory_requests"], row["bus_bytes"], row["hdl_offchip_bytes"])
        for row in rows
        if row.get("hdl_offchip_bytes") is not None and row.get("memory_reads") is not None
    ]
    if not known:
        return
    sizes = {moved // requests for _, requests, moved, _ in known}
    if len(sizes) != 1:
        return
    size = sizes.pop()
    others = sorted({theirs // size - reads for reads, _, _, theirs in known})
    writes = sorted({requests - reads for reads, requests, _, _ in known})
    yield (
        f"traffic of the hardware level is its requests x {size} bytes; published accesses are its "
        f"reads + {_span(others)} at {len(known)} tilings, and it has sent {_span(writes)} writes "
        "when the last tile is accepted. How writes were counted is not explained, so only reads "
        "are compared"
    )


def _span(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _numbers(numbers: Numbers, model: HardwareModel) -> tuple[list[float], list[float]]:
    return numbers.hardware(f"{model.points}_")


def _headlines() -> Iterable[Headline]:
    published = MODELS[0]
    yield ratio(
        "8", "Pearson correlation of cycles, STeP simulator vs HDL, 15 tilings",
        lambda n: correlation(*_numbers(n, published)), unit="r", same_points="f8_step_",
    )  # fmt: skip
    yield ratio(
        "8", "(derived) mean absolute relative error of STeP cycles vs HDL",
        lambda n: mean_error(*_numbers(n, published)), unit="fraction", same_points="f8_step_",
    )  # fmt: skip
    for model in MODELS[1:]:
        yield _ours(model, "Pearson correlation of cycles", correlation, "r")
        yield _ours(model, "mean absolute relative error of cycles", mean_error, "fraction")


def _ours(model: HardwareModel, what: str, value: Any, unit: str) -> Headline:
    return ratio(
        "8", f"(ours) {what}, {model.name} vs HDL, 10 tilings",
        lambda n: value(*_numbers(n, model)), unit=unit, note="not in the paper",
    )  # fmt: skip


HARDWARE: Final = Figure(
    "8",
    points=_hardware_points,
    draw=_draw,
    headlines=tuple(_headlines()),
    beside=_measured,
    remarks=_agreement,
)
