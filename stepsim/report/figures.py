"""Pictures of results. matplotlib is an optional extra (``pip install stepsim[plot]``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stepsim.atomic import replacing
from stepsim.errors import OutputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TilingPoint", "draw_cycles_against_memory"]

_STATIC = "#3b6ea5"
_DYNAMIC = "#c8553d"
_INK = "#333333"


@dataclass(frozen=True, slots=True)
class TilingPoint:
    """One run of a comparison of tilings.

    Attributes
    ----------
    label : what to write beside the point, e.g. ``"32"`` or ``"dynamic"``.
    dynamic : whether the tile follows the number of tokens.
    onchip_bytes, cycles : where the point lies.
    """

    label: str
    dynamic: bool
    onchip_bytes: int
    cycles: int


def draw_cycles_against_memory(points: Sequence[TilingPoint], title: str, path: Path) -> None:
    """Draw cycles over on-chip memory, one labelled point per run, into an image file.

    Static tilings are joined by a line; lower left is better. The suffix of ``path`` chooses the
    format. The file appears complete or not at all.

    Raises
    ------
    OutputError : matplotlib is missing, or the file cannot be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as _Figure
    except ImportError as error:
        raise OutputError(
            f"{path}: drawing needs matplotlib; install it with: pip install 'stepsim[plot]'"
        ) from error

    figure = _Figure(figsize=(6.4, 4.4), dpi=160, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for dynamic, colour, marker, name in (
        (False, _STATIC, "o", "static tiles"),
        (True, _DYNAMIC, "D", "dynamic tiles"),
    ):
        chosen = [point for point in points if point.dynamic is dynamic]
        if not chosen:
            continue
        axes.plot(
            [point.onchip_bytes / 1e6 for point in chosen],
            [point.cycles / 1e3 for point in chosen],
            marker=marker,
            linestyle="none" if dynamic else "-",
            linewidth=1.2,
            markersize=7,
            color=colour,
            label=name,
        )
    for point in points:
        axes.annotate(
            point.label,
            (point.onchip_bytes / 1e6, point.cycles / 1e3),
            xytext=(7, -14 if point.dynamic else 6),
            textcoords="offset points",
            fontsize=9,
            color=_DYNAMIC if point.dynamic else _STATIC,
        )
    axes.set_title(title, fontsize=11, color=_INK, loc="left")
    axes.set_xlabel("on-chip memory (MB)", color=_INK)
    axes.set_ylabel("time (thousand cycles)", color=_INK)
    axes.set_ylim(bottom=0, top=1.12 * max(point.cycles for point in points) / 1e3)
    axes.set_xlim(left=0, right=1.12 * max(point.onchip_bytes for point in points) / 1e6)
    axes.grid(color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=_INK, labelsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    try:
        with replacing(path) as (part,):
            figure.savefig(part, format=path.suffix.lower().removeprefix("."))
    except ValueError as error:
        raise OutputError(
            f"{path}: the picture cannot be written ({error}); give it one of the suffixes .png, "
            ".pdf and .svg"
        ) from error
