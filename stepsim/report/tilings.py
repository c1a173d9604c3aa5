"""The picture of a comparison of tilings: cycles over on-chip memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stepsim.errors import ArgError
from stepsim.report.saving import save_picture
from stepsim.report.style import COLORS, OPEN, empty
from stepsim.typed import typed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LOOK = {**OPEN, "font.size": 10, "axes.labelsize": 10, "axes.titlesize": 11, "legend.fontsize": 9}
"""Size of a figure: one pair of axes has more room than the panels of a figure."""


@dataclass(frozen=True, slots=True)
class TilingPoint:
    """One run of a comparison of tilings.

    Attributes
    ----------
    label : text next to the point, e.g. ``"32"`` or ``"dynamic"``.
    dynamic : whether the tile follows the number of tokens.
    onchip_bytes, cycles : position of the point.
    """

    label: str
    dynamic: bool
    onchip_bytes: int
    cycles: int


@typed
def draw_tilings(
    points: Sequence[TilingPoint], title: str, path: str | Path, *, counting: str
) -> None:
    """Draw cycles over on-chip memory, one labeled point per run, into an image file.

    Static tilings are joined by a line; lower left is better. ``counting`` says how bytes are
    counted. The suffix of ``path`` chooses the
    format: .png, .svg or .pdf. The file is written completely or not at all.

    Raises
    ------
    ArgError : there are no points, or a text has characters that cannot be written.
    OutputError : the suffix is not supported, matplotlib is missing, or the file cannot be written.
    """
    if not points:
        raise ArgError("draw_tilings: expected at least one point, found none")
    texts = {"title": title, "counting": counting}
    save_picture(partial(_draw, points, title, counting), path, _LOOK, texts=texts)


def _draw(points: Sequence[TilingPoint], title: str, counting: str) -> Figure:
    figure, axes = empty(6.4, 4.4, layout="constrained")
    for dynamic, marker, name in ((False, "o", "static"), (True, "D", "dynamic")):
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
            color=COLORS[name],
            label=f"{name} tiles",
        )
        for point in chosen:
            axes.annotate(
                point.label,
                (point.onchip_bytes / 1e6, point.cycles / 1e3),
                xytext=(7, -14 if dynamic else 6),
                textcoords="offset points",
                fontsize=9,
                color=COLORS[name],
                parse_math=False,
            )
    axes.set_title(title, parse_math=False)
    axes.set_xlabel(f"on-chip memory ({counting}, MB)")
    axes.set_ylabel("time (thousand cycles)")
    axes.set_ylim(bottom=0, top=1.12 * max(point.cycles for point in points) / 1e3)
    axes.set_xlim(left=0, right=1.12 * max(point.onchip_bytes for point in points) / 1e6)
    axes.tick_params(labelsize=9)
    axes.legend()
    return figure
