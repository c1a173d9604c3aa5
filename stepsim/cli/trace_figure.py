"""Pictures of traces. matplotlib is an optional extra (``pip install stepsim[plot]``)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepsim.atomic import replacing
from stepsim.errors import OutputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from stepsim.trace_io import RequestTrace, RoutingSummary

__all__ = ["FORMATS", "draw_requests", "draw_routing"]

FORMATS = (".png", ".svg")
"""Suffixes of the files that can be written."""

_COLOUR = "#3b6ea5"
_BINS = 80


def draw_routing(summary: RoutingSummary, title: str, path: Path) -> None:
    """Draw the loads of one layer as bars, or of several as a map of load / mean load.

    Raises
    ------
    OutputError : matplotlib is missing, the suffix is another, or the file cannot be written.
    """
    figure = _figure(path)
    axes = figure.add_subplot()
    axes.set_title(title, parse_math=False)
    axes.set_xlabel("expert")
    if len(summary.layers) == 1:
        layer = summary.layers[0]
        axes.bar(range(summary.experts), layer.counts, width=1.0, color=_COLOUR)
        axes.axhline(layer.mean, color="#c8553d", linewidth=1, label=f"mean {layer.mean:.1f}")
        axes.set_ylabel("tokens")
        axes.legend(frameon=False)
    else:
        shares = [layer.counts / layer.mean for layer in summary.layers]
        image = axes.imshow(shares, aspect="auto", interpolation="nearest", cmap="viridis")
        rows = range(0, len(shares), max(1, len(shares) // 12))
        axes.set_yticks(rows, [str(summary.layers[row].layer) for row in rows])
        axes.set_ylabel("layer")
        figure.colorbar(image, label="load / mean load of the layer")
    _save(figure, path)


def draw_requests(trace: RequestTrace, title: str, path: Path) -> None:
    """Draw how the lengths of the requests are distributed.

    Raises
    ------
    OutputError : as `draw_routing`.
    """
    figure = _figure(path)
    axes = figure.add_subplot()
    axes.set_title(title, parse_math=False)
    parts = {"context": trace.context_tokens, "generated": trace.generated_tokens}
    known = {name: values for name, values in parts.items() if values is not None}
    # Counts are compared, so that all bins have one width.
    edges = np.histogram_bin_edges(np.concatenate(list(known.values())), bins=_BINS).tolist()
    for name, values in known.items():
        axes.hist(values, bins=edges, histtype="step", linewidth=1.4, label=f"{name} tokens")
    axes.set_xlabel("tokens")
    axes.set_ylabel("requests")
    axes.set_yscale("log")
    axes.legend(frameon=False)
    _save(figure, path)


def _figure(path: Path) -> Figure:
    if path.suffix.lower() not in FORMATS:
        raise OutputError(
            f"{path}: the suffix is {path.suffix or 'missing'}, expected {' or '.join(FORMATS)}"
        )
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as _Figure
    except ImportError as error:
        raise OutputError(
            f"{path}: drawing needs matplotlib; install it with: pip install 'stepsim[plot]'"
        ) from error
    figure = _Figure(figsize=(7.2, 4.4), dpi=160, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, path: Path) -> None:
    import matplotlib as mpl

    kind = path.suffix.lower().removeprefix(".")
    # Without a date and with fixed ids, the same trace gives the same bytes.
    metadata = {"Date": None} if kind == "svg" else {}
    with replacing(path) as (part,), mpl.rc_context({"svg.hashsalt": "stepsim"}):
        figure.savefig(part, format=kind, metadata=metadata)
