"""Pictures of traces: the loads of experts, the lengths of requests."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stepsim.deferred import deferred
from stepsim.report.saving import save_picture
from stepsim.report.style import BLUE, FRAMED, VERMILION, empty
from stepsim.typed import typed

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from stepsim.trace_io import RequestTrace, RoutingSummary
else:
    np = deferred("numpy")

_BINS = 80


@typed
def draw_routing(summary: RoutingSummary, title: str, path: str | Path) -> None:
    """Draw the loads of one layer as bars, or of several as a heat map of load / mean load.

    The suffix of ``path`` chooses the format: .png, .svg or .pdf. The file is written completely or
    not at all.

    Raises
    ------
    OutputError : the suffix is not supported, matplotlib is missing, or the file cannot be written.
    """
    save_picture(partial(_routing, summary, title), path, FRAMED, texts={"title": title})


@typed
def draw_requests(trace: RequestTrace, title: str, path: str | Path) -> None:
    """Draw how the lengths of the requests are distributed, into a file like `draw_routing`.

    Raises
    ------
    OutputError : as for `draw_routing`.
    """
    save_picture(partial(_requests, trace, title), path, FRAMED, texts={"title": title})


def _routing(summary: RoutingSummary, title: str) -> Figure:
    figure, axes = _titled(title)
    axes.set_xlabel("expert")
    if len(summary.layers) == 1:
        layer = summary.layers[0]
        axes.bar(range(summary.experts), layer.counts, width=1.0, color=BLUE)
        axes.axhline(layer.mean, color=VERMILION, linewidth=1, label=f"mean {layer.mean:.1f}")
        axes.set_ylabel("tokens")
        axes.legend(frameon=False)
    else:
        shares = [layer.counts / layer.mean for layer in summary.layers]
        image = axes.imshow(shares, aspect="auto", interpolation="nearest", cmap="viridis")
        rows = range(0, len(shares), max(1, len(shares) // 12))
        axes.set_yticks(rows, [str(summary.layers[row].layer) for row in rows])
        axes.set_ylabel("layer")
        figure.colorbar(image, label="load / mean load of the layer")
    return figure


def _requests(trace: RequestTrace, title: str) -> Figure:
    figure, axes = _titled(title)
    parts = (
        ("context", BLUE, trace.context_tokens),
        ("generated", VERMILION, trace.generated_tokens),
    )
    known = [(name, color, lengths) for name, color, lengths in parts if lengths is not None]
    # Counts are compared, so all bins have the same width.
    edges = np.histogram_bin_edges(np.concatenate([part[2] for part in known]), bins=_BINS).tolist()
    for name, color, lengths in known:
        label = f"{name} tokens"
        axes.hist(lengths, bins=edges, histtype="step", linewidth=1.4, color=color, label=label)
    axes.set_xlabel("tokens")
    axes.set_ylabel("requests")
    axes.set_yscale("log")
    axes.legend(frameon=False)
    return figure


def _titled(title: str) -> tuple[Figure, Axes]:
    figure, axes = empty(7.2, 4.4, layout="constrained")
    axes.set_title(title, parse_math=False)
    return figure, axes
